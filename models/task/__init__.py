"""What is learnt: target nets without parameters of their own, losses, samples and clients."""

from latecomer.extras import require

require("torch")
