"""Rows to frames, by pure functions; figures and tables are made from frames alone."""
