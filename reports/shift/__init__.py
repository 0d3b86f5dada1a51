"""What newcomers lose as inputs, labels or populations shift."""
