"""The readers by name, where their data come from, and what reads a study's ``data`` key."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from latecomer.declared import declared
from latecomer.errors import InputError, nearest
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.datasets.reader import Archive, Reader, Source

__all__ = ["DATASETS", "SOURCES", "Archive", "Reader", "Source", "load_dataset"]

# Order of listings; data sets not named here follow.
_ORDER = (
    *("digits", "npz", "cifar10", "cifar100", "mnist", "fashion_mnist", "stl10", "femnist"),
    *("omniglot", "inaturalist", "landmarks", "yahoo_answers", "features"),
)
_FOUND: Mapping[str, Reader] = declared("latecomer.eval.datasets.readers", "READERS")
DATASETS: Mapping[str, Reader] = MappingProxyType(
    {name: _FOUND[name] for name in dict.fromkeys([*_ORDER, *_FOUND]) if name in _FOUND}
)
"""Every data set that a module of ``readers`` declares."""


def load_dataset(config: Mapping[str, Any]) -> Dataset:
    """Read the data set that a study's ``data`` key asks for.

    Parameters
    ----------
    config : mapping
        ``name``, one of :data:`DATASETS`, and the keys of its reader. A key with value None
        counts as not given.

    Raises
    ------
    InputError
        The name is unknown, a key is unknown or missing, or the reader refuses the data.

    Examples
    --------
    >>> load_dataset({"name": "digits"}).n_classes
    10
    """
    name = config.get("name")
    if not isinstance(name, str) or name not in DATASETS:
        hint = nearest(name, DATASETS) if isinstance(name, str) else ""
        raise InputError(f"data.name must be one of {', '.join(DATASETS)}, got {name!r}{hint}")
    reader = DATASETS[name]
    given = {key: value for key, value in config.items() if key != "name" and value is not None}
    legal = (*reader.required, *reader.optional)
    for key in given:
        if key not in legal:
            listed = f"takes {', '.join(legal)}" if legal else "takes no keys"
            raise InputError(
                f"data.{key} is no key of data set {name}, which {listed}{nearest(key, legal)}"
            )
    for key in reader.required:
        if key not in given:
            raise InputError(f"data.{key} must be given for data set {name}")
    return reader.read(**given)


SOURCES: Mapping[str, Source] = MappingProxyType(
    {name: one.source for name, one in DATASETS.items() if one.source is not None}
)
