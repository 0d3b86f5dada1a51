"""STL-10 at CIFAR-10's image size and with its labels: a natural data-set shift of CIFAR-10."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.datasets.locations import find_folder, read_bytes, reading, require_file
from latecomer.eval.datasets.publisher_sets import Part, join_sets
from latecomer.eval.datasets.reader import Archive, Reader, Source, mirrored
from latecomer.eval.datasets.readers.cifar import CIFAR10_CLASSES

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
    as_cifar10 = np.array([_cifar10_label(name) for name in names])
    alien = [name for name in names if _cifar10_label(name) < 0]
    wanted = {_CIFAR10_NAME.get(name, name) for name in names}
    absent = [name for name in CIFAR10_CLASSES if name not in wanted]
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


def _cifar10_label(name: str) -> int:
    name = _CIFAR10_NAME.get(name, name)
    return CIFAR10_CLASSES.index(name) if name in CIFAR10_CLASSES else -1


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
