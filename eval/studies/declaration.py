"""A declaration as plain data: reading YAML and overriding single keys of it."""

import re
from collections.abc import Sequence
from typing import Any

import yaml

from latecomer.eval.checks import short
from latecomer.eval.errors import InputError


class Loader(yaml.SafeLoader):
    """Safe YAML that reads ``1e-3`` as a number and refuses a key given twice."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _mapping(loader: Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.MarkedYAMLError(
                problem=f"{key!r} is no key", problem_mark=key_node.start_mark
            )
        if key in seen:
            raise yaml.MarkedYAMLError(
                problem=f"key {key!r} is given twice", problem_mark=key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read_yaml(text: str, where: str) -> dict[str, Any]:
    """Parse a mapping; ``where`` names its origin in errors.

    Raises
    ------
    InputError
        For broken YAML, with the number of the line.
    """
    try:
        raw = yaml.load(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{where}{place}: broken YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{where}: broken YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise InputError(f"{where}: a study is a mapping of keys to values, got {short(raw)}")
    return raw


def override(raw: dict[str, Any], assignment: str) -> None:
    """Set one key of plain data, in place.

    Parameters
    ----------
    raw : dict
        The declaration.
    assignment : str
        ``key=value``; the key is dotted, list indices included; the value is YAML.

    Raises
    ------
    InputError
        When it is no assignment, or leads through something that holds no keys.

    Examples
    --------
    >>> raw = {"train": {"rounds": 5}, "methods": [{"name": "pefll"}]}
    >>> override(raw, "train.rounds=300")
    >>> override(raw, "methods.0.posterior=gaussian")
    >>> raw
    {'train': {'rounds': 300}, 'methods': [{'name': 'pefll', 'posterior': 'gaussian'}]}
    """
    key, equals, text = assignment.partition("=")
    if not equals or not all(key.split(".")):
        raise InputError(f"an override reads key=value (train.rounds=300), got {assignment!r}")
    try:
        value = yaml.load(text, Loader=Loader)
    except yaml.YAMLError:
        raise InputError(f"{key}: {text!r} is no YAML value") from None
    set_key(raw, key, value)


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
    if not part.isdecimal() or int(part) >= len(place):
        legal = f"0 to {len(place) - 1}" if place else "none: it is empty"
        raise InputError(f"{key}: {inside} is a list, its entries are numbered {legal}")
    return int(part)
