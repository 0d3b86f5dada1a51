"""Statements about unseen clients from the losses of clients held out."""
