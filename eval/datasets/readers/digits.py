"""The 1,797 real handwritten digits that ship inside scikit-learn."""

import numpy as np

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
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return make_dataset(
        "digits",
        (bunch.images[:, np.newaxis] / 16).astype(np.float32),
        bunch.target,
        provenance="scikit-learn's load_digits (UCI optical recognition of handwritten digits)",
        class_names=tuple(str(name) for name in bunch.target_names),
    )


READERS = (
    Reader(
        name="digits",
        description="1,797 real handwritten digits, 8x8 grey, 10 classes; ships with scikit-learn",
        read=read_digits,
    ),
)
