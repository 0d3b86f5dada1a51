"""What each section of the page shows, and the sentences beside it."""

from typing import TYPE_CHECKING

from latecomer.moved import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
