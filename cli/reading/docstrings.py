"""What numpydoc sections say of each name: docstrings are where a setting's meaning stands."""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_HEADING = re.compile(r"\n*^([A-Z]\w+)\n-{3,}\n", re.MULTILINE)
_SECTIONS = ("Parameters", "Returns", "Raises", "Examples")
F = TypeVar("F", bound=Callable[..., Any])


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


def told_in_full(*texts: str) -> Callable[[F], F]:
    r"""Give ``help()`` of a function an entry for every parameter, and sections that it lacks.

    What several functions take is written once, as numpydoc sections; a page says where, with a
    link, but a terminal has none.  The first text that has an entry or a section gives it.  What a
    function takes by ``**keyword`` are the parameters of the texts that are not in its signature.

    Examples
    --------
    >>> @told_in_full("Parameters\n----------\nx, y : float\n    A side, in metres.")
    ... def area(x, y):
    ...     '''Multiply.'''
    >>> area.__doc__.splitlines()[-2:]
    ['y : float', '    A side, in metres.']
    """

    def complete(function: F) -> F:
        own, others = _sections(function.__doc__), [_sections(text) for text in texts]
        shared: dict[str, str] = {}
        for one in others:
            shared = _entries(one.get("Parameters", "")) | shared
        entries = _entries(own.get("Parameters", "")) | shared
        given = inspect.signature(function).parameters
        keywords = [name for name, one in given.items() if one.kind is one.VAR_KEYWORD]
        listed = [f"**{name}" if name in keywords else name for name in given]
        if keywords:
            listed += [name for name in shared if name not in listed]
        told: dict[str, str] = {}
        for one in (own, *others):
            told = one | told
        told["Parameters"] = "\n".join(entries[name] for name in listed)
        parts = [f"{name}\n{'-' * len(name)}\n{told[name]}" for name in _SECTIONS if name in told]
        function.__doc__ = "\n\n".join([told[""], *parts]) + "\n"
        return function

    return complete


def _sections(docstring: str | None) -> dict[str, str]:
    """Return the sections of a docstring by heading, what stands before them under no heading."""
    head, *rest = _HEADING.split(f"\n{inspect.cleandoc(docstring or '')}")
    return {"": head.strip()} | dict(zip(rest[::2], map(str.rstrip, rest[1::2]), strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by name; one of several names is an entry of each."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", section):
        listed, colon, rest = entry.partition(" : ")
        if not colon:
            listed, _, rest = entry.partition("\n")
            rest = f"\n{rest}" if rest else ""
        found |= {name: f"{name}{colon}{rest}" for name in listed.split(", ") if name}
    return found
