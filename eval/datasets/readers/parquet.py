"""A user's own table as a Parquet file, one sample per row."""

from pathlib import Path
from typing import Any

from latecomer.errors import InputError
from latecomer.eval.datasets.columns import ROLES, columns_of, from_columns
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.datasets.locations import given_path, reading, require_file
from latecomer.eval.datasets.reader import Reader


def read_parquet(*, path: str | Path, **roles: Any) -> Dataset:
    """Read a Parquet file.

    Parameters
    ----------
    path : str or Path
        The file.
    **roles
        Roles of the columns: see :func:`~latecomer.eval.datasets.columns.from_columns`. Pictures
        may be paths, or the bytes of files, as Hugging Face writes them.

    Raises
    ------
    InputError
        The file is absent or damaged, pyarrow is not installed, or a column is absent or holds
        something else.
    """
    file = given_path(path, "a Parquet file")
    with reading(file, "data.path"):
        require_file(file)
        frame, about = _frame(file), f"Parquet file {file}"
        return from_columns(columns_of(frame, file.stem, about, folder=file.parent), **roles)


def _frame(file: Path) -> Any:
    import pandas as pd

    try:
        return pd.read_parquet(file)
    except ImportError as error:
        raise InputError(
            "Parquet is read with pyarrow, which is not installed: pip install 'latecomer[data]'"
        ) from error


READERS = (
    Reader(
        name="parquet",
        description="your own Parquet file, with columns as a table has them",
        read=read_parquet,
        required=("path",),
        optional=ROLES,
    ),
)
