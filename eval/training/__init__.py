"""Parts of every training run: set-up, checkpoints, training curve, trained model."""
