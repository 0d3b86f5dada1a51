"""Studies as plain data: those that come with the package, overridden and at several sizes.

A file holds the published settings.  Under ``variants`` it names changes to them that make another
published setting (another data set, another number of clients); under ``scales`` those that make it
smaller.  Both are mappings of a name to dotted keys and their values::

    scale: paper
    scales:
      smoke: {split.clients: 10, train.rounds: 2, methods.pfedhn.novel_rounds: 1}
    variants:
      cifar100: {data.name: cifar100, split.classes_per_client: 10}

A key ``methods.<name>.<hyper-parameter>`` is set in every entry of that method, and in none where a
variant has other methods.  Variants come first, in the order they are asked for, then the scale.
What a user changes afterwards may take a study away from its paper's settings: then it is
``reduced``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latecomer.checks import short
from latecomer.errors import InputError, nearest
from latecomer.reading.delimited import text_of
from latecomer.reading.yaml_text import read_mapping, read_shipped, read_value


def read_yaml(text: str | bytes, where: str) -> dict[str, Any]:
    """Parse a mapping; ``where`` names its origin in errors."""
    if isinstance(text, bytes):
        try:
            text = text_of(text)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
    return read_mapping(text, where, "a study is a mapping of keys to values")


def assigned(assignment: str) -> tuple[str, Any]:
    """Return key and value of an override, for :func:`set_key`.

    It reads ``key=value``: the key is dotted, list indices included; the value is YAML, as
    :func:`~latecomer.reading.yaml_text.read_value` reads it.

    Examples
    --------
    >>> assigned("methods.0.posterior=gaussian")
    ('methods.0.posterior', 'gaussian')
    """
    key, equals, text = str(assignment).partition("=")
    if not equals or not all(key.split(".")):
        raise InputError(f"an override reads key=value (train.rounds=300), got {assignment!r}")
    return key, read_value(text, key)


def refuse_contradictions(changes: Sequence[tuple[str, Any]]) -> None:
    """Refuse changes, in their order, of which a later one undoes an earlier one; it may refine it.

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


SCALES = ("smoke", "reduced", "paper")
_SECTIONS = ("variants", "scales")
# Sections whose settings a paper publishes, and keys in them that say only where and how the same
# steps are computed.
_PUBLISHED = ("data", "split", "model", "methods", "train")
_PUBLISHED_KEYS = ("evaluation.classes", "evaluation.class_set")
_UNPUBLISHED = ("data.root", "train.device", "train.path")


