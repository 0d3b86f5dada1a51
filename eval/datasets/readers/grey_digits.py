"""Small grey pictures: scikit-learn's handwritten digits, MNIST and Fashion-MNIST."""

import gzip
import struct
from importlib.util import find_spec
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset, Part, join_sets, make_dataset
from latecomer.eval.datasets.reader import (
    Archive,
    Reader,
    Source,
    find_folder,
    mirrored,
    reading,
    require_file,
)

_DIGITS = tuple("0123456789")


def read_digits() -> Dataset:
    """Return scikit-learn's digits: float32 in [0, 1], shape [1797, 1, 8, 8], ten classes.

    They are the test part of the UCI "Optical Recognition of Handwritten Digits" set; each pixel
    is the number of black dots in a 4x4 block, 0 to 16, divided by 16 here.

    Examples
    --------
    >>> data = read_digits()
    >>> data.x.shape, data.n_classes, float(data.x.max())
    ((1797, 1, 8, 8), 10, 1.0)
    """
    dots, y = _pixels_and_digits()
    return make_dataset(
        "digits",
        (dots.reshape(-1, 1, 8, 8) / 16).astype(np.float32),
        y,
        provenance="scikit-learn's load_digits (UCI optical recognition of handwritten digits)",
        class_names=_DIGITS,
    )


def _pixels_and_digits() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return what scikit-learn's ``load_digits(return_X_y=True)`` does.

    From its file where that is found: every process of a run reads the data, and importing
    ``sklearn.datasets`` takes as long as all else that a process imports before torch.
    """
    file = _packed()
    if file is None:
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        return x, y
    with gzip.open(file, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


def _packed() -> Path | None:
    """Return scikit-learn's file of the digits, where this version of it keeps one there."""
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        return None
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    return file if file.is_file() else None


_TRAIN, _TEST = "train", "t10k"
_KINDS = {3: "images", 1: "labels"}
_MOST = 1 << 32  # bytes; a damaged header can claim far more than any such set holds
_BLOCK = 1 << 24
_FASHION = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


def read_mnist(*, root: str | Path | None = None) -> Dataset:
    """Read MNIST: uint8 [N, 1, 28, 28], ten digits, the publisher's test set marked.

    Parameters
    ----------
    root : str or Path, optional
        Folder with ``MNIST/raw/train-images-idx3-ubyte`` and the other three files, each plain or
        ``.gz``, or ``MNIST/raw`` itself.

    Raises
    ------
    InputError
        A file is absent, damaged or not what its name says.
    """
    return _read("mnist", ("MNIST/raw", "mnist", "."), root, _DIGITS)


def read_fashion_mnist(*, root: str | Path | None = None) -> Dataset:
    """Read Fashion-MNIST: uint8 [N, 1, 28, 28], ten kinds of clothing, test set marked.

    Parameters
    ----------
    root : str or Path, optional
        Folder with ``FashionMNIST/raw/train-images-idx3-ubyte`` and the other three files, each
        plain or ``.gz``, or ``FashionMNIST/raw`` itself.

    Raises
    ------
    InputError
        A file is absent, damaged or not what its name says.
    """
    return _read("fashion_mnist", ("FashionMNIST/raw", "fashion-mnist", "."), root, _FASHION)


def _read(
    name: str, folders: tuple[str, ...], root: object, class_names: tuple[str, ...]
) -> Dataset:
    stem = f"{_TRAIN}-images-idx3-ubyte"
    folder = find_folder(name, root, folders, (stem, f"{stem}.gz"))
    train, test = (_part(folder, prefix, len(class_names)) for prefix in (_TRAIN, _TEST))
    if (len(train.y), len(test.y)) == (10_000, 60_000):
        raise InputError(f"data.root: {folder}: the {_TRAIN} and {_TEST} files are swapped")
    return join_sets(name, train, test, source=str(folder), class_names=class_names)


def _part(folder: Path, prefix: str, n_classes: int) -> Part:
    images = _plain_or_gz(folder / f"{prefix}-images-idx3-ubyte")
    labels = _plain_or_gz(folder / f"{prefix}-labels-idx1-ubyte")
    x, y = read_idx(images, 3), read_idx(labels, 1)
    with reading(labels):
        if len(x) != len(y):
            raise InputError(
                f"has {len(y):,} labels, but {images.name} {len(x):,} images: were files swapped?"
            )
        if int(y.max()) >= n_classes:
            raise InputError(f"labels must lie in 0..{n_classes - 1}, got {int(y.max())}")
    return Part(x[:, np.newaxis], y)


