"""What is wrong with a study, in one line: the key, what is legal, what was given."""

from collections.abc import Sequence

from pydantic import ValidationError

from latecomer.checks import short, wrong
from latecomer.errors import nearest
from latecomer.eval.routes.registry import ROUTE_SETTINGS
from latecomer.eval.studies.settings import SPLIT_KINDS, sections

_ROUTES = tuple(ROUTE_SETTINGS)


def explain(error: ValidationError) -> str:
    """Word the first mistake; an unknown key comes before the required key it may stand for."""
    mistakes = error.errors(include_url=False)
    first = min(mistakes, key=lambda item: item["type"] != "extra_forbidden")
    loc = tuple(str(part) for part in first["loc"])
    key = _dotted(loc)
    kind = first["type"]
    if kind == "extra_forbidden":
        return unknown_key(loc)
    if kind == "missing":
        return f"{key} must be given"
    if kind.startswith("union_tag"):
        tag, choices = ("kind", SPLIT_KINDS) if loc[0] == "split" else ("route", _ROUTES)
        legal = ", ".join(choices)
        if not isinstance(first["input"], dict):
            return f"{key} must be a mapping of keys to values, got {short(first['input'])}"
        if kind == "union_tag_not_found":
            return f"{key}.{tag} must be given, one of {legal}"
        named = first["input"].get(tag)
        hint = nearest(named, choices) if isinstance(named, str) else ""
        return f"{key}.{tag} must be one of {legal}, got {short(named)}{hint}"
    return f"{key}: {wrong(first)}"


def _dotted(loc: Sequence[str]) -> str:
    """Join a location without kind and route, which pydantic adds: they are no keys of the file."""
    if len(loc) > 1 and loc[0] == "split" and loc[1] in SPLIT_KINDS:
        loc = (loc[0], *loc[2:])
    if len(loc) > 2 and loc[0] == "certificates" and loc[2] in _ROUTES:
        loc = (*loc[:2], *loc[3:])
    return ".".join(loc)


def unknown_key(loc: Sequence[str]) -> str:
    """Refuse a key; suggest one of the same section, or the place where its name belongs."""
    here = ".".join("*" if part.isdecimal() else part for part in loc[:-1])
    prefix = _dotted(loc).removesuffix(loc[-1])
    siblings = list(sections()[here].model_fields)
    homes = {
        _dotted((*place.split("."), loc[-1])).lstrip(".")
        for place, model in sections().items()
        if loc[-1] in model.model_fields and "*" not in place
    }
    hint = nearest(loc[-1], siblings).replace("'", "").replace("mean ", f"mean {prefix}")
    # The simulation has its own clients and rounds, which are seldom the ones that are meant.
    elsewhere = sorted(
        homes - {_dotted(loc)}, key=lambda home: (home.startswith("denoising."), home)
    )
    if elsewhere and (not prefix or not hint):
        hint = f"; did you mean {elsewhere[0]}?"
    kind = f" of a {loc[1]} split" if loc[0] == "split" else ""
    return f"{_dotted(loc)} is no setting{kind}{hint}"
