"""Which rows the seen, certification and novel clients hold."""
