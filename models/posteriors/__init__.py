"""Gaussians over weights, and bounds as training objectives."""
