"""What is learnt: target nets without parameters of their own, losses, samples and clients."""

from latecomer.errors import require

require("torch")
