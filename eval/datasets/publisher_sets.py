"""Join a publisher's training and test sets into one data set."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset, make_dataset


@dataclass(frozen=True, eq=False)
class Part:
    """Images and labels of a training or test set, with superclasses where there are any."""

    x: NDArray[Any] = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    coarse: NDArray[Any] | None = field(default=None, repr=False)


def join_sets(
    name: str,
    train: Part,
    test: Part,
    *,
    source: str,
    class_names: tuple[str, ...],
    remark: str = "",
) -> Dataset:
    """Append the publisher's test rows to the training rows and mark them.

    Parameters
    ----------
    name : str
    train, test : Part
    source : str
        What was read, in words; the numbers of images are appended.
    class_names : tuple of str
    remark : str
        Other changes that the reader made to the data.

    Raises
    ------
    InputError
        The two sets differ in image size or hold the same images.
    """
    if train.x.shape[1:] != test.x.shape[1:]:
        raise InputError(
            f"data.root: {source}: training and test images differ in size: "
            f"{list(train.x.shape[1:])} and {list(test.x.shape[1:])}"
        )
    if np.array_equal(train.x, test.x):
        raise InputError(f"data.root: {source}: training and test set are the same images")
    counts = f"{len(train.y):,} training and {len(test.y):,} test images"
    coarse = None
    if train.coarse is not None and test.coarse is not None:
        coarse = np.concatenate([train.coarse, test.coarse])
    return make_dataset(
        name,
        np.concatenate([train.x, test.x]),
        np.concatenate([train.y, test.y]),
        test=np.arange(len(train.y) + len(test.y)) >= len(train.y),
        coarse=coarse,
        class_names=class_names,
        provenance="; ".join(filter(None, [source, counts, remark])),
    )
