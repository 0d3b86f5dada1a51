"""A whole run: its directory, which cells are done, who does the others."""
