"""Clients as PFLlib's generators leave them: one npz file a client, in ``train`` and ``test``.

The layout is that of PFLlib's ``dataset/utils/dataset_utils.py``: ``train/3.npz`` holds one array
``data``, a dictionary with ``x`` and ``y``, and ``config.json`` counts classes and samples.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.array_pickle import load_boxed
from latecomer.eval.datasets.dataset import Dataset, as_reals, make_dataset
from latecomer.eval.datasets.locations import given_folder, reading, require_file
from latecomer.eval.datasets.pictures import channels_first, check_layout
from latecomer.eval.datasets.reader import Reader

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
        name="pfllib",
        description="a folder that PFLlib made (train/0.npz, test/0.npz, ...); keys path, layout",
        read=read_pfllib,
        required=("path",),
        optional=("layout",),
    ),
)
