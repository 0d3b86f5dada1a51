"""Baxter's covering-number bounds, for clients seen and clients unseen."""
