"""What a study file may hold: every key with its legal values, its default and its meaning."""

from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from blocks import table
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from python_names import plain

from latecomer.commands.entries import Setting, shown_default
from latecomer.declared import documented
from latecomer.eval.measures.registry import MEASURES, PUBLISHED
from latecomer.eval.routes.registry import ROUTES
from latecomer.eval.schema import Legal, OneOf
from latecomer.eval.settings.study_sections import QUESTIONS, DataSettings, DataShift, Serving
from latecomer.eval.shifts.transforms import SHIFTS
from latecomer.eval.splits.kinds.declaration import Dealt
from latecomer.eval.splits.registry import SPLIT_SETTINGS, SPLITS
from latecomer.eval.studies.settings import Study, StudyMethod, sections

_SIDES = {Ge: "at least {}", Gt: "above {}", Le: "at most {}", Lt: "below {}"}
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def cell(text: str) -> str:
    """Return text as it can stand in a table's cell.

    Examples
    --------
    >>> cell("a <b> c")
    'a &lt;b> c'
    """
    return " ".join(text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").split())


def legal_values(kind: Any, told: Iterable[Any] = ()) -> str:
    """Say which values a type with its checks takes.

    Examples
    --------
    >>> from latecomer.eval.schema import Amount, Count
    >>> legal_values(tuple[Count, ...]), legal_values(Amount)
    ('a list: a whole number, at least 1', 'a whole number of at least 0, or a fraction below 1')
    """
    listed = [one.metadata if isinstance(one, FieldInfo) else [one] for one in told]
    checks = [
        one.func if isinstance(one, BeforeValidator) else one for some in listed for one in some
    ]
    for one in checks:
        if isinstance(one, Legal):
            return one.words
        if isinstance(one, OneOf):
            return _listed(one.names)
    parts, origin = get_args(kind), get_origin(kind)
    if origin is Annotated:
        return legal_values(parts[0], (*parts[1:], *checks))
    if origin is Literal:
        return _listed([str(one) for one in parts])
    if origin in (Union, UnionType):
        kinds = (legal_values(one, checks) for one in parts if one is not type(None))
        return " or ".join(dict.fromkeys(kinds))
    if origin is tuple:
        return f"a list: {legal_values(parts[0])}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "a section"
    limits = [
        _SIDES[type(one)].format(f"{getattr(one, type(one).__name__.lower()):,}".removesuffix(".0"))
        for one in checks
        if type(one) in _SIDES
    ]
    return ", ".join([_KINDS.get(kind, "any value"), *limits])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def settings_of(model: type[BaseModel], without: Iterable[str] = ()) -> Iterator[Setting]:
    """Yield the settings of a section, in the order of its declaration."""
    told = {
        name: one
        for base in reversed(model.__mro__)
        for name, one in documented(base.__doc__, "Attributes", shown=plain).items()
    }
    for name, field in model.model_fields.items():
        if name in without:
            continue
        meaning = told[name].meaning if name in told else _shift_meaning(model, name)
        yield Setting(
            name,
            "required" if field.is_required() else _default(field.default),
            _listed(SPLIT_SETTINGS)
            if model is Dealt and name == "kind"
            else legal_values(field.annotation, field.metadata),
            meaning,
        )


def _default(value: Any) -> str:
    """Write a default: as a study writes it, or in words."""
    if isinstance(value, BaseModel):
        return "its defaults"
    return "not set" if value in (None, (), "") else f"`{shown_default(value)}`"


def _said(model: type[BaseModel]) -> str:
    """Return what a section is, from the class that documents its keys."""
    told = (base for base in model.__mro__ if documented(base.__doc__, "Attributes"))
    return plain((next(told).__doc__ or "").partition("\n\n")[0])


def _shift_meaning(model: type[BaseModel], name: str) -> str:
    """Return what a built-in shift says of itself: its severities are a key of their own."""
    shift = SHIFTS.get(name) if "type_weights" in model.model_fields else None
    return f"Severities ({shift.unit}): {shift.description}" if shift else ""


def setting_table(settings: Iterable[Setting]) -> str:
    """Return settings as a table."""
    rows = (
        (f"`{one.name}`", cell(one.meaning), one.default, one.legal.replace("|", "\\|"))
        for one in settings
    )
    return "\n".join(table(("key", "what it is", "default", "legal"), rows))


def _sections() -> Mapping[str, type[BaseModel]]:
    """Return the sections in the order of the page: place in the file, and model."""
    closed = dict(sections())
    return {
        "": Study,
        "data": DataSettings,
        "model": closed["model"],
        "model.hypernetwork": closed["model.hypernetwork"],
        "methods.*": StudyMethod,
        "methods.*.serving": Serving,
        "train": closed["train"],
        "evaluation": closed["evaluation"],
        "shifts": closed["shifts"],
        "shifts.dataset.*": DataShift,
        "shifts.function.*": closed["shifts.function.*"],
        "denoising": closed["denoising"],
    }


def _names(told: Mapping[str, Mapping[str, str]]) -> str:
    """Return what may be named in a section, a list a key."""
    parts = []
    for key, names in told.items():
        entries = [f"- `{name}`: {plain(says).removesuffix('.')}." for name, says in names.items()]
        parts += [f"`{key}` may name:", "\n".join(entries).replace("?.", "?")]
    return "\n\n".join(parts)


NAMES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "": {
        "asks": QUESTIONS,
        "bounds": {name: one.words for name, one in PUBLISHED.items()},
    },
    "evaluation": {"measures": {name: one.description for name, one in MEASURES.items()}},
}
"""What a section's keys may name, and what each name stands for."""


def _heading(place: str) -> str:
    return f"## `{place}`" if place else "## The file"


def study_file() -> str:
    """Return every section of a study file, the kinds of splits and the routes among them."""
    parts = []
    for place, model in _sections().items():
        parts += [_heading(place), _said(model), setting_table(settings_of(model))]
        parts += [_names(NAMES[place])] if place in NAMES else []
        if place == "data":
            parts += _splits()
    for name, route in ROUTES.items():
        parts += [f"## `certificates.*` with `route: {name}`", _said(route.settings)]
        parts.append(setting_table(settings_of(route.settings)))
    return "\n\n".join(parts)


def _splits() -> Iterator[str]:
    """Yield what a split of any kind may be given, then each kind with its own settings."""
    yield "## `split`"
    yield "Of every kind but `frozen`:"
    yield setting_table(settings_of(Dealt))
    for name, model in SPLIT_SETTINGS.items():
        says = SPLITS[name].description if name in SPLITS else _said(model)
        yield f"### `split` with `kind: {name}`"
        yield f"{says[:1].upper()}{says[1:].removesuffix('.')}."
        own = list(settings_of(model, Dealt.model_fields if name in SPLITS else ()))
        if own:
            yield setting_table(own)
