"""Figures and tables of certificates: what they say, what they are made of, how tight they are."""
