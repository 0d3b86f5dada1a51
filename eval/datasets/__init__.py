"""Data sets: labelled samples with, where the publisher has them, natural clients and a test set.

One reader per file; ``DATASETS`` lists them and ``load_dataset`` reads a study's data set.
"""

from typing import TYPE_CHECKING

from latecomer.extras import front_door

if __name__ != "latecomer.eval.datasets":
    raise ImportError("import latecomer.eval.datasets, not the folder datasets")

if TYPE_CHECKING:
    from latecomer.eval.datasets.dataset import Dataset as Dataset
    from latecomer.eval.datasets.dataset import make_dataset as make_dataset
    from latecomer.eval.datasets.from_objects import clients_from as clients_from
    from latecomer.eval.datasets.registry import DATASETS as DATASETS
    from latecomer.eval.datasets.registry import Reader as Reader
    from latecomer.eval.datasets.registry import load_dataset as load_dataset

_HOME, __getattr__, __dir__ = front_door(__name__, __file__)

__all__ = [*sorted(_HOME)]
