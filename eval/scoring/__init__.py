"""Serving clients and scoring what they are served."""
