"""The form of a check, and how a run is put to all of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from latecomer.reports.display.section import Material


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
        From `Material` to one sentence a finding; none where there is nothing to say.
    why : str
        Why it matters.
    clear : str
        What makes it go away.
    ignore : str
        When it may be ignored.
    """

    code: str
    title: str
    find: Callable[[Material], Iterable[str]]
    why: str
    clear: str
    ignore: str


@dataclass(frozen=True)
class Finding:
    """What a check found in a run, in one sentence."""

    check: Check
    sentence: str


def findings(material: Material, checks: Iterable[Check]) -> list[Finding]:
    """List what checks find in a run, but for those that its study ignores.

    Parameters
    ----------
    material : Material
        Of the run.
    checks : iterable of Check
    """
    ignored = set((material.study.get("evaluation") or {}).get("ignore") or ())
    return [
        Finding(check, sentence)
        for check in checks
        if check.code not in ignored
        for sentence in check.find(material)
    ]
