"""Rows to frames, by pure functions; figures and tables are made from frames alone."""

from typing import TYPE_CHECKING

from latecomer.moved import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
