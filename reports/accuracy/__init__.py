"""Figures and tables of measured errors: comparisons, shifts, training, the papers' numbers."""
