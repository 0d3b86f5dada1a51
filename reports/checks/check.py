"""The form of a check, how a run is put to all of them, and the file of what they found."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

import pandas as pd

from latecomer.reports.display.section import Material


@dataclass(frozen=True)
class Found:
    """What a check finds once.

    A sentence with its number (of errors a fraction, not per cent), the label of the model it is
    about, empty for the run, and its seeds; empty: all of the model's.
    """

    sentence: str
    value: float
    label: str = ""
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Check:
    """Something that makes a run's numbers say less than they seem to.

    Attributes
    ----------
    code : str
        ``LC`` and three digits; a code is never used again for anything else.
    title : str
        What it finds, as a heading.
    find : callable
        From `Material` to what there is to say, mostly nothing.
    why : str
        Why it matters.
    clear : str
        What makes it go away.
    ignore : str
        When it may be ignored.
    """

    code: str
    title: str
    find: Callable[[Material], Iterable[Found]]
    why: str
    clear: str
    ignore: str


@dataclass(frozen=True)
class Finding(Found):
    """What a check found in a run, with all seeds it is about."""

    check: Check = field(kw_only=True)


def findings(material: Material, checks: Iterable[Check]) -> list[Finding]:
    """List what checks find in a run, but for those that its study ignores."""
    ignored = set((material.study.get("evaluation") or {}).get("ignore") or ())
    rows = material.rows[["label", "seed"]].dropna()
    seeds = {str(label): own.unique() for label, own in rows.groupby("label")["seed"]}
    seeds[""] = rows["seed"].unique()

    def about(found: Found) -> tuple[int, ...]:
        return found.seeds or tuple(sorted(int(seed) for seed in seeds.get(found.label, ())))

    return [
        Finding(found.sentence, found.value, found.label, about(found), check=check)
        for check in checks
        if check.code not in ignored
        for found in check.find(material)
    ]


def by_check(found: Sequence[Finding]) -> list[list[Finding]]:
    """Put findings of one check together, in the order of checks."""
    return [[*own] for _, own in groupby(found, key=attrgetter("check.code"))]


COLUMNS = ("code", "method", "seed", "what", "value", "sentence")


def findings_file(found: Sequence[Finding]) -> str:
    """Write findings as CSV, one a line; the head alone where there are none.

    ``method`` is the label that the report gives the model, blank where it is about the run;
    ``seed`` are the seeds it is about, with spaces between; ``what`` is the check's title, and
    ``value`` the number in the sentence, of errors a fraction.
    """
    lines = []
    for one in found:
        seeds = " ".join(map(str, one.seeds))
        about = (one.check.code, one.label, seeds, one.check.title, one.value, one.sentence)
        lines.append(dict(zip(COLUMNS, about, strict=True)))
    return pd.DataFrame(lines, columns=list(COLUMNS)).to_csv(index=False, lineterminator="\n")
