"""What stands where on a page: chapters and, by name, the sections in each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from latecomer.reports.display.section import Section

T = TypeVar("T")
# Every Section that a module of these folders holds can stand on a page.
WINGS = ("accuracy", "guarantees", "shift", "clients", "page")


@dataclass(frozen=True)
class Chapter:
    """A part of the page with a heading, which its navigation names.

    A chapter with a ``box`` of sections at its opening shows no heading.  It is ``open_for``
    studies that ask one of these questions and folded for others, as what does not answer the
    question makes a page long; None: always open.
    """

    name: str
    title: str
    sections: tuple[str, ...]
    box: tuple[str, ...] = ()
    open_for: tuple[str, ...] | None = None

    def is_folded(self, asked: Sequence[str]) -> bool:
        """Say whether it is folded in the page of a study that asks this."""
        return self.open_for is not None and not set(self.open_for) & set(asked)


CHAPTERS = (
    Chapter(
        "answer", "Answer", ("every-model",), box=("scale", "asked", "checks", "missing-cells")
    ),
    Chapter(
        "accuracy",
        "Accuracy",
        (
            *("best", "accuracy", "gap", "sameness", "training", "convergence", "denoising"),
            *("comparison", "serving", "paper"),
        ),
        open_for=("accuracy", "paper"),
    ),
    Chapter(
        "guarantees",
        "Guarantees",
        (
            *("bounds", "each-bound", "issued-afterwards", "variances", "slack", "bound-order"),
            *("prices", "certified-shares", "error-distribution", "next-client", "sets"),
            "next-population",
        ),
        open_for=(),
    ),
    Chapter(
        "shift",
        "Shift",
        ("answers-under-shift", "shift", "shift-effect", "samples-missing"),
        open_for=(),
    ),
    Chapter(
        "clients",
        "Clients",
        ("classes", "distances", "likeness", "descriptors", "descriptor-ranks", "mix-and-match"),
        open_for=(),
    ),
    Chapter(
        "method",
        "How it was done",
        ("set-up", "protocol", "protocols", "failures", "commands", "bibtex", "files"),
    ),
)
"""A page whose sections are grouped by subject."""


def sections() -> dict[str, Section]:
    """Find every section by its name, in the modules of the folders that hold them."""
    by_name: dict[str, Section] = {}
    for section in held(Section):
        if by_name.setdefault(section.name, section) is not section:
            raise ValueError(f"two sections of the page are named {section.name!r}")
    return by_name


def held(kind: type[T], wings: Sequence[str] = WINGS) -> Iterator[T]:
    """Yield what the modules of these folders hold of one kind, folder by folder."""
    for wing in wings:
        package = import_module(f"latecomer.reports.{wing}")
        for name in sorted(module.name for module in iter_modules(package.__path__)):
            module = import_module(f"{package.__name__}.{name}")
            yield from (one for one in vars(module).values() if isinstance(one, kind))


def placed(
    chapters: tuple[Chapter, ...], known: dict[str, Section]
) -> list[tuple[Chapter, list[Section], list[Section]]]:
    """List each chapter with the sections of its box and those below.

    A section that no chapter lists stands at the end of the chapter that it names itself, so a
    new section needs no entry here.
    """
    listed = {name for chapter in chapters for name in (*chapter.box, *chapter.sections)}
    rest = [section for name, section in known.items() if name not in listed]
    return [
        (
            chapter,
            [known[name] for name in chapter.box],
            [known[name] for name in chapter.sections]
            + [section for section in rest if section.chapter == chapter.name],
        )
        for chapter in chapters
    ]
