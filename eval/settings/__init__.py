"""Typed settings: the sections that studies and cells share, and a cell's configuration."""
