"""Groups of clients as tensors, and distances between groups."""
