"""Placeholder docstring of latecomer.eval."""

if __name__ != "latecomer.eval":
    raise ImportError("import latecomer.eval, not the folder eval")
