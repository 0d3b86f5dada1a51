"""What studies and cells are told: the sections they share, and a cell's configuration, typed."""

from typing import TYPE_CHECKING

from latecomer.moved import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
