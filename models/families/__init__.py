"""Parts that several methods share, grouped by what represents a client in them."""

from latecomer.errors import require

require("torch")
