"""Command-line arguments: numbers, ``key=value`` pairs, and lines to start from.

What old versions of typer lack under the click that a fresh install brings is taught to them first;
newer versions bring all of it themselves, and nothing is done to them.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
import typer.main

from latecomer.errors import InputError, nearest

if TYPE_CHECKING:
    from latecomer.bounds.certificate import Entry

_ARGUMENT: Any = typer.core.TyperArgument
_OPTION: Any = typer.core.TyperOption


def teach_old_typer() -> None:
    """Let typer make parameters that any click can show, ask for and read."""
    if _ARGUMENT.__mro__[1].__module__ != "click.core":
        return  # new ones hold a click of their own
    made = vars(typer.main)
    for change in (_shown, _missed, _no_flag):
        made["TyperArgument"], made["TyperOption"] = change(
            made["TyperArgument"], made["TyperOption"]
        )


def _parameter(function: Any, name: str) -> inspect.Parameter | None:
    return inspect.signature(function).parameters.get(name)


def _shown(argument: Any, option: Any) -> tuple[Any, Any]:
    """Click 8.2 words a parameter in a context; typer 0.15 and its help know of none."""
    if _parameter(_ARGUMENT.make_metavar, "ctx") or not _parameter(_OPTION.make_metavar, "ctx"):
        return argument, option

    class Argument(argument):  # type: ignore[misc]
        def make_metavar(self, ctx: Any = None) -> Any:
            return super().make_metavar()

    class Option(option):  # type: ignore[misc]
        def make_metavar(self, ctx: Any = None) -> Any:
            return super().make_metavar(ctx)

    return Argument, Option


def _missed(argument: Any, option: Any) -> tuple[Any, Any]:
    """Click 8.3 takes None for a value; typer 0.18 says by it that none is given."""
    if _ARGUMENT.value_is_missing.__module__.startswith("typer"):
        return argument, option

    class Argument(argument):  # type: ignore[misc]
        def value_is_missing(self, value: Any) -> bool:
            return value is None or bool(super().value_is_missing(value))

    class Option(option):  # type: ignore[misc]
        def value_is_missing(self, value: Any) -> bool:
            return value is None or bool(super().value_is_missing(value))

    return Argument, Option


def _no_flag(argument: Any, option: Any) -> tuple[Any, Any]:
    """Click 8.3 takes None for the value of a flag; typer 0.15 says by it that there is no flag."""
    own, plain = (_parameter(kind.__init__, "flag_value") for kind in _OPTION.__mro__[:2])
    if own is None or plain is None or plain.default is None:
        return argument, option
    unset = plain.default

    class Option(option):  # type: ignore[misc]
        def __init__(self, *, flag_value: Any = None, **given: Any) -> None:
            super().__init__(flag_value=unset if flag_value is None else flag_value, **given)

    return argument, Option


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
        from latecomer.certify.words import listing

        raise InputError(f"{entry.name} needs {listing(missing)}: {signature(entry)}")
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


EXAMPLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "run": (
            "latecomer run quickstart",
            "latecomer run quickstart --scale smoke --out runs/try",
            "latecomer run mine.yaml train.rounds=300 'seeds=[0, 1]'",
        ),
        "status": ("latecomer status runs/quickstart",),
        "report": (
            "latecomer report runs/quickstart",
            "latecomer report runs/quickstart --asks shift,gap",
        ),
        "figures": (
            "latecomer figures runs/quickstart --format pdf",
            "latecomer figures runs/quickstart --width 3.25 --font serif",
        ),
        "compare": ("latecomer compare runs/quickstart runs/longer",),
        "studies": ("latecomer studies", "latecomer studies quickstart --long"),
        "methods": ("latecomer methods", "latecomer methods fedavg"),
        "bounds": ("latecomer bounds", "latecomer bounds maurer"),
        "rules": ("latecomer rules", "latecomer rules product"),
        "shifts": ("latecomer shifts", "latecomer shifts blur"),
        "datasets": ("latecomer datasets", "latecomer datasets digits"),
        "bound": (
            "latecomer bound maurer",
            "latecomer bound maurer empirical_risk=.05 kl=100 n_samples=5000 delta=.05",
        ),
        "certify": (
            "latecomer certify losses.csv",
            "latecomer certify losses.csv --pool-size 200 --report page.html",
            "latecomer certify losses.csv --shift kl=.05,.1 --above .3",
        ),
        "watch": (
            "latecomer watch losses.csv --once",
            "latecomer watch losses.csv --plan plan.yaml",
        ),
        "verify": ("latecomer verify losses.csv.ledger",),
        "plan": (
            "latecomer plan --target .25 --expect .17 --sd .09",
            "latecomer plan --target .25 --pilot losses.csv",
        ),
        "recertify": ("latecomer recertify runs/quickstart --certificates more.yaml",),
        "fetch": ("latecomer data fetch mnist",),
        "verify data": ("latecomer data verify mnist",),
    }
)
"""Examples of each command; ``verify data`` are those of ``latecomer data verify``."""


def examples(command: str) -> str:
    r"""Return the end of a command's help, whose lines are not to be wrapped.

    Examples
    --------
    >>> examples("status")
    '\x08\nExamples:\n  latecomer status runs/quickstart'
    """
    return "\n  ".join(("\b\nExamples:", *EXAMPLES[command]))
