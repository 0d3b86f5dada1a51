"""Command-line arguments: numbers, and ``key=value`` pairs for calling calculators."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latecomer.commands.old_typer import teach_old_typer
from latecomer.errors import InputError, nearest

if TYPE_CHECKING:
    from latecomer.bounds.certificate import Entry


teach_old_typer()

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Long = Annotated[bool, typer.Option("--long", help="Say every statement in a full sentence.")]


def _reader(option: str, kind: type[float], legal: str) -> Callable[[Any], Any]:
    """Return a parser for an option's value; its error names the option and the value."""

    def read(text: Any) -> Any:
        try:
            return kind(_plain(text))
        except ValueError as error:
            raise typer.BadParameter(f"must be {legal}, got {text!r}", param_hint=option) from error

    return read


def _plain(text: Any) -> Any:
    """Return a number's text; Python reads 1_0 and digits of every script too, files do not."""
    if isinstance(text, str) and ("_" in text or not text.isascii()):
        raise ValueError(text)
    return text


def real_option(option: str, meaning: str, metavar: str = "NUMBER") -> Any:
    """Return an option that holds a number."""
    read = _reader(option, float, "a number")
    return typer.Option(option, parser=read, metavar=metavar, help=meaning)


def whole_option(option: str, meaning: str) -> Any:
    """Return an option that holds a whole number."""
    read = _reader(option, int, "a whole number")
    return typer.Option(option, parser=read, metavar="COUNT", help=meaning)


def numbers(option: str, text: str | None) -> list[float]:
    """Read comma-separated numbers; an empty list if no text is given.

    Raises
    ------
    InputError

    Examples
    --------
    >>> numbers("--above", "0.1,.2")
    [0.1, 0.2]
    """
    if text is None:
        return []
    try:
        return [float(_plain(part)) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"{option} must be numbers with commas between, got {text!r}") from error


def parse_assignments(pairs: Iterable[str]) -> dict[str, Any]:
    """Read ``["kl=100", "losses=[.1, .2]"]`` as YAML values under their keys.

    Raises
    ------
    InputError
        For a pair without ``=``, a key that occurs twice, an empty value or broken YAML.

    Examples
    --------
    >>> parse_assignments(["kl=1e2", "losses=[.1, 1e-3]"])
    {'kl': 100.0, 'losses': [0.1, 0.001]}
    """
    from latecomer.reading.yaml_text import read_value

    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InputError(f"arguments are written key=value, got {pair!r}")
        if key in values:
            raise InputError(f"{key} is given twice")
        try:
            values[key] = read_value(text, key)
        except InputError:
            values[key] = None
        if values[key] is None:
            raise InputError(f"{key} must be a number or a list in brackets, got {pair!r}")
    return values


def call(entry: "Entry", values: Mapping[str, Any]) -> Any:
    """Call a calculator after checking argument names; errors name unknown or missing ones."""
    parameters = inspect.signature(entry.function).parameters
    for key in values:
        if key not in parameters:
            raise InputError(
                f"{entry.name} has no argument {key!r}{nearest(key, parameters)};"
                f" it takes {', '.join(parameters)}"
            )
    missing = [
        name for name, p in parameters.items() if p.default is p.empty and name not in values
    ]
    if missing:
        raise InputError(f"{entry.name} needs {_listed(missing)}: {signature(entry)}")
    try:
        return entry.function(**values)
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error


def signature(entry: "Entry") -> str:
    """Return how the calculator is called from a shell.

    Optional arguments stand in brackets with their default.
    """
    words = [f"latecomer bound {entry.name}"]
    for name, parameter in inspect.signature(entry.function).parameters.items():
        if parameter.default is parameter.empty:
            words.append(f"{name}=...")
        else:
            default = "..." if parameter.default is None else parameter.default
            words.append(f"[{name}={default}]")
    return " ".join(words)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
