"""What a study may ask about a trained model besides its errors."""

from typing import TYPE_CHECKING

from latecomer.moved import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
