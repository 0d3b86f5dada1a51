"""Typed settings: the sections that studies and cells share, and a cell's configuration."""

from typing import TYPE_CHECKING

from latecomer.moved import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