def offered(raw: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a declaration's variants, and the scales that it can run at.

    Examples
    --------
    >>> offered({"scale": "paper", "scales": {"smoke": {"train.rounds": 2}}})
    ((), ('smoke', 'paper'))
    """
    own = {str(raw["scale"])} if raw.get("scale") else set()
    scales = own | set(_section(raw, "scales"))
    return tuple(_section(raw, "variants")), tuple(name for name in SCALES if name in scales)


def changed(
    raw: Mapping[str, Any], *, variants: Sequence[str] = (), scale: str | None = None
) -> dict[str, Any]:
    """Return a declaration in some variants and at a scale, without the sections that name them.

    The variants' names are appended to the study's name, and ``scale`` is set to the scale.

    Examples
    --------
    >>> raw = {
    ...     "study": "table", "scale": "paper", "methods": [{"name": "pfedhn"}],
    ...     "scales": {"smoke": {"train.rounds": 2, "methods.pfedhn.novel_rounds": 1}},
    ...     "variants": {"mnist": {"data.name": "mnist"}},
    ... }
    >>> changed(raw, variants=["mnist"], scale="smoke")["study"]
    'table-mnist'
    >>> changed(raw, scale="smoke")["methods"]
    [{'name': 'pfedhn', 'novel_rounds': 1}]
    """
    known, scales = offered(raw)
    sections = {name: _section(raw, name) for name in _SECTIONS}
    plain = deepcopy({key: value for key, value in raw.items() if key not in _SECTIONS})
    for index, name in enumerate(variants):
        if not isinstance(name, str) or name not in known or name in variants[:index]:
            legal = "different ones of " + ", ".join(known) if known else "left out: it has none"
            raise InputError(f"variants of this study must be {legal}, got {name!r}")
        _apply(plain, sections["variants"][name])
        plain["study"] = f"{plain.get('study')}-{name}"
    if scale is None:
        return plain
    if not isinstance(scale, str) or scale not in scales:
        legal = " or ".join(scales) if scales else "left out: the study has none"
        raise InputError(f"scale must be {legal}, got {scale!r}{nearest(str(scale), scales)}")
    _apply(plain, sections["scales"].get(scale, {}))
    plain["scale"] = scale
    return plain


def leaves_paper(assignments: Iterable[str], *, chosen: bool = False) -> bool:
    """Whether overrides change settings that a paper publishes and do not set the scale.

    ``chosen``: the methods are some of the study's own, with its settings; leaving out the others
    changes nothing about them.

    Examples
    --------
    >>> leaves_paper(["train.rounds=10"]), leaves_paper(["data.root=/data", "seeds=[0]"])
    (True, False)
    >>> leaves_paper(["methods=[pefll]"]), leaves_paper(["methods=[pefll]"], chosen=True)
    (True, False)
    """
    keys = {assignment.partition("=")[0].strip() for assignment in assignments}
    keys -= {"methods"} if chosen else set()
    published = {
        key
        for key in keys.difference(_UNPUBLISHED)
        if key.partition(".")[0] in _PUBLISHED or key in _PUBLISHED_KEYS
    }
    return bool(published) and "scale" not in keys


def _section(raw: Mapping[str, Any], name: str) -> Mapping[str, Mapping[str, Any]]:
    section = raw.get(name) or {}
    nested = isinstance(section, dict) and all(isinstance(v, dict) for v in section.values())
    if not nested:
        raise InputError(f"{name} must map names to dotted keys with values, got {section!r}")
    if name == "scales":
        for one in section:
            if one not in SCALES:
                raise InputError(f"scales must be among {', '.join(SCALES)}, got {one!r}")
    return section


def _apply(plain: dict[str, Any], changes: Mapping[str, Any]) -> None:
    refuse_contradictions(list(changes.items()))
    for key, value in changes.items():
        first, _, rest = key.partition(".")
        name, _, setting = rest.partition(".")
        if first != "methods" or not setting or name.isdecimal():
            set_key(plain, key, deepcopy(value))
            continue
        for index, entry in enumerate(plain.get("methods") or ()):
            if entry == name:
                plain["methods"][index] = entry = {"name": name}
            if isinstance(entry, dict) and entry.get("name") == name:
                entry[setting] = deepcopy(value)


@dataclass(frozen=True)
class ShippedStudy:
    """A study that comes with the package: its scales, variants, papers, and its folder."""

    name: str
    question: str
    scale: str
    scales: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    paper: tuple[str, ...] = ()
    note: str = ""
    follows: str = ""


def shipped_studies() -> tuple[ShippedStudy, ...]:
    """List the studies that come with the package; loads no torch.

    Examples
    --------
    >>> "quickstart" in [study.name for study in shipped_studies()]
    True
    """
    return tuple(_described(path) for path in sorted(_files(), key=lambda one: one.stem))


def shipped_study(name: str) -> ShippedStudy:
    """Describe one of them by name."""
    return _described(next(path for path in _files() if path.stem == name))


def _described(file: Path) -> ShippedStudy:
    name = file.stem
    raw = read_shipped(file.read_text("utf-8"))
    variants, scales = offered(raw)
    return ShippedStudy(
        name,
        str(raw.get("question", "")),
        str(raw.get("scale") or ""),
        scales,
        variants,
        tuple(raw.get("paper") or ()),
        str(raw.get("note") or ""),
        file.parent.name,
    )


def shipped_texts() -> dict[str, str]:
    """Return the text of each shipped study, by its name."""
    return {path.stem: path.read_text("utf-8") for path in _files()}


def _files() -> list[Path]:
    return sorted((Path(__file__).parent / "yaml").glob("*/*.yaml"))
