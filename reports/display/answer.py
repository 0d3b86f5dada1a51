"""The form of an answer, and the question that it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Material
from latecomer.reports.display.table import Table


@dataclass(frozen=True)
class Answer:
    """One sentence that answers, up to three that support it, and what they were made from.

    Attributes
    ----------
    sentence : str
        The answer.
    more : tuple of str
        At most three sentences.
    numbers : mapping
        Every number of the sentences by name, as a fraction or a count.
    aside : str
        A sentence for the page alone; what a terminal shows stays short.
    table : Table
        What to look at first, for the page and the terminal.
    figures : tuple of Plot
        The figure of the first screen, then others.
    """

    sentence: str
    more: tuple[str, ...]
    table: Table
    figures: tuple[Plot, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    aside: str = ""


@dataclass(frozen=True)
class Question:
    """Something that a study may ask of its run: a module of the chapter it belongs to holds it.

    Attributes
    ----------
    name : str
        As in the study; `eval.settings.questions` has it in words.
    answer : callable
        From the run's `Material` to the answer; None where the run cannot give one.
    """

    name: str
    answer: Callable[[Material], Answer | None]
