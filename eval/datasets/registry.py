"""The readers by name, and the one door through which a study's ``data`` key is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from latecomer.eval.datasets.cifar import read_cifar10, read_cifar100
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.datasets.digits import read_digits
from latecomer.eval.datasets.features import read_features, reader_of
from latecomer.eval.datasets.femnist import read_femnist
from latecomer.eval.datasets.idx import read_fashion_mnist, read_mnist
from latecomer.eval.datasets.npz import read_npz
from latecomer.eval.datasets.omniglot import read_omniglot
from latecomer.eval.datasets.stl10 import read_stl10
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
        "cifar10": Reader(
            "60,000 photographs, 32x32 colour, 10 classes; publisher's test set",
            read_cifar10,
            optional=("root",),
        ),
        "cifar100": Reader(
            "60,000 photographs, 32x32 colour, 100 classes of 20 kinds; publisher's test set",
            read_cifar100,
            optional=("root",),
        ),
        "mnist": Reader(
            "70,000 handwritten digits, 28x28 grey; publisher's test set",
            read_mnist,
            optional=("root",),
        ),
        "fashion_mnist": Reader(
            "70,000 pieces of clothing, 28x28 grey, 10 classes; publisher's test set",
            read_fashion_mnist,
            optional=("root",),
        ),
        "stl10": Reader(
            "13,000 photographs reduced to 32x32, with CIFAR-10's labels; publisher's test set",
            read_stl10,
            optional=("root", "classes"),
        ),
        "femnist": Reader(
            "handwritten characters by 3,597 writers (natural clients), 32x32 grey, 62 classes",
            read_femnist,
            optional=("root",),
        ),
        "omniglot": Reader(
            "32,460 drawings of 1,623 characters; natural clients by alphabet or drawer",
            read_omniglot,
            optional=("root", "clients", "labels", "size"),
        ),
        "inaturalist": Reader(
            "features of length 1280 of plant and animal photographs, from a file you make once",
            reader_of("inaturalist"),
            optional=("path", "root"),
        ),
        "landmarks": Reader(
            "features of length 1280 of landmark photographs, from a file you make once",
            reader_of("landmarks"),
            optional=("path", "root"),
        ),
        "yahoo_answers": Reader(
            "features of length 768 of questions and answers, from a file you make once",
            reader_of("yahoo_answers"),
            optional=("path", "root"),
        ),
        "features": Reader(
            "any feature vectors with labels and, optionally, clients: an npz or csv file",
            read_features,
            required=("path",),
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
