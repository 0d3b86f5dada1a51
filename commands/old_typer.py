"""What old versions of typer lack under the click that a fresh install brings with them.

Newer versions bring all of it themselves, and nothing is done to them.
"""

import inspect
from typing import Any

import typer.core
import typer.main

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
