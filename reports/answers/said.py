"""The form of an answer, and of the figure that belongs to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import pandas as pd
from matplotlib.figure import Figure

from latecomer.reports.display.drawing import Looks

__all__ = ["Answer", "DrawWith", "Shown"]


class DrawWith(Protocol):
    """A figure waiting for the look of every label and its width in inches."""

    def __call__(self, looks: Looks, *, width: float) -> Figure:
        """Draw it."""


@dataclass(frozen=True)
class Shown:
    """A figure with its title, its words and the numbers behind it.

    Attributes
    ----------
    name, title : str
        Stem of its files; heading.
    draw : callable
        Takes looks and ``width``.
    alt, caption : str
        What it shows, for who cannot see it; how to read it.
    data : pandas.DataFrame
        The numbers.
    """

    name: str
    title: str
    draw: DrawWith
    alt: str
    caption: str
    data: pd.DataFrame


@dataclass(frozen=True)
class Answer:
    """One sentence that answers, up to three that carry it, and what they were made from.

    Attributes
    ----------
    asks : str
        ``bounds``, ``shift``, ``gap``, ``accuracy``, ``paper`` or ``certificate``.
    sentence : str
        The answer; empty where the run does not hold it.
    more : tuple of str
        At most three sentences.
    numbers : mapping
        Every number of the sentences by name, as a fraction or a count.
    table : pandas.DataFrame
        What to look at first, as text, for the page and the terminal.
    figures : tuple of Shown
        The figure of the first screen, then others.
    """

    asks: str
    sentence: str
    more: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    figures: tuple[Shown, ...] = ()
