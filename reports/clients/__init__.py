"""Figures and tables of what else a study asked about its models."""
