"""Names of the federated methods; a method's module is imported when it is first asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latecomer.models.method import Method

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
        found: type[Method] = getattr(import_module(f"latecomer.models.methods.{module}"), cls)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_HOME)

    def __len__(self) -> int:
        return len(_HOME)


METHODS: Mapping[str, "type[Method]"] = _Registry()
"""Name -> class, in the order of tables; listing the names loads no torch."""


def make_method(name: str, **hyper: Any) -> "Method":
    """Build a method from its name and hyper-parameters.

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
    if name not in _HOME:
        raise ValueError(
            f"method must be one of {', '.join(_HOME)}, got {name!r}" + _hint(name, _HOME)
        )
    cls = METHODS[name]
    known = [declared.name for declared in fields(cls)]
    for key in hyper:
        if key not in known:
            raise ValueError(f"{name} has no hyper-parameter {key!r}" + _hint(key, known))
    return cls(**hyper)


def _hint(word: str, known: Any) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
