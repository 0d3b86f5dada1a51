"""A user's own table as a CSV file, one sample per line."""

import csv
import warnings
from pathlib import Path
from typing import Any

from latecomer.eval.datasets.columns import ROLES, columns_of, from_columns
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.datasets.locations import given_path, reading, require_file
from latecomer.eval.datasets.reader import Reader
from latecomer.eval.errors import InputError


def read_table(*, path: str | Path, **roles: Any) -> Dataset:
    """Read a CSV file with a header.

    Parameters
    ----------
    path : str or Path
    **roles
        Roles of the columns: see :func:`~latecomer.eval.datasets.columns.from_columns`. A column
        of labels or clients is read as numbers if all are whole numbers, else as names.

    Raises
    ------
    InputError
        The file is absent or damaged, or a column is absent or holds something else.
    """
    file = given_path(path, "a CSV file")
    with reading(file, "data.path"):
        require_file(file)
        frame, about = _frame(file, roles), f"CSV file {file}"
        columns = columns_of(frame, file.stem, about, folder=file.parent, text=True)
        return from_columns(columns, **roles)


def _frame(file: Path, roles: dict[str, Any]) -> Any:
    import pandas as pd

    with file.open(encoding="utf-8-sig", newline="") as stream:
        header = next(csv.reader(stream), [])
    if len(set(header)) < len(header):  # pandas would rename the second column
        raise InputError(f"has a header that names a column twice: {', '.join(header[:8])}")
    named = [roles.get("label") or "label", roles.get("client") or "client", roles.get("image")]
    with warnings.catch_warnings():
        # pandas only warns if a row is longer than the header, and drops the excess.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(
            file,
            dtype={name: "str" for name in named if name in header},
            index_col=False,
            encoding="utf-8-sig",
            keep_default_na=False,
            low_memory=False,
        )


READERS = (
    Reader(
        name="table",
        description="your own CSV file: columns of features or of paths to images, label, client",
        read=read_table,
        required=("path",),
        optional=ROLES,
    ),
)
