"""Clients as FL-bench's ``generate_data.py`` leaves them: ``partition.pkl`` beside ``args.json``.

The layout is that of FL-bench's ``data/generate_data.py``: ``data_indices`` lists, a client, the
rows of its training, validation and test samples in the data set, training set first.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.array_pickle import load_arrays
from latecomer.eval.datasets.dataset import Dataset, as_reals, make_dataset
from latecomer.eval.datasets.locations import given_folder, read_bytes, reading, require_file
from latecomer.eval.datasets.pictures import channels_first, check_layout
from latecomer.eval.datasets.reader import Reader
from latecomer.eval.datasets.readers.cifar import read_cifar10, read_cifar100
from latecomer.eval.datasets.readers.idx import read_fashion_mnist, read_mnist

_PUBLISHED = {
    "cifar10": read_cifar10,
    "cifar100": read_cifar100,
    "mnist": read_mnist,
    "fmnist": read_fashion_mnist,
}
_ARRAYS = (("data.npy", "targets.npy"), ("raw/xdata.npy", "raw/ydata.npy"))
_PARTS = ("train", "val", "test")


def read_fl_bench(
    *, path: str | Path, root: str | Path | None = None, layout: str | None = None
) -> Dataset:
    """Read a data set as FL-bench dealt it to clients; its test samples stay query.

    Parameters
    ----------
    path : str or Path
        FL-bench's folder of the data set, such as ``data/cifar10``, with ``partition.pkl`` and
        ``args.json``. The pickle is read without running any of it.
    root : str or Path, optional
        Where the publisher's files of cifar10, cifar100, mnist or fmnist lie; ``path`` itself
        unless given, which is where FL-bench puts them. Other data sets are read from the arrays
        that FL-bench stores beside the partition (``data.npy`` or ``raw/xdata.npy``).
    layout : {"vector", "hw", "chw", "hwc"}, optional
        Layout of such arrays; needed only where two fit.

    Returns
    -------
    Dataset
        Clients by FL-bench's numbers, from 0. Validation samples join the training samples, and
        samples that no client holds are left out; ``notes`` count both. Where whole clients are
        laid aside for testing (``--split user``), they are clients like all others.

    Raises
    ------
    InputError
        A file is absent or damaged, ``args.json`` names another number of clients, or a row is
        outside the data set or in two places.
    """
    folder = given_folder(path, "a folder of FL-bench")
    check_layout(layout)
    facts = _facts(folder / "args.json")
    rows, client, part = _dealt(folder / "partition.pkl", facts)
    x, y, names = _inputs(folder, facts, root, layout)
    if len(rows) and rows.max() >= len(y):
        raise InputError(
            f"data.path: {folder}: the partition names row {rows.max():,}, but there are only "
            f"{len(y):,} samples"
        )
    notes = []
    if (part == 1).any():
        notes.append(f"{int((part == 1).sum()):,} validation samples joined the training samples")
    if len(y) > len(rows):
        notes.append(f"{len(y) - len(rows):,} of {len(y):,} samples belong to no client: left out")
    tested = part == 2
    by_sample = bool(np.intersect1d(client[tested], client[~tested]).size)
    with reading(folder, "data.path"):
        return make_dataset(
            folder.name,
            x[rows],
            y[rows],
            client=client,
            test=tested if by_sample else None,
            class_names=names,
            provenance=f"FL-bench's partition in {folder}; {len(np.unique(client)):,} clients",
            notes=tuple(notes),
        )


def _facts(file: Path) -> Mapping[str, Any]:
    with reading(file, "data.path"):
        require_file(file)
        facts = json.loads(file.read_text("utf-8"))
        if not isinstance(facts, dict) or not isinstance(facts.get("dataset"), str):
            raise InputError("names no dataset: it is no args.json of FL-bench")
        return facts


def _dealt(
    file: Path, facts: Mapping[str, Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows that clients hold, whose each is, and its place in ``_PARTS``."""
    with reading(file, "data.path"):
        held = load_arrays(read_bytes(file), "partition of FL-bench")
        dealt = held.get("data_indices") if isinstance(held, dict) else None
        if not isinstance(dealt, list) or not all(isinstance(one, dict) for one in dealt):
            raise InputError("has no data_indices, a dictionary of rows a client")
        told = facts.get("client_num", len(dealt))
        if told != len(dealt):
            raise InputError(f"deals to {len(dealt)} clients, but args.json says client_num={told}")
        pieces = [
            (number, part, _rows(one.get(name, []), number))
            for number, one in enumerate(dealt)
            for part, name in enumerate(_PARTS)
        ]
        rows = np.concatenate([own for _, _, own in pieces])
        if not len(rows):
            raise InputError("deals no samples")
        if len(np.unique(rows)) < len(rows):
            listed, counts = np.unique(rows, return_counts=True)
            raise InputError(f"deals row {listed[counts > 1][0]:,} more than once")
        sizes = [len(own) for _, _, own in pieces]
        client = np.repeat([number for number, _, _ in pieces], sizes)
        return rows, client, np.repeat([part for _, part, _ in pieces], sizes)


def _rows(listed: Any, client: int) -> NDArray[np.int64]:
    rows = np.asarray(listed)
    if rows.size == 0:
        return np.empty(0, np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or int(rows.min()) < 0:
        raise InputError(f"must list rows of client {client} as whole numbers from 0")
    return rows.astype(np.int64)


def _inputs(
    folder: Path, facts: Mapping[str, Any], root: str | Path | None, layout: str | None
) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...]]:
    """Return all samples in the order that the partition counts in, and the classes' names."""
    name = facts["dataset"]
    if name in _PUBLISHED:
        published = _PUBLISHED[name](root=root or folder)
        if facts.get("super_class"):
            if published.coarse is None:
                raise InputError(f"data.path: {folder}: {name} has no superclasses")
            return published.x, published.coarse, ()
        return published.x, published.y, published.class_names
    for inputs, labels in _ARRAYS:
        if (folder / inputs).exists():
            x, y = (_array(folder / file) for file in (inputs, labels))
            with reading(folder / inputs, "data.path"):
                if len(x) != len(y):
                    raise InputError(f"has {len(x)} samples, and {labels} {len(y)} labels")
                pixels = as_reals(x)
                square = name == "femnist" and pixels.shape[1:] == (784,)
                shaped = pixels.reshape(-1, 1, 28, 28) if square else pixels
                return channels_first(shaped, layout), np.ravel(y), ()
    listed = ", ".join(_PUBLISHED)
    raise InputError(
        f"data.path: {folder}: {name} is read from {listed} or from data.npy and targets.npy "
        "beside the partition, and neither is there"
    )


def _array(file: Path) -> NDArray[Any]:
    with reading(file, "data.path"):
        require_file(file)
        array: NDArray[Any] = np.load(file, allow_pickle=False)
        if array.dtype.kind not in "iufb":
            raise InputError("holds no numbers")
        return array


READERS = (
    Reader(
        name="fl_bench",
        description="a data set as FL-bench dealt it (partition.pkl); keys path, root and layout",
        read=read_fl_bench,
        required=("path",),
        optional=("root", "layout"),
    ),
)
