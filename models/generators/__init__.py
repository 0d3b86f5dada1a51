"""Networks that make networks: hypernetworks, and the encoders that describe clients to them."""

from latecomer.errors import require

require("torch")
