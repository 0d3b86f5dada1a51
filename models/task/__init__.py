"""What is learnt: target nets without parameters of their own, losses, samples and clients."""

from typing import TYPE_CHECKING

from latecomer.extras import require
from latecomer.moved import old_names

require("torch")

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