def _plain_or_gz(file: Path) -> Path:
    packed = file.with_name(file.name + ".gz")
    return packed if packed.exists() and not file.exists() else file


def read_idx(file: Path, n_axes: int) -> NDArray[np.uint8]:
    """Read an IDX file of uint8 with ``n_axes`` axes, unpacking it if it is gzipped.

    The format: two zero bytes, 8 for uint8, the number of axes, each axis' length as a big-endian
    32-bit number, then the bytes.
    """
    with reading(file):
        require_file(file)
        with file.open("rb") as stream:
            packed = stream.read(2) == b"\x1f\x8b"
        magic = 0x800 + n_axes
        with gzip.open(file, "rb") if packed else file.open("rb") as stream:
            header = stream.read(4 + 4 * n_axes)
            if len(header) < 4:
                raise InputError(f"holds {len(header)} bytes, less than a header")
            number = struct.unpack(">I", header[:4])[0]
            if number != magic:
                known = _KINDS.get(number - 0x800)
                hint = f", that of {known}: were files swapped?" if known else ""
                raise InputError(
                    f"must start with magic number {magic} ({_KINDS[n_axes]}), got {number}{hint}"
                )
            if len(header) < 4 + 4 * n_axes:
                raise InputError("is cut short within its header")
            sides = struct.unpack(f">{n_axes}I", header[4:])
            claimed = prod(sides)
            if not 0 < claimed < _MOST:
                raise InputError(f"must hold at least one sample and less than 4 GiB, got {sides}")
            content = bytearray()
            while block := stream.read(min(_BLOCK, claimed + 1 - len(content))):
                content += block
        if len(content) < claimed:
            raise InputError(
                f"is cut short: {claimed:,} bytes announced, {len(content):,} are there"
            )
        if len(content) > claimed:
            raise InputError(f"goes on after the {claimed:,} bytes that it announces")
        return np.frombuffer(content, np.uint8).reshape(sides)


_IDX = (
    *("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    *("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
)
_MNIST = (
    *("http://yann.lecun.com/exdb/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist"),
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)
_FASHION_MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
)


def _idx(folder: str, mirrors: tuple[str, ...], sums: tuple[tuple[str, str, int], ...]) -> Source:
    archives = tuple(
        Archive(f"{folder}/{file}", mirrored(mirrors, file), sha256, md5, size)
        for file, (sha256, md5, size) in zip(_IDX, sums, strict=True)
    )
    return Source(mirrors[0], f"{folder}/ with the four IDX files", archives, (60_000, 10_000))


READERS = (
    Reader(
        name="digits",
        description="1,797 real handwritten digits, 8x8 grey, 10 classes; ships with scikit-learn",
        read=read_digits,
    ),
    Reader(
        name="mnist",
        description="70,000 handwritten digits, 28x28 grey; publisher's test set",
        read=read_mnist,
        optional=("root",),
        source=_idx(
            "MNIST/raw",
            _MNIST,
            (
                (
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    9_912_422,
                ),
                (
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                    "d53e105ee54ea40749a09fcbcd1e9432",
                    28_881,
                ),
                (
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                    "9fb629c4189551a2d022fa330f9573f3",
                    1_648_877,
                ),
                (
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                    "ec29112dd5afa0611ce80d1b7f02629c",
                    4_542,
                ),
            ),
        ),
    ),
    Reader(
        name="fashion_mnist",
        description="70,000 pieces of clothing, 28x28 grey, 10 classes; publisher's test set",
        read=read_fashion_mnist,
        optional=("root",),
        source=_idx(
            "FashionMNIST/raw",
            _FASHION_MIRRORS,
            (
                (
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    26_421_880,
                ),
                (
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                    "25c81989df183df01b3e8a0aad5dffbe",
                    29_515,
                ),
                (
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                    "bef4ecab320f06d8554ea6380940ec79",
                    4_422_102,
                ),
                (
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                    "bb300cfdad3c16e7a12a480ee83cd310",
                    5_148,
                ),
            ),
        ),
    ),
)
