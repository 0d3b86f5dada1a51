"""Data sets; a module of this folder declares some as its ``READERS``."""
