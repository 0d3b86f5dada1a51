"""Routes to a certificate, R0 to R5: what an entry may say and what is done for it."""

from typing import TYPE_CHECKING

from latecomer.moved import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
