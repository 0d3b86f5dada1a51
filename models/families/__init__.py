"""Parts that several methods share, grouped by what represents a client in them."""

from latecomer.extras import require

require("torch")
