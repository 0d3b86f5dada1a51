"""What one new client may meet: thresholds of sets of labels, the next site."""
