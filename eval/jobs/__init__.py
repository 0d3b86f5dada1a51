"""One cell carried out: its folder, lock, checkpoints and progress."""
