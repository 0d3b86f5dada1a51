"""What new clients lose as inputs, labels or populations shift."""
