"""Bounds on the risk of clients that took no part in training."""
