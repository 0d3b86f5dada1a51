"""Certificates from clients held out of training: means, counts, bets, curves and their price."""
