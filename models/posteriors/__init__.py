"""Gaussians over weights, and bounds as training objectives."""

from latecomer.extras import require

require("torch")
