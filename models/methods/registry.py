"""Names of the federated methods; a method's module is imported when it is first asked for."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from latecomer.models import outside
from latecomer.models.class_literals import literals, serving

if TYPE_CHECKING:
    from latecomer.models.engine.method import Method

# The order of tables; methods that are not listed follow.
_ORDER = (
    *("local", "fedavg", "fedavg_ft", "fedprox", "scaffold", "fedma", "fedper", "fedrep"),
    *("fedbabu", "lg_fedavg", "per_fedavg", "pfedme", "ditto", "apfl", "knn_per", "glmm"),
    *("ifca", "fedem", "pfedfda"),
    *("pfedhn", "pfedhn_pc", "pfl_sampled", "pfl_nearest", "pfl_ensemble", "odpfl_hn", "pefll"),
    *("flux", "feroma"),
)
_FOLDER = Path(__file__).parent
_FOUND = {info.name for info in iter_modules([str(_FOLDER)])} - {"registry"}
_NAMES = (*(name for name in _ORDER if name in _FOUND), *sorted(_FOUND - {*_ORDER}))


class _Registry(Mapping[str, "type[Method]"]):
    def __getitem__(self, name: str) -> "type[Method]":
        if name not in _FOUND:
            raise KeyError(name)
        module = import_module(f"latecomer.models.methods.{name}")
        classes: list[type[Method]] = [
            one
            for one in vars(module).values()
            if isinstance(one, type) and vars(one).get("name") == name
        ]
        if len(classes) != 1:
            raise ValueError(f"{module.__name__} must define one method of the name {name!r}")
        return classes[0]

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


METHODS: Mapping[str, "type[Method]"] = _Registry()
"""Name -> class of every method's file here, in the order of tables; listing loads no torch."""


@cache
def method_facts() -> Mapping[str, Mapping[str, Any]]:
    """Return the literals in the class bodies of all methods, and how many steps new clients take.

    The files are read, not run: a report cites methods without loading torch. ``serving`` maps the
    hyper-parameters whose product is the number of gradient steps a new client takes to their
    defaults; it is empty for methods that take none.

    Examples
    --------
    >>> method_facts()["pfedhn"]["cites"]
    ('shamsian2021',)
    """
    files = {name: file_of(name) for name in _NAMES}
    return {
        name: {**literals(file, name), "serving": serving(file)} for name, file in files.items()
    }


def file_of(name: str) -> Path:
    """Return the file of a built-in method."""
    return _FOLDER / f"{name}.py"


def known_names() -> tuple[str, ...]:
    """Return the built-in names, then those that installed packages offer as entry points."""
    return (*_NAMES, *(name for name in sorted(outside.offered()) if name not in _FOUND))


def find_method(name: str) -> "type[Method]":
    """Return a method's class by name, or by import path for one from outside.

    Parameters
    ----------
    name : str
        A built-in name, the name of an entry point in the group ``latecomer.methods``,
        ``package.module:Class`` or ``folder/file.py:Class``, also of a system trained elsewhere.

    Raises
    ------
    ValueError
        If there is no such method (naming the nearest one), if what is found is no complete
        method, or if two methods claim the name.

    Examples
    --------
    >>> find_method("fedavg") is METHODS["fedavg"]
    True
    """
    if name in _FOUND and name not in outside.offered():
        return METHODS[name]
    if outside.is_path(name) or name in outside.offered():
        return outside.import_method(name, _NAMES)
    known = known_names()
    raise ValueError(f"method must be one of {', '.join(known)}, got {name!r}" + _hint(name, known))


def make_method(name: str, **hyper: Any) -> "Method":
    """Build a method from its name or import path and its hyper-parameters.

    Raises
    ------
    ValueError
        Unknown method or hyper-parameter (naming the nearest one), a value out of its range, or
        ``needs_training=False`` missing for a system trained elsewhere or given for another method.

    Examples
    --------
    >>> make_method("fedavg", local_lr=0.01).local_lr
    0.01
    """
    cls = find_method(name)
    outside.check_said(name, cls, hyper.pop("needs_training", None))
    known = [declared.name for declared in fields(cls)]
    for key in [key for key in hyper if key not in known]:
        raise ValueError(f"{cls.name} has no hyper-parameter {key!r}" + _hint(key, known))
    # Copies: cells are named after the study's lists and tables, which a method might change.
    return cls(**{k: deepcopy(v) if isinstance(v, list | dict) else v for k, v in hyper.items()})


def _hint(word: str, known: Any) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
