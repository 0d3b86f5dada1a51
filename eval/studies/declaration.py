"""A declaration as plain data: reading it and overriding single keys of it."""

import re
from collections.abc import Sequence
from typing import Any

from latecomer.checks import short
from latecomer.errors import InputError
from latecomer.reading.encoded_text import text_of
from latecomer.reading.yaml_text import read_mapping, read_value


def read_yaml(text: str | bytes, where: str) -> dict[str, Any]:
    """Parse a mapping; ``where`` names its origin in errors.

    Raises
    ------
    InputError
        For broken YAML, with the number of the line, and for bytes that are no UTF-8.
    """
    if isinstance(text, bytes):
        try:
            text = text_of(text)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
    return read_mapping(text, where, "a study is a mapping of keys to values")


def assigned(assignment: str) -> tuple[str, Any]:
    """Return key and value of an override, for :func:`set_key`.

    Parameters
    ----------
    assignment : str
        ``key=value``; the key is dotted, list indices included; the value is YAML, as
        :func:`~latecomer.reading.yaml_text.read_value` reads it.

    Raises
    ------
    InputError
        When it is no assignment.

    Examples
    --------
    >>> assigned("methods.0.posterior=gaussian")
    ('methods.0.posterior', 'gaussian')
    """
    key, equals, text = assignment.partition("=")
    if not equals or not all(key.split(".")):
        raise InputError(f"an override reads key=value (train.rounds=300), got {assignment!r}")
    return key, read_value(text, key)


def refuse_contradictions(changes: Sequence[tuple[str, Any]]) -> None:
    """Refuse changes of which a later one undoes an earlier one; it may refine it.

    Parameters
    ----------
    changes : sequence of (str, value)
        Dotted keys and their values, in the order in which they are made.

    Raises
    ------
    InputError

    Examples
    --------
    >>> refuse_contradictions([("train", {"rounds": 4}), ("train.rounds", 2)])
    >>> refuse_contradictions([("train.rounds", 4), ("train", {"rounds": 3})])
    Traceback (most recent call last):
    latecomer.errors.InputError: train={'rounds': 3} would undo train.rounds=4: give both in one
    """
    for place, (key, value) in enumerate(changes):
        for earlier, held in changes[:place]:
            shown = f"{key}={short(value)}"
            if key == earlier:
                raise InputError(f"{key} is given twice, last as {shown!r}")
            if earlier.startswith(f"{key}."):
                undone = f"{earlier}={short(held)}"
                raise InputError(f"{shown} would undo {undone}: give both in one")


def set_key(raw: dict[str, Any], key: str, value: Any) -> None:
    """Set one dotted key of plain data, in place; sections on the way to it are made.

    Raises
    ------
    InputError
        When the key leads through something that holds no keys.

    Examples
    --------
    >>> raw = {"split": {"clients": 100}}
    >>> set_key(raw, "split.clients", 10)
    >>> set_key(raw, "train.rounds", 2)
    >>> raw
    {'split': {'clients': 10}, 'train': {'rounds': 2}}
    """
    *parents, last = key.split(".")
    place: Any = raw
    for depth, part in enumerate(parents):
        if isinstance(place, dict) and place.get(part) is None:
            place[part] = {}
        place = place[_slot(place, part, parents[:depth], key)]
    place[_slot(place, last, parents, key)] = value


def _slot(place: Any, part: str, parents: Sequence[str], key: str) -> Any:
    inside = ".".join(parents)
    if isinstance(place, dict):
        return part
    if not isinstance(place, list):
        raise InputError(f"{key} is no setting: {inside} holds {short(place)}, nothing inside it")
    if not re.fullmatch("0|[1-9][0-9]{0,8}", part) or int(part) >= len(place):
        legal = f"0 to {len(place) - 1}" if place else "none: it is empty"
        raise InputError(f"{key}: {inside} is a list, its entries are numbered {legal}")
    return int(part)
