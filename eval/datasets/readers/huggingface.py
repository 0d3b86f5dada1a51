"""A Hugging Face Dataset written by ``save_to_disk``."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from latecomer.errors import InputError
from latecomer.eval.datasets.columns import ROLES, Columns, from_columns
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.datasets.locations import given_path, reading
from latecomer.eval.datasets.reader import Reader


def read_huggingface(*, path: str | Path, split: object = None, **roles: Any) -> Dataset:
    """Read a folder that ``Dataset.save_to_disk`` wrote; nothing is downloaded.

    Parameters
    ----------
    path : str or Path
        The folder.
    split : str, optional
        Part to read, where ``DatasetDict.save_to_disk`` wrote several.
    **roles
        Roles of the columns: see :func:`~latecomer.eval.datasets.columns.from_columns`.

    Raises
    ------
    InputError
        The folder holds no such Dataset, the package datasets is not installed, or a column is
        absent or holds something else.
    """
    folder = given_path(path, "a folder that save_to_disk wrote")
    with reading(folder, "data.path"):
        held, about = _part(_loaded(folder), split), f"Hugging Face Dataset in {folder}"
        return from_columns(hugging_columns(held, folder.name, about, folder=folder), **roles)


def hugging_columns(dataset: Any, name: str, provenance: str, *, folder: Path = Path()) -> Columns:
    """Return the columns of a Hugging Face Dataset as they are stored, whatever its format."""
    plain = dataset.with_format(None)
    names = {
        column: tuple(feature.names)
        for column, feature in plain.features.items()
        if type(feature).__name__ == "ClassLabel"
    }
    return Columns(name, provenance, _Cells(plain), folder=folder, class_names=names)


class _Cells(Mapping[str, Any]):
    """The columns of a Dataset, each read on access."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getitem__(self, column: str) -> Any:
        if type(self._dataset.features[column]).__name__ == "Image":
            return self._dataset[column]  # images are decoded one at a time
        return self._dataset.select_columns([column]).to_pandas()[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dataset.column_names)

    def __len__(self) -> int:
        return len(self._dataset.column_names)


def _loaded(folder: Path) -> Any:
    try:
        from datasets import load_from_disk
    except ImportError as error:
        raise InputError(
            "is read with the package datasets, which is not installed: "
            "pip install 'latecomer[data]'"
        ) from error
    try:
        return load_from_disk(str(folder))
    except LookupError as error:  # raised by datasets for empty files or missing keys
        raise InputError("holds no rows, or is damaged") from error


def _part(held: Any, split: object) -> Any:
    """Return the Dataset that ``split`` names."""
    parts = held if isinstance(held, dict) else {None: held}
    if split is None and len(parts) == 1:
        return next(iter(parts.values()))
    if split is None or split not in parts:
        listed = ", ".join(map(str, parts)) if isinstance(held, dict) else "none: it has no parts"
        raise InputError(f"split must be one of its parts, {listed}, got {split!r}")
    return parts[split]


READERS = (
    Reader(
        name="huggingface",
        description="a folder that Hugging Face's save_to_disk wrote, with columns as a table",
        read=read_huggingface,
        required=("path",),
        optional=(*ROLES, "split"),
    ),
)
