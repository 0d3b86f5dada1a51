"""Names of the federated methods; a method's module is imported when it is first asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from latecomer.models import outside

if TYPE_CHECKING:
    from latecomer.models.engine.method import Method

_HOME = {
    "local": "local:Local",
    "fedavg": "fedavg:FedAvg",
    "fedprox": "fedprox:FedProx",
    "fedma": "fedma:FedMA",
    "fedper": "fedper:FedPer",
    "fedrep": "fedrep:FedRep",
    "lg_fedavg": "lg_fedavg:LGFedAvg",
    "per_fedavg": "per_fedavg:PerFedAvg",
    "pfedme": "pfedme:PFedMe",
    "knn_per": "knn_per:KNNPer",
    "pfedhn": "pfedhn:PFedHN",
    "pfedhn_pc": "pfedhn_pc:PFedHNPC",
    "pfl_sampled": "pfl_sampled:PFLSampled",
    "pfl_nearest": "pfl_nearest:PFLNearest",
    "pfl_ensemble": "pfl_ensemble:PFLEnsemble",
    "odpfl_hn": "odpfl_hn:ODPFLHN",
    "pefll": "pefll:PeFLL",
}


class _Registry(Mapping[str, "type[Method]"]):
    def __getitem__(self, name: str) -> "type[Method]":
        module, _, cls = _HOME[name].partition(":")
        method: type[Method] = getattr(import_module(f"latecomer.models.methods.{module}"), cls)
        return method

    def __iter__(self) -> Iterator[str]:
        return iter(_HOME)

    def __len__(self) -> int:
        return len(_HOME)


METHODS: Mapping[str, "type[Method]"] = _Registry()
"""Name -> class, in the order of tables; listing the names loads no torch."""


def known_names() -> tuple[str, ...]:
    """Return the built-in names, then those that installed packages offer as entry points."""
    return (*_HOME, *(name for name in sorted(outside.offered()) if name not in _HOME))


def find_method(name: str) -> "type[Method]":
    """Return a method's class by name, or by import path for one from outside.

    Parameters
    ----------
    name : str
        A built-in name, the name of an entry point in the group ``latecomer.methods``,
        ``package.module:Class``, or ``folder/file.py:Class`` from the working directory.

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
    if name in _HOME and name not in outside.offered():
        return METHODS[name]
    if outside.is_path(name) or name in outside.offered():
        return outside.import_method(name, tuple(_HOME))
    known = known_names()
    raise ValueError(f"method must be one of {', '.join(known)}, got {name!r}" + _hint(name, known))


def make_method(name: str, **hyper: Any) -> "Method":
    """Build a method from its name or import path and its hyper-parameters.

    Raises
    ------
    ValueError
        If the method or a hyper-parameter is unknown (naming the nearest one), or a value is out
        of its range.

    Examples
    --------
    >>> make_method("fedavg", local_lr=0.01).local_lr
    0.01
    """
    cls = find_method(name)
    known = [declared.name for declared in fields(cls)]
    for key in hyper:
        if key not in known:
            raise ValueError(f"{cls.name} has no hyper-parameter {key!r}" + _hint(key, known))
    return cls(**hyper)


def _hint(word: str, known: Any) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
