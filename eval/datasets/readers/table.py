"""A user's own table, one sample a row, as CSV or Parquet file."""

from pathlib import Path
from typing import Any

from latecomer.errors import InputError
from latecomer.eval.datasets.columns import (
    ROLES,
    columns_of,
    csv_frame,
    form_of,
    from_columns,
    header_of,
)
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.datasets.reader import Reader, given_path, reading, require_file


def read_table(*, path: str | Path, **roles: Any) -> Dataset:
    """Read a CSV file with a header.

    Parameters
    ----------
    path : str or Path
        The file.
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
        names, begins = header_of(file)
        try:
            as_text = (roles.get("label") or "label", roles.get("client") or "client")
            kinds = {name: "str" for name in names if name in (*as_text, roles.get("image"))}
            frame = csv_frame(file, names, begins, kinds)
            columns = columns_of(
                frame, file.stem, f"CSV file {file}", folder=file.parent, text=True
            )
            return from_columns(columns, **roles)
        except (ValueError, Warning) as error:
            # Look for a cause in the file's form, which says more than a column that fails for it.
            cause = form_of(file, names, roles.get("label") or "label")
            if isinstance(error, InputError):
                short = cause.startswith("line")
                raise InputError(f"{cause}: {error}" if short else cause or str(error)) from error
            torn = "" if isinstance(error, Warning) else "is damaged: "
            raise InputError(torn + (cause or str(error))) from error


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
    import pandas as pd

    file = given_path(path, "a Parquet file")
    with reading(file, "data.path"):
        require_file(file)
        try:
            frame = pd.read_parquet(file)
        except ImportError as error:
            raise InputError(
                "Parquet is read with pyarrow, which is not installed: "
                "pip install 'latecomer[data]'"
            ) from error
        about = f"Parquet file {file}"
        return from_columns(columns_of(frame, file.stem, about, folder=file.parent), **roles)


READERS = (
    Reader(
        name="table",
        description="your own CSV file: columns of features or of paths to images, label, client",
        read=read_table,
        required=("path",),
        optional=ROLES,
    ),
    Reader(
        name="parquet",
        description="your own Parquet file, with columns as a table has them",
        read=read_parquet,
        required=("path",),
        optional=ROLES,
    ),
)
