"""Serving clients and scoring the models they are served."""
