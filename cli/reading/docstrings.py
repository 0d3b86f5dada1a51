"""What numpydoc sections say of each name: docstrings are where a setting's meaning stands."""

import inspect
import re
from collections.abc import Callable
from typing import NamedTuple

_ROLE = re.compile(r":\w+:`~?([^`]+)`")


class Documented(NamedTuple):
    """What a docstring says of one name: its kind and range, and what it means."""

    kind: str
    meaning: str


def plain(text: str) -> str:
    """Drop the marks of references and code."""
    return _ROLE.sub(lambda role: role[1].rpartition(".")[2], text).replace("``", "")


def documented(
    docstring: str | None, section: str = "Parameters", *, shown: Callable[[str], str] = plain
) -> dict[str, Documented]:
    """Return what a numpydoc section says, by name; entries of several names are each one's.

    Parameters
    ----------
    docstring : str or None
    section : str
        Its heading.
    shown : callable
        What becomes of the text's marks.

    Examples
    --------
    >>> documented(documented.__doc__)["section"]
    Documented(kind='str', meaning='Its heading.')
    """
    found: dict[str, Documented] = {}
    names: list[str] = []
    kind, told = "", list[str]()
    for line in [*_section(inspect.cleandoc(docstring or ""), section), "end"]:
        if line.startswith(" ") or not line:
            told.append(line.strip())
            continue
        meaning = shown(" ".join(told).strip())
        found |= {name.lstrip("*"): Documented(shown(kind), meaning) for name in names if name}
        listed, _, kind = line.partition(" : ")
        continued = names if names and not names[-1] else []
        names, told = [*continued[:-1], *re.split(r",(?: |$)", listed)], []
    return found


def prose(docstring: str | None) -> str:
    """Return what stands before the first section, without marks.

    Examples
    --------
    >>> prose(prose.__doc__)
    'Return what stands before the first section, without marks.'
    """
    return plain(re.split(r"\n\n\S+\n-{3,}\n", inspect.cleandoc(docstring or ""))[0])


def _section(docstring: str, section: str) -> list[str]:
    _, _, rest = docstring.partition(f"\n{section}\n{'-' * len(section)}\n")
    lines: list[str] = []
    for line in rest.splitlines():
        if re.fullmatch(r"-{3,}", line):
            return lines[:-1]
        lines.append(line)
    return lines
