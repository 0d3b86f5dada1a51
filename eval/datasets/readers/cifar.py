"""CIFAR-10 and CIFAR-100, and STL-10 at their image size and with CIFAR-10's labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset, Part, join_sets, joined
from latecomer.eval.datasets.reader import (
    Archive,
    Reader,
    Source,
    find_folder,
    mirrored,
    read_bytes,
    reading,
    require_file,
)
from latecomer.eval.datasets.restricted_pickle import load_cifar_pickle

CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
_SHAPE = (3, 32, 32)
_PIXELS = 3072


@dataclass(frozen=True)
class _Version:
    """How one version of one of the two sets is laid out."""

    folder: str
    train: tuple[str, ...]
    test: str
    names: Mapping[str, str]
    """Where the names of classes and superclasses are: key -> file."""
    labels: tuple[str, ...]
    """Key of the fine labels, then of the superclasses (CIFAR-100)."""


_CIFAR10 = (
    _Version(
        "cifar-10-batches-py",
        tuple(f"data_batch_{i}" for i in range(1, 6)),
        "test_batch",
        {"label_names": "batches.meta"},
        ("labels",),
    ),
    _Version(
        "cifar-10-batches-bin",
        tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
        "test_batch.bin",
        {"label_names": "batches.meta.txt"},
        ("labels",),
    ),
)
_CIFAR100 = (
    _Version(
        "cifar-100-python",
        ("train",),
        "test",
        {"fine_label_names": "meta", "coarse_label_names": "meta"},
        ("fine_labels", "coarse_labels"),
    ),
    _Version(
        "cifar-100-binary",
        ("train.bin",),
        "test.bin",
        {
            "fine_label_names": "fine_label_names.txt",
            "coarse_label_names": "coarse_label_names.txt",
        },
        ("fine_labels", "coarse_labels"),
    ),
)


def _read(
    name: str, versions: tuple[_Version, ...], sizes: tuple[int, ...], root: object
) -> Dataset:
    marks = [version.train[0] for version in versions]
    folder = find_folder(name, root, [*(version.folder for version in versions), "."], marks)
    version = next(v for v in versions if (folder / v.train[0]).exists())
    names = [
        _names(folder / file, key, size)
        for (key, file), size in zip(version.names.items(), sizes, strict=True)
    ]
    if name == "cifar10" and names[0] != CIFAR10_CLASSES:
        file = folder / version.names["label_names"]
        raise InputError(f"data.root: {file}: does not name CIFAR-10's classes in their order")
    parts = [
        _batch(folder / file, version, sizes, f"training batch {i} of {len(version.train)}")
        for i, file in enumerate(version.train, start=1)
    ]
    test = _batch(folder / version.test, version, sizes, "testing batch 1 of 1")
    return join_sets(name, joined(parts), test, source=str(folder), class_names=names[0])


def read_cifar10(*, root: str | Path | None = None) -> Dataset:
    """Read CIFAR-10: uint8 [N, 3, 32, 32], ten classes, the publisher's test set marked.

    Parameters
    ----------
    root : str or Path, optional
        Folder with ``cifar-10-batches-py`` or ``cifar-10-batches-bin``, or that folder itself.

    Raises
    ------
    InputError
        A file is absent, damaged or not what its name says.
    """
    return _read("cifar10", _CIFAR10, (10,), root)


def read_cifar100(*, root: str | Path | None = None) -> Dataset:
    """Read CIFAR-100: uint8 [N, 3, 32, 32], 100 classes in 20 superclasses, test set marked.

    Parameters
    ----------
    root : str or Path, optional
        Folder with ``cifar-100-python`` or ``cifar-100-binary``, or that folder itself.

    Raises
    ------
    InputError
        A file is absent, damaged or not what its name says.
    """
    return _read("cifar100", _CIFAR100, (100, 20), root)


def _batch(file: Path, version: _Version, sizes: tuple[int, ...], title: str) -> Part:
    with reading(file):
        content = read_bytes(file)
        if file.suffix == ".bin":
            labels, x = _from_records(content, len(sizes))
        else:
            labels, x = _from_pickle(load_cifar_pickle(content), version.labels, title)
        for key, column, size in zip(version.labels, labels, sizes, strict=True):
            if column.size and int(column.max()) >= size:
                raise InputError(f"{key} must lie in 0..{size - 1}, got {int(column.max())}")
        return Part(x.reshape(-1, *_SHAPE), labels[0], labels[1] if len(sizes) == 2 else None)


def _from_pickle(
    held: Mapping[str, Any], keys: tuple[str, ...], title: str
) -> tuple[list[NDArray[Any]], NDArray[Any]]:
    for key in ("data", *keys):
        if key not in held:
            listed = ", ".join(sorted(held)[:8]) or "nothing"
            raise InputError(f"has no {key}; it holds {listed}")
    stated = held.get("batch_label")
    if isinstance(stated, bytes) and stated != title.encode():
        raise InputError(f"is {stated.decode('latin1')!r}, not {title!r}: were files swapped?")
    x = held["data"]
    if not isinstance(x, np.ndarray) or x.ndim != 2 or x.shape[1] != _PIXELS or not len(x):
        shape = list(x.shape) if isinstance(x, np.ndarray) else type(x).__name__
        raise InputError(f"data must hold images as uint8 [N, {_PIXELS}], got {shape}")
    columns = [held[key] for key in keys]
    for key, column in zip(keys, columns, strict=True):
        if not isinstance(column, list) or len(column) != len(x):
            count = len(column) if isinstance(column, list) else "no list"
            raise InputError(f"{key} must hold {len(x)} numbers, one an image, got {count}")
        if not all(type(label) is int and 0 <= label < 256 for label in column):
            raise InputError(f"{key} must hold whole numbers from 0")
    return [np.array(column, dtype=np.int64) for column in columns], x


def _from_records(content: bytes, n_labels: int) -> tuple[list[NDArray[Any]], NDArray[Any]]:
    width = n_labels + _PIXELS
    if len(content) % width:
        raise InputError(f"must hold whole records of {width} bytes, got {len(content):,} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, width)
    # CIFAR-100 puts the superclass first.
    columns = [records[:, n_labels - 1 - i].astype(np.int64) for i in range(n_labels)]
    return columns, records[:, n_labels:]


def _names(file: Path, key: str, size: int) -> tuple[str, ...]:
    with reading(file):
        content = read_bytes(file)
        if file.suffix == ".txt":
            names = tuple(line.strip() for line in content.decode("utf-8").splitlines())
            names = tuple(filter(None, names))
        else:
            held = load_cifar_pickle(content)
            if not isinstance(held.get(key), list):
                raise InputError(f"has no {key}; it holds {', '.join(sorted(held)[:8])}")
            text = partial(str, encoding="utf-8")
            names = tuple(text(n) if isinstance(n, bytes) else str(n) for n in held[key])
        if len(names) != size:
            raise InputError(f"{key} must name {size} classes, got {len(names)}")
        return names


_KRIZ = ("https://www.cs.toronto.edu/~kriz", "https://cave.cs.toronto.edu/kriz")


STL10_CLASSES = (
    *("airplane", "bird", "car", "cat", "deer"),
    *("dog", "horse", "monkey", "ship", "truck"),
)
_CIFAR10_NAME = {"car": "automobile"}
_SIDE, _KEPT_SIDE = 96, 32
_BYTES = 3 * _SIDE * _SIDE
_AT_ONCE = 256


def read_stl10(*, root: str | Path | None = None, classes: str = "cifar10") -> Dataset:
    """Read the labelled images of STL-10: uint8 [N, 3, 32, 32], the publisher's test set marked.

    Every 3x3 block of the 96x96 image becomes its mean, rounded to the nearest whole number. The
    100,000 unlabelled images are not read.

    Parameters
    ----------
    root : str or Path, optional
        Folder with ``stl10_binary``, or that folder itself.
    classes : {"cifar10", "stl10"}
        ``cifar10``: CIFAR-10's labels, matched by name; monkeys, which CIFAR-10 lacks, are left
        out, and there are no frogs. ``stl10``: the publisher's ten classes, numbered from 0.

    Raises
    ------
    InputError
        A file is absent, damaged or not what its name says.
    """
    if classes not in ("cifar10", "stl10"):
        raise InputError(f"data.classes must be cifar10 or stl10, got {classes!r}")
    folder = find_folder("stl10", root, ("stl10_binary", "."), ("train_X.bin",))
    names = _class_names(folder / "class_names.txt")
    train, test = (_part(folder, prefix) for prefix in ("train", "test"))
    if classes == "stl10":
        return join_sets("stl10", train, test, source=str(folder), class_names=names)
    wanted = [_CIFAR10_NAME.get(name, name) for name in names]
    alien = [name for name in wanted if name not in CIFAR10_CLASSES]
    absent = [name for name in CIFAR10_CLASSES if name not in wanted]
    number = {name: label for label, name in enumerate(CIFAR10_CLASSES)}
    as_cifar10 = np.array([number.get(name, -1) for name in wanted])
    kept = []
    for part in (train, test):
        y = as_cifar10[part.y]
        kept.append(Part(part.x[y >= 0], y[y >= 0]))
    left_out = sum(len(part.y) for part in (train, test)) - sum(len(part.y) for part in kept)
    return join_sets(
        "stl10",
        *kept,
        source=str(folder),
        class_names=CIFAR10_CLASSES,
        remark=f"classes as in CIFAR-10; left out {left_out:,} images of {', '.join(alien)}; "
        f"no images of {', '.join(absent)}",
    )


def _class_names(file: Path) -> tuple[str, ...]:
    with reading(file):
        names = tuple(read_bytes(file).decode("utf-8").split())
        if names != STL10_CLASSES:
            raise InputError("does not name STL-10's ten classes in their order")
    return names


def _part(folder: Path, prefix: str) -> Part:
    images, labels = folder / f"{prefix}_X.bin", folder / f"{prefix}_y.bin"
    with reading(labels):
        y = np.frombuffer(read_bytes(labels), np.uint8).astype(np.int64) - 1
        if int(y.min()) < 0 or int(y.max()) > 9:
            wrong = int(y.min() if y.min() < 0 else y.max()) + 1
            raise InputError(f"labels must lie in 1..10, got {wrong}: were files swapped?")
    with reading(images):
        require_file(images)
        size = images.stat().st_size
        if size % _BYTES:
            raise InputError(f"must hold whole images of {_BYTES:,} bytes, got {size:,} bytes")
        if size // _BYTES != len(y):
            raise InputError(
                f"holds {size // _BYTES:,} images, but {labels.name} {len(y):,} labels: "
                "were files swapped?"
            )
        x = np.empty((len(y), 3, _KEPT_SIDE, _KEPT_SIDE), dtype=np.uint8)
        with images.open("rb") as stream:
            for start in range(0, len(y), _AT_ONCE):
                chunk = stream.read(_BYTES * min(_AT_ONCE, len(y) - start))
                raw = np.frombuffer(chunk, np.uint8).reshape(-1, 3, _SIDE, _SIDE)
                # The publisher stores each channel column by column.
                x[start : start + len(raw)] = _thirds(raw.transpose(0, 1, 3, 2))
    return Part(x, y)


def _thirds(x: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Average 3x3 blocks of ``x`` [n, C, H, W], rounding to the nearest whole number."""
    n, channels, height, width = x.shape
    blocks = x.reshape(n, channels, height // 3, 3, width // 3, 3)
    total = blocks.sum(axis=(3, 5), dtype=np.uint16)
    mean: NDArray[np.uint8] = ((total + 4) // 9).astype(np.uint8)
    return mean


_STL10 = ("http://ai.stanford.edu/~acoates/stl10", "https://cs.stanford.edu/~acoates/stl10")


READERS = (
    Reader(
        name="cifar10",
        description="60,000 photographs, 32x32 colour, 10 classes; publisher's test set",
        read=read_cifar10,
        optional=("root",),
        source=Source(
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            "cifar-10-batches-py/ or cifar-10-batches-bin/, unpacked",
            (
                Archive(
                    "cifar-10-python.tar.gz",
                    mirrored(_KRIZ, "cifar-10-python.tar.gz"),
                    "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                    "c58f30108f718f92721af3b95e74349a",
                    170_498_071,
                    tuple(
                        f"cifar-10-batches-py/{file}"
                        for file in (
                            *(f"data_batch_{i}" for i in range(1, 6)),
                            *("test_batch", "batches.meta"),
                        )
                    ),
                ),
            ),
            (50_000, 10_000),
        ),
    ),
    Reader(
        name="cifar100",
        description="60,000 photographs, 32x32 colour, "
        "100 classes of 20 kinds; publisher's test set",
        read=read_cifar100,
        optional=("root",),
        source=Source(
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            "cifar-100-python/ or cifar-100-binary/, unpacked",
            (
                Archive(
                    "cifar-100-python.tar.gz",
                    mirrored(_KRIZ, "cifar-100-python.tar.gz"),
                    "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
                    "eb9058c3a382ffc7106e4002c42a8d85",
                    169_001_437,
                    tuple(f"cifar-100-python/{file}" for file in ("train", "test", "meta")),
                ),
            ),
            (50_000, 10_000),
        ),
    ),
    Reader(
        name="stl10",
        description="13,000 photographs reduced to 32x32, "
        "with CIFAR-10's labels; publisher's test set",
        read=read_stl10,
        optional=("root", "classes"),
        source=Source(
            "https://cs.stanford.edu/~acoates/stl10/",
            "stl10_binary/, unpacked (unlabeled_X.bin is not needed)",
            (
                Archive(
                    "stl10_binary.tar.gz",
                    mirrored(_STL10, "stl10_binary.tar.gz"),
                    "f31fd99273a1acb8609c8db427cebb1de3f71de77758cdc0e22956e1289b9866",
                    "91f7769df0f17e558f3565bffb0c7dfb",
                    2_640_397_119,
                    tuple(
                        f"stl10_binary/{file}"
                        for file in (
                            *("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin"),
                            "class_names.txt",
                        )
                    ),
                ),
            ),
            # Without the monkeys: 500 of 5,000 and 800 of 8,000 images.
            (4_500, 7_200),
        ),
    ),
)
