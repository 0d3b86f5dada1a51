"""The readers by name, and the one door through which a study's ``data`` key is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.datasets.digits import read_digits
from latecomer.eval.datasets.npz import read_npz
from latecomer.eval.errors import InputError, nearest

__all__ = ["DATASETS", "Reader", "load_dataset"]


@dataclass(frozen=True)
class Reader:
    """A data set that can be asked for: what it is, how it is read, which keys it takes.

    Attributes
    ----------
    description : str
        One line.
    read : callable
        Keyword arguments ``required`` and ``optional`` to :class:`Dataset`.
    required, optional : tuple of str
        Keys beside ``name``.
    """

    description: str
    read: Callable[..., Dataset]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


DATASETS: Mapping[str, Reader] = MappingProxyType(
    {
        "digits": Reader(
            "1,797 real handwritten digits, 8x8 grey, 10 classes; ships with scikit-learn",
            read_digits,
        ),
        "npz": Reader(
            "your own file with arrays x, y and optional client; keys path and layout",
            read_npz,
            required=("path",),
            optional=("layout",),
        ),
    }
)


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
        An unknown name, an unknown or absent key, or data that the reader refuses.

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
