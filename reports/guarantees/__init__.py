"""Figures and tables of certificates: what they say, what they are made of, how tight they are."""

from typing import TYPE_CHECKING

from latecomer.moved import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
