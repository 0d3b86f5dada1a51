"""Checks of single values: one line names the key, the range and the value given."""

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from latecomer.errors import InputError, nearest
from latecomer.files import kind_of

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MOST_COUNT = 10**9
"""More rounds, steps or clients are a slip; much larger numbers fit no integer of NumPy."""
MOST_SIZE = 10**5
"""Wider layers and larger batches are a slip, which would end in an error of memory."""
# Pydantic's messages about Python types, reworded in terms of the study file.
_PLAINLY = {
    "too_short": "must not be empty",
    "tuple_type": "must be a list",
    "string_pattern_mismatch": "must be letters, digits and . _ - and start with a letter or digit",
    "string_too_short": "must not be empty",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
}


def short(value: Any) -> str:
    """Show a value as one line of at most 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def several(value: Any) -> tuple[Any, ...]:
    """Return what an option lists: nothing where it is None, and a single value as a list of it.

    Text and mappings are single values, which whoever checks the entries refuses.

    Examples
    --------
    >>> several(0.2), several([0.1, 0.2]), several(None), several("blend")
    ((0.2,), (0.1, 0.2), (), ('blend',))
    """
    if value is None:
        return ()
    if isinstance(value, str | bytes | Mapping):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        return (value,)


def wrong(mistake: "ErrorDetails") -> str:
    """Say what pydantic found wrong with a value: what is legal, what was given."""
    message, given = mistake["msg"], mistake["input"]
    message = message.removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
    message = message.replace("should be", "must be").replace("should have", "must have")
    message = _PLAINLY.get(mistake["type"], message)
    if ", got " in message:
        return message
    hint = nearest(given, re.findall(r"'([^']+)'", message)) if isinstance(given, str) else ""
    return f"{message}, got {short(given)}{hint}"


def checked(check: Callable[[str, Any], Any], name: str, value: Any) -> Any:
    """Return one value as converted by a check of ``bounds``, or raise that check's message."""
    try:
        found = check(name, value)
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error
    if getattr(found, "ndim", 0):
        raise InputError(f"{name} must be one number, got {name}={value!r}")
    return found


def whole(key: str, value: Any, low: int, high: int | None = None, why: str = "") -> int:
    """Return ``value`` as an int in [low, high], refusing everything else."""
    legal = f"of at least {low}" if high is None else f"in {low}..{high}"
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < low or (high is not None and value > high):
        raise InputError(f"{key} must be a whole number {legal}{why}, got {value!r}")
    return int(value)


def at_least(key: str, value: float | None, least: float) -> None:
    """Refuse a number below ``least``; None is a setting that is not given.

    Examples
    --------
    >>> at_least("workers", None, 1)
    >>> at_least("workers", 0, 1)
    Traceback (most recent call last):
    latecomer.errors.InputError: workers must be at least 1, got 0
    """
    if value is not None and not least <= value < math.inf:
        finite = "" if math.isfinite(value) else " and finite"
        raise InputError(f"{key} must be at least {least:g}{finite}, got {value:g}")


def fraction(key: str, value: Any, *, above: bool = False) -> float:
    """Return ``value`` as a float in [0, 1), or strictly above 0 when ``above``."""
    number = _number(value)
    if not 0 <= number < 1 or (above and number == 0):
        legal = "lie strictly between 0 and 1" if above else "be at least 0 and less than 1"
        raise InputError(f"{key} must {legal}, got {value!r}")
    return number


def number_in(key: str, value: Any, low: float, high: float) -> float:
    """Return ``value`` as a float in [low, high], refusing everything else."""
    number = _number(value)
    if not low <= number <= high:
        raise InputError(f"{key} must lie in [{low:g}, {high:g}], got {value!r}")
    return number


def _number(value: Any) -> float:
    """Return a number of Python or numpy as a float, NaN for everything else."""
    try:
        of_reals = isinstance(value, Real) and not isinstance(value, bool)
        return float(value) if of_reals else math.nan
    except OverflowError:
        return math.nan


