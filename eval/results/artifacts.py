"""Artifacts: results of a cell that are not rows, as arrays or a table beside a manifest."""

import contextlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from latecomer.errors import InputError
from latecomer.files import write_atomic

_MANIFEST = ".manifest.json"


@dataclass(frozen=True)
class Artifact:
    """Named arrays, or a table, and what their axes are.

    Attributes
    ----------
    kind : str
        What it is (``label_counts``, ``certificates``, ``descriptors``, ...).
    arrays : mapping of str to ndarray
        Stored as ``<name>.npz``; never objects.
    table : sequence of mappings
        Records with the same columns (a data frame is taken as its records), stored as
        ``<name>.csv``.  Exactly one of arrays and table is given.  Read back, a column of numbers
        and blanks is floats and NaN, any other column is text.
    axes : tuple of str
        What the axes of the arrays (or the table's rows) are, e.g. ``("client", "class")``.
    ids : mapping of str to sequence
        Ids along an axis, e.g. ``{"client": [0, 3, 7]}``.
    """

    kind: str
    arrays: Mapping[str, Any] | None = None
    table: Sequence[Mapping[str, Any]] | None = None
    axes: tuple[str, ...] = ()
    ids: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.arrays is None) == (self.table is None):
            raise TypeError("an artifact holds either arrays or a table")
        if isinstance(self.table, pd.DataFrame):
            object.__setattr__(self, "table", self.table.to_dict("records"))


def write_artifact(folder: str | Path, name: str, artifact: Artifact) -> Path:
    """Write an artifact into a folder; its manifest comes last and makes it complete.

    Returns
    -------
    Path
        The data file, ``folder/<name>.npz`` or ``folder/<name>.csv``.

    Raises
    ------
    TypeError
        For arrays of objects and tables whose records differ in their columns.
    """
    data: bytes | str
    if artifact.arrays is not None:
        arrays = {key: np.asarray(value) for key, value in artifact.arrays.items()}
        for key, value in arrays.items():
            if value.dtype.hasobject:
                raise TypeError(f"artifact {name!r}: array {key!r} holds objects")
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        data, suffix = buffer.getvalue(), ".npz"
    if artifact.table is not None:
        data, suffix = _table_text(name, artifact.table), ".csv"
    path = Path(folder) / f"{name}{suffix}"
    manifest = {
        "kind": artifact.kind,
        "file": path.name,
        "axes": list(artifact.axes),
        "ids": {axis: np.asarray(ids).tolist() for axis, ids in artifact.ids.items()},
    }
    write_atomic(path, data)
    write_atomic(path.with_name(name + _MANIFEST), json.dumps(manifest, indent=1) + "\n")
    return path


def _table_text(name: str, table: Sequence[Mapping[str, Any]]) -> str:
    if any(record.keys() != table[0].keys() for record in table):
        raise TypeError(f"artifact {name!r}: records differ in their columns")
    return pd.DataFrame(list(table), dtype=object).to_csv(index=False, lineterminator="\n")


def _read_table(path: Path) -> list[dict[str, Any]]:
    if not path.read_text("utf-8").strip():
        return []
    table = pd.read_csv(path, dtype="str", keep_default_na=False)
    for column in table.columns:
        if (table[column] != "").any():
            with contextlib.suppress(ValueError):
                table[column] = np.array([float(text or "nan") for text in table[column]])
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def read_artifact(path: str | Path) -> Artifact:
    """Read an artifact by its data file or by its manifest.

    Raises
    ------
    InputError
        When manifest or data are absent or damaged.
    """
    source = Path(path)
    stem = source.name.removesuffix(_MANIFEST).removesuffix(".npz").removesuffix(".csv")
    try:
        manifest = json.loads(source.with_name(stem + _MANIFEST).read_text("utf-8"))
        data = source.with_name(manifest["file"])
        about = {
            "kind": manifest["kind"],
            "axes": tuple(manifest["axes"]),
            "ids": manifest["ids"],
        }
        if data.suffix == ".npz":
            with data.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                return Artifact(arrays={key: stored[key] for key in stored.files}, **about)
        return Artifact(table=_read_table(data), **about)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"{source} is no readable artifact: {error}") from None
