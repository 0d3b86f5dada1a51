"""One study at several sizes: named changes that a study file carries with it.

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

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from latecomer.errors import InputError, nearest
from latecomer.eval.studies.declaration import refuse_contradictions, set_key

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

    Raises
    ------
    InputError
        For a variant or scale that the study does not have, and for a malformed section.

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
        if name not in known or name in variants[:index]:
            legal = "different ones of " + ", ".join(known) if known else "left out: it has none"
            raise InputError(f"variants of this study must be {legal}, got {name!r}")
        _apply(plain, sections["variants"][name])
        plain["study"] = f"{plain.get('study')}-{name}"
    if scale is None:
        return plain
    if scale not in scales:
        legal = " or ".join(scales) if scales else "left out: the study has none"
        raise InputError(f"scale must be {legal}, got {scale!r}{nearest(scale, scales)}")
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
