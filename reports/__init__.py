"""Placeholder docstring of latecomer.reports."""

if __name__ != "latecomer.reports":
    raise ImportError("import latecomer.reports, not the folder reports")
