"""Kinds of shift; each module here declares its own in ``SHIFTS``."""
