"""Clients as FL-bench's and PFLlib's generators leave them.

FL-bench's ``data/generate_data.py``: ``data_indices`` lists, a client, the rows of its training,
validation and test samples in the data set, training set first.

PFLlib's ``dataset/utils/dataset_utils.py``: ``train/3.npz`` holds one array ``data``, a dictionary
with ``x`` and ``y``, and ``config.json`` counts classes and samples.
"""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset, as_reals, make_dataset, unowned
from latecomer.eval.datasets.pictures import channels_first, check_layout
from latecomer.eval.datasets.reader import Reader, given_folder, read_bytes, reading, require_file
from latecomer.eval.datasets.readers.cifar import read_cifar10, read_cifar100
from latecomer.eval.datasets.readers.grey_digits import read_fashion_mnist, read_mnist
from latecomer.eval.datasets.restricted_pickle import load_arrays, load_boxed

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
        notes.append(unowned(len(y) - len(rows), len(y)))
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


_COUNTS = "Size of samples for labels in clients"
_LARGEST = 1 << 33  # bytes of one client's file, unpacked


def read_pfllib(*, path: str | Path, layout: str | None = None) -> Dataset:
    """Read a folder that PFLlib made: its clients stay clients, its test samples stay query.

    Parameters
    ----------
    path : str or Path
        Folder with ``train`` and ``test``, one file ``0.npz``, ``1.npz``, ... a client in each;
        ``config.json`` beside them is compared with what the files hold, if it is there.
    layout : {"vector", "hw", "chw", "hwc"}, optional
        Layout of ``x``; needed only where two fit.

    Returns
    -------
    Dataset
        Clients by PFLlib's numbers. Pixels stay as they are: its generators bring pictures to
        [-1, 1].

    Raises
    ------
    InputError
        A file is absent, damaged or holds anything but arrays of numbers (text is none), clients
        of ``train`` and ``test`` differ, or ``config.json`` says other counts than the files.

    Examples
    --------
    >>> read_pfllib(path="no-such-folder")
    Traceback (most recent call last):
    latecomer.errors.InputError: data.path: there is no folder no-such-folder
    """
    folder = given_folder(path, "a folder that PFLlib made")
    check_layout(layout)
    train, test = (_numbers(folder / part) for part in ("train", "test"))
    if train != test:
        odd = min(set(train) ^ set(test))
        has, lacks = ("train", "test") if odd in train else ("test", "train")
        raise InputError(f"data.path: {folder}: client {odd} is in {has}, but not in {lacks}")
    parts = [
        (number, part == "test", _samples(folder / part / f"{number}.npz"))
        for part in ("train", "test")
        for number in train
    ]
    shapes = {x.shape[1:] for _, _, (x, _) in parts}
    if len(shapes) > 1:
        listed = " and ".join(str(list(shape)) for shape in sorted(shapes))
        raise InputError(f"data.path: {folder}: clients have inputs of shapes {listed}")
    sizes = [len(y) for _, _, (_, y) in parts]
    client = np.repeat([number for number, _, _ in parts], sizes)
    labels = np.concatenate([y for _, _, (_, y) in parts])
    classes = _compared(folder / "config.json", train, client, labels)
    with reading(folder, "data.path"):
        return make_dataset(
            folder.name,
            channels_first(np.concatenate([x for _, _, (x, _) in parts]), layout),
            labels,
            client=client,
            test=np.repeat([tested for _, tested, _ in parts], sizes),
            class_names=tuple(map(str, range(classes))),
            provenance=f"PFLlib's folder {folder}; {len(train):,} clients, {len(labels):,} samples",
        )


def _numbers(folder: Path) -> list[int]:
    """Return the clients whose files lie in a folder."""
    if not folder.is_dir():
        raise InputError(f"data.path: {folder.parent}: there is no folder {folder.name} in it")
    found = [file.stem for file in folder.glob("*.npz")]
    if not found:
        raise InputError(f"data.path: {folder}: there is no file 0.npz, 1.npz, ... in it")
    strange = [stem for stem in found if not (stem.isdecimal() and str(int(stem)) == stem)]
    if strange:
        listed = f"{min(strange)}.npz"
        raise InputError(f"data.path: {folder}: clients' files are 0.npz, 1.npz, ..., got {listed}")
    return sorted(map(int, found))


def _samples(file: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    with reading(file, "data.path"):
        require_file(file)
        with zipfile.ZipFile(file) as archive:
            if "data.npy" not in archive.namelist():
                raise InputError("has no array data: it is no file of PFLlib")
            if archive.getinfo("data.npy").file_size > _LARGEST:
                raise InputError(f"holds more than {_LARGEST:,} bytes")
            with archive.open("data.npy") as member:
                np.lib.format.read_magic(member)
                shape, _, dtype = np.lib.format.read_array_header_1_0(member)
                if shape != () or dtype != np.dtype(object):
                    raise InputError("has an array data that is no dictionary: no file of PFLlib")
                held = load_boxed(member.read(), "file of PFLlib")
        match held:
            case {"x": np.ndarray() as x, "y": np.ndarray() as y} if x.ndim and y.ndim == 1:
                pass
            case _:
                raise InputError(
                    "must hold x and y as arrays of numbers; text cannot be trained on"
                )
        if len(x) != len(y) or not len(y):
            raise InputError(f"holds {len(x)} inputs and {len(y)} labels: as many, at least one")
        return as_reals(x), y


def _compared(file: Path, clients: list[int], client: NDArray[Any], labels: NDArray[Any]) -> int:
    """Return the number of classes, after comparing config.json's facts with the files."""
    held = int(labels.max()) + 1 if labels.dtype.kind in "iuf" else 1
    if not file.exists():
        return held
    with reading(file, "data.path"):
        facts = json.loads(file.read_text("utf-8"))
        if not isinstance(facts, dict):
            raise InputError("is no object of JSON")
        told = facts.get("num_clients", len(clients))
        if told != len(clients):
            raise InputError(f"says num_clients={told}, but there are files of {len(clients)}")
        classes = facts.get("num_classes", held)
        if type(classes) is not int or classes < held:
            raise InputError(f"says num_classes={classes}, but labels go to {held - 1}")
        for number, counts in zip(clients, facts.get(_COUNTS, ()), strict=False):
            own = labels[client == number]
            there = {
                int(c): int(n) for c, n in zip(*np.unique(own, return_counts=True), strict=True)
            }
            if {int(c): int(n) for c, n in counts} != there:
                raise InputError(
                    f"says client {number} has {dict(counts)} samples a class, the files {there}"
                )
        return classes


READERS = (
    Reader(
        name="fl_bench",
        description="a data set as FL-bench dealt it (partition.pkl); keys path, root and layout",
        read=read_fl_bench,
        required=("path",),
        optional=("root", "layout"),
    ),
    Reader(
        name="pfllib",
        description="a folder that PFLlib made (train/0.npz, test/0.npz, ...); keys path, layout",
        read=read_pfllib,
        required=("path",),
        optional=("layout",),
    ),
)
