"""Kinds of split, each with its settings and how it fills clients in one place."""
