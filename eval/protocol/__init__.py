"""What one cell does: train, serve, score, certify."""
