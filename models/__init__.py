"""Placeholder docstring of latecomer.models."""

if __name__ != "latecomer.models":
    raise ImportError("import latecomer.models, not the folder models")