def one_of(key: str, value: Any, legal: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the legal words."""
    if not isinstance(value, str) or value not in legal:
        hint = nearest(value, legal) if isinstance(value, str) else ""
        raise InputError(f"{key} must be one of {', '.join(legal)}, got {value!r}{hint}")
    return value


def output_file(
    key: str,
    path: str | os.PathLike[str],
    inputs: Iterable[Any] = (),
    *,
    grows: bool = False,
) -> None:
    """Refuse a path at which nothing can be written without losing something else.

    ``key`` is the option or argument that gave it.  A file is replaced or made; a terminal or a
    pipe will do unless it ``grows``: lines are added, and read again.  None of the ``inputs``, of
    which only paths count, may be this file, under whatever name.

    Examples
    --------
    >>> output_file("--report", "-")
    Traceback (most recent call last):
    latecomer.errors.InputError: --report must be a file, got '-'; a file of that name is ./-
    """
    text = _text(key, path)
    if text in ("", "-"):
        raise InputError(f"{key} must be a file, got {text!r}; a file of that name is ./{text}")
    if _loses_nothing(key, text, inputs, grows=grows):
        _check_folder(key, text)


def html_file(key: str, path: str | os.PathLike[str], inputs: Iterable[Any] = ()) -> None:
    """Refuse what `output_file` refuses, and a file that seems to be no HTML page.

    Examples
    --------
    >>> html_file("--report", "page.pdf")
    Traceback (most recent call last):
    latecomer.errors.InputError: --report writes HTML and must end in .html or in nothing, got \
'page.pdf'
    """
    output_file(key, path, inputs)
    if Path(path).suffix.lower() not in ("", ".html", ".htm"):
        raise InputError(
            f"{key} writes HTML and must end in .html or in nothing, got {os.fspath(path)!r}"
        )


def _loses_nothing(key: str, text: str, inputs: Iterable[Any], *, grows: bool = False) -> bool:
    """Refuse what is no file, or is an input; return whether a file is made or replaced."""
    kind = _kind_of(key, text) or ("folder" if text.endswith(os.sep) else "")
    legal = ("", "file") if grows else ("", "file", "character device", "pipe")
    if kind not in legal:
        raise InputError(f"{key} must be a file, {text} is a {kind}")
    regular = kind in ("", "file")
    if regular:
        _check_inputs(key, text, inputs)
    return regular


def output_files(folder: Path, names: Iterable[str], inputs: Iterable[Any] = ()) -> None:
    """Refuse files of a run directory that cannot be written, or are links to what is read.

    All files in it but those ``names`` count as read, and so do the ``inputs``.
    """
    real, names, inputs = os.path.realpath(folder), list(names), list(inputs)
    linked = [name for name in names if os.path.realpath(folder / name) != os.path.join(real, name)]
    held = [path for path in folder.rglob("*") if path.is_file()] if linked else []
    for name in names:
        others = [path for path in held if path != folder / name] if name in linked else []
        # A folder where nothing can be written is told of when something has to be.
        _loses_nothing(name, os.fspath(folder / name), [*inputs, *others])


def output_folder(key: str, path: str | os.PathLike[str], source: Path | None = None) -> None:
    """Refuse a path that is no folder to write to, or that lies in the source of what is written.

    Examples
    --------
    >>> output_folder("--out", "-")
    Traceback (most recent call last):
    latecomer.errors.InputError: --out must be a folder, got '-'; a folder of that name is ./-
    """
    text = _text(key, path)
    if text in ("", "-"):
        raise InputError(f"{key} must be a folder, got {text!r}; a folder of that name is ./{text}")
    kind = _kind_of(key, text)
    if kind not in ("", "folder"):
        raise InputError(f"{key} must be a folder, {text} is a {kind}")
    if not kind:  # what is there may be gone through even where nothing can be written
        _check_folder(key, text, is_folder=True)
    if source is not None and Path(os.path.realpath(text)).is_relative_to(os.path.realpath(source)):
        raise InputError(f"{key} must lie outside of {source}, which is only read, got {text}")


def as_path(key: str, path: Any) -> Path:
    """Return a path with the home folder that ``~`` stands for; refuse what is none.

    Examples
    --------
    >>> as_path("out", 3)
    Traceback (most recent call last):
    latecomer.errors.InputError: out must be a path, got 3
    """
    text = _text(key, path)
    if not text:
        raise InputError(f"{key} must not be empty, got ''")
    return Path(text)


def texts_in(settings: Any) -> Iterator[str]:
    """Yield the texts in a study's settings."""
    if isinstance(settings, str):
        yield settings
    elif isinstance(settings, Mapping | list | tuple):
        for value in settings.values() if isinstance(settings, Mapping) else settings:
            yield from texts_in(value)


def named_files(settings: Any) -> list[str]:
    """List the texts in a study's settings that are the names of files: its data."""
    return [text for text in texts_in(settings) if os.path.isfile(text)]


def dotted(settings: Any, key: str = "") -> dict[str, Any]:
    """Map dotted keys to values; lists of mappings are numbered, other lists stay whole.

    >>> dotted({"train": {"rounds": 3}, "methods": [{"name": "fedavg"}], "seeds": [0, 1]})
    {'train.rounds': 3, 'methods.0.name': 'fedavg', 'seeds': [0, 1]}
    """
    inside: list[tuple[Any, Any]] = []
    if isinstance(settings, Mapping):
        inside = list(settings.items())
    elif isinstance(settings, list) and any(isinstance(item, Mapping) for item in settings):
        inside = list(enumerate(settings))
    if not inside:
        return {key: settings}
    flat: dict[str, Any] = {}
    for name, item in inside:
        flat |= dotted(item, f"{key}.{name}" if key else str(name))
    return flat


def _text(key: str, path: Any) -> str:
    """Return a path as text, the home folder that ``~`` stands for put in."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"{key} must be a path, got {short(path)}")
    return os.path.expanduser(str(os.fspath(path)))


def _kind_of(key: str, text: str) -> str:
    try:
        return kind_of(text)
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{key}: {short(text)} cannot be written: {cause}") from error


def _check_folder(key: str, text: str, *, is_folder: bool = False) -> None:
    """Refuse a file, or a new folder, that lies in none or where nothing may be written."""
    places = [*([Path(text)] if is_folder else []), *Path(text).parents]
    for link in filter(os.path.islink, places):
        if not os.path.exists(link):
            raise InputError(f"{key} must lie in a folder, {link} is a link to nothing")
    folder = Path(os.path.realpath(text)).parent
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise InputError(f"{key}: {text} cannot be written: {folder} is no folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{key}: {text} cannot be written: no permission in {folder}")


def _check_inputs(key: str, text: str, inputs: Iterable[Any]) -> None:
    for one in [str(each) for each in inputs if isinstance(each, str | os.PathLike)]:
        if _same(text, one):
            raise InputError(f"{key} must be another file than {one}, which is read, got {text}")
    for number, stream in enumerate(("standard input", "standard output", "standard error")):
        if _same(text, number):
            raise InputError(f"{key} must be another file than that of {stream}, got {text}")


def _same(text: str, other: Any) -> bool:
    """Return whether two paths, or a path and an open stream, are one file: by links too."""
    try:
        return os.path.samestat(os.stat(text), os.stat(other))
    except (OSError, ValueError):
        return isinstance(other, str) and os.path.realpath(text) == os.path.realpath(other)


_TRUTH = {"true": 1.0, "false": 0.0}


class ScientificNumber(float):
    """A number that was written in scientific notation, which as an id says too little.

    Examples
    --------
    >>> ScientificNumber("1e5") + 0, str(ScientificNumber("1e5"))
    (100000.0, '1e5')
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __new__(cls, text: str) -> Self:
        """Make the number, which cannot be changed afterwards."""
        return super().__new__(cls, text)

    def __str__(self) -> str:
        """Return the text that it was written as."""
        return self._text


def written_number(text: str) -> float:
    """Return a number as JSON writes it, scientific notation remembered."""
    return ScientificNumber(text) if "e" in text.lower() else float(text)


def one_number(value: Any) -> float:
    """Return a value as a float; NaN where it is no number.

    Text counts in plain decimal notation; an array or tensor where it holds a single number.  True
    counts 1 and False 0, as text too: errors of 0 and 1 are often written so.

    Examples
    --------
    >>> from fractions import Fraction
    >>> one_number(Fraction(1, 4)), one_number(np.array([0.5])), one_number("1_0"), one_number([1])
    (0.25, 0.5, nan, nan)
    >>> one_number(True), one_number("False"), one_number("TRUE")
    (1.0, 0.0, 1.0)
    """
    if isinstance(value, str):
        if value.strip().lower() in _TRUTH:
            return _TRUTH[value.strip().lower()]
        with suppress(ValueError):
            return math.nan if "_" in value else float(value)
        return math.nan
    if value is np.ma.masked or isinstance(value, np.timedelta64 | np.datetime64):
        return math.nan
    if not isinstance(value, Real | Decimal | np.bool_):
        value = _single(value)
    with suppress(TypeError, ValueError, OverflowError):
        if isinstance(value, Real | Decimal | np.bool_):
            return float(value)
    return math.nan


def _single(value: Any) -> Any:
    """Return what an array or tensor of one entry holds, else None."""
    with suppress(TypeError, ValueError, RuntimeError, AttributeError):
        return value.item() if hasattr(value, "item") else None
    return None


def told(value: Any) -> str:
    """Show a value that is no number in one line, with its type unless that is Python's own.

    Examples
    --------
    >>> told("0,1"), told([0.1, 0.2]), told(np.zeros(2))
    ("'0,1'", '[0.1, 0.2]', 'ndarray array([0., 0.])')
    """
    shown = " ".join(repr(value).split())[:80]
    if type(value).__module__ == "builtins":
        return shown
    return f"{type(value).__name__} {shown}"
