"""The 1,797 real handwritten digits that ship inside scikit-learn."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from latecomer.eval.datasets.dataset import Dataset, make_dataset
from latecomer.eval.datasets.reader import Reader


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
        class_names=tuple(str(digit) for digit in range(10)),
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


READERS = (
    Reader(
        name="digits",
        description="1,797 real handwritten digits, 8x8 grey, 10 classes; ships with scikit-learn",
        read=read_digits,
    ),
)
