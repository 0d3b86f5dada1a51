"""Which rows the seen, certification and new clients hold."""
