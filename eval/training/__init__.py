"""What every training of a model needs: set-up, checkpoints, its curve, the trained model."""
