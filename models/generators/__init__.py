"""Networks that make networks: hypernetworks, and the encoders that describe clients to them."""

from latecomer.extras import require

require("torch")
