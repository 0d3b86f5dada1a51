"""Sections of the page, and answers to its questions: blocks from top to bottom."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import pandas as pd

from latecomer.certify.page.blocks import Facts, Heading, Items, Listing, Text
from latecomer.eval.results.rows import RunRecord
from latecomer.reports.display.drawing import Looks, looks
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.frames.bounds import anatomy_frame, bound_frame, ledger_frame
from latecomer.reports.frames.chosen import choose, declared_certificates
from latecomer.reports.frames.errors import (
    accuracy_frame,
    cell_tables,
    client_errors,
    dealt_shifts,
    in_order,
    labels_in,
    primary_predictor,
    serving_steps,
    shift_frame,
)
from latecomer.reports.frames.gaps import gap_intervals, gaps_beside, gaps_less_alone

__all__ = [
    "Block",
    "Facts",
    "Files",
    "Group",
    "Heading",
    "Items",
    "Listing",
    "Material",
    "Section",
    "Text",
    "tabled",
]


@dataclass(frozen=True)
class Group:
    """Blocks side by side, or folded away under a summary."""

    blocks: Sequence["Block"]
    summary: str = ""
    kind: ClassVar[str] = "group"


@dataclass(frozen=True)
class Files:
    """Files that go beside the page, by name; the page does not show them."""

    content: Mapping[str, str]
    kind: ClassVar[str] = "files"


Block = Heading | Text | Items | Listing | Facts | Group | Files | Plot | Table


@dataclass(frozen=True)
class Material:
    """What sections are made from.

    Attributes
    ----------
    run : RunRecord
        Its rows are those of the study's models.
    everything : pandas.DataFrame
        Those rows, and the ones of models trained with nobody held out.
    labels : sequence of str
        The models' labels in the order of the study.
    looks : mapping
        Colour and mark per label.
    cited : list of str
        Keys of the bibliography that the page's sections have called for so far.
    """

    run: RunRecord
    everything: pd.DataFrame
    labels: Sequence[str]
    looks: Looks
    cited: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, run: RunRecord) -> "Material":
        """Take what a run holds; set aside models that only show what holding clients out costs."""
        whole = [
            cell.config["method"]["label"]
            for cell in run.cells
            if cell.config.get("kind") == "whole"
        ]
        own = replace(run, rows=run.rows[~run.rows["label"].isin(whole)])
        labels = labels_in(own.rows, run.study.get("methods") or ())
        return cls(own, run.rows, labels, looks(labels))

    @property
    def rows(self) -> pd.DataFrame:
        """Rows of the run."""
        return self.run.rows

    @property
    def study(self) -> dict[str, Any]:
        """The resolved study."""
        return self.run.study

    def tables(self, kind: str) -> list[tuple[str, int, Any]]:
        """List the tables of one kind that the models' cells left: label, seed, records."""
        return cell_tables(self.run, kind)

    def ordered(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Sort a frame as the study lists its models."""
        return in_order(frame, self.labels)

    # Frames that several sections use, each made once; copy one before changing it.
    errors = cached_property(lambda self: client_errors(self.rows))
    steps = cached_property(lambda self: serving_steps(self.rows, self.study.get("methods") or ()))
    accuracy = cached_property(lambda self: accuracy_frame(self.errors))
    one_a_label = cached_property(lambda self: _one_a_label(self.errors, self.accuracy))
    gaps = cached_property(lambda self: gaps_beside(self.errors, self.mean_gaps))
    mean_gaps = cached_property(lambda self: gap_intervals(self.rows))
    gaps_less_alone = cached_property(lambda self: gaps_less_alone(self.errors))
    shifts = cached_property(lambda self: shift_frame(self.errors))
    dealt = cached_property(lambda self: dealt_shifts(self.errors))
    bounds = cached_property(lambda self: bound_frame(self.rows))
    declared = cached_property(lambda self: declared_certificates(self.bounds, self.study))
    choice = cached_property(lambda self: choose(self.declared, self.rows, self.study))
    anatomy = cached_property(lambda self: anatomy_frame(self.rows, self.bounds))
    ledger = cached_property(lambda self: ledger_frame(self.tables("certificates")))


def _one_a_label(errors: pd.DataFrame, accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return the ``accuracy_frame`` of one predictor a label, these being compared by themselves.

    A model that stands out of these need not do so of all, and the other way round.
    """
    own = primary_predictor(errors)
    return accuracy if len(own) == len(errors) else accuracy_frame(own)


def tabled(
    make: Callable[[Material], pd.DataFrame], table: Callable[[pd.DataFrame, Sequence[str]], Table]
) -> Callable[[Material], list[Block]]:
    """Show a frame's table alone, and nothing where the frame is empty."""

    def show(material: Material) -> list[Block]:
        frame = make(material)
        return [table(frame, material.labels)] if len(frame) else []

    return show


@dataclass(frozen=True)
class Section:
    """One section of the page.

    Attributes
    ----------
    name : str
        Its anchor, and its name in the order of a page.
    show : callable
        From `Material` to blocks from top to bottom; none where the run has nothing for it.
    title : str
        Heading; empty if the section continues under the heading before or has several.
    tag, style : str
        Beside the heading.
    cites : tuple of str
        Keys of the bibliography that it calls for where it shows anything.
    chapter : str
        The chapter at whose end it stands in a page that does not list it.
    """

    name: str
    show: Callable[[Material], Iterable[Block]]
    title: str = ""
    tag: str = ""
    style: str = ""
    cites: tuple[str, ...] = ()
    chapter: str = "accuracy"

    def blocks(self, material: Material) -> list[Block]:
        """Lay its blocks, the heading first; none where the run has nothing for it."""
        shown = list(self.show(material))
        if shown:
            material.cited.extend(self.cites)
        heading = Heading(self.title, self.name, self.tag, self.style)
        return [heading, *shown] if shown and self.title else shown


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
        As in the study; `eval.settings.study_sections` has it in words.
    answer : callable
        From the run's `Material` to the answer; None where the run cannot give one.
    """

    name: str
    answer: Callable[[Material], Answer | None]
