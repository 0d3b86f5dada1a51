"""What code declares of itself: entries that modules of a folder hold, and sections of docstrings.

What loads a lot is declared by its place, ``module:name``, and imported when it is used.
"""

import hashlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple


def declared(package: str, table: str) -> Mapping[str, Any]:
    """Collect by name the entries of the tuple ``table`` in each module of a package.

    Modules are imported in the order of their names; two that declare one name are refused.

    Examples
    --------
    >>> rules = declared("latecomer.certify.rules", "RULES")
    >>> rules["conformal"].words
    'conformal quantile'
    """
    collected: dict[str, Any] = {}
    for info in iter_modules(import_module(package).__path__):
        module = import_module(f"{package}.{info.name}")
        for one in getattr(module, table, ()):
            if one.name in collected:
                raise ValueError(f"{table}: {one.name!r} is declared twice, again by {info.name}")
            collected[one.name] = one
    return MappingProxyType(collected)


def imported(place: str) -> Any:
    """Import what a place names, ``module:name``.

    Examples
    --------
    >>> imported("math:tau") > 6
    True
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def without_folder(place: str) -> str:
    """Name a place in a file by the file alone, as readers are told of it.

    >>> without_folder("/home/me/mine.py:r"), without_folder("package.module:r")
    ('mine.py:r', 'package.module:r')
    """
    return place.rpartition("/")[2]


def module_at(place: str) -> ModuleType:
    """Import ``package.module`` or ``folder/file.py``; a file is imported once per content.

    ``ValueError`` says in one line that there is none, that it fails when it is run, or that this
    process holds a module as its file was before.
    """
    # `files.at_home` would load a module more for every certificate.
    file = Path(os.path.expanduser(place)) if place.endswith(".py") else None
    if file is not None and not file.is_file():
        raise ValueError(f"there is no file {file}, looked for from {Path.cwd()}")
    try:
        module = import_module(place) if file is None else _from_file(file.resolve())
    except SystemExit as error:
        raise ValueError(
            f"{place} ends the program when it is imported (SystemExit: {error}): put what it runs "
            'below if __name__ == "__main__"'
        ) from error
    except Exception as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name
        if file is None and absent and f"{place}.".startswith(f"{absent}."):
            raise ValueError(f"there is no module {place}") from None
        said = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise ValueError(f"importing {place} failed: {said}") from error
    if file is None and _outdated(module):
        raise ValueError(
            f"{place} changed after it was imported: start Python anew, or name its file instead"
        )
    return module


def _outdated(module: ModuleType) -> bool:
    """Tell whether a module's file has changed since it was first named here, or reloaded."""
    source = str(getattr(module, "__file__", None))
    if not source.endswith(".py") or not os.path.isfile(source):
        return False
    now = hashlib.sha256(Path(source).read_bytes()).digest()
    spec, first = _FIRST.setdefault(module.__name__, (module.__spec__, now))
    if spec is not module.__spec__:  # it was reloaded
        _FIRST[module.__name__] = module.__spec__, now
        return False
    return now != first


def _from_file(file: Path) -> ModuleType:
    """Import a file once, under a name made from its path and content."""
    mark = hashlib.sha256(str(file).encode() + b"\0" + file.read_bytes()).hexdigest()[:16]
    name = f"latecomer_outside_{file.stem}_{mark}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while they are made
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


_ROLE = re.compile(r":\w+:`~?([^`]+)`")


_FIRST: dict[str, tuple[Any, bytes]] = {}
"""By a module's name: what it was loaded by, and the sum of its file when it was first named."""


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
