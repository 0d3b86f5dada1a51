"""Readers of data sets; each module here declares its own in ``READERS``."""
