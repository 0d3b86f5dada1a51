"""Kinds of shift; a module of this folder declares some as its ``SHIFTS``."""
