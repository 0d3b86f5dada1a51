"""Artifacts: what a cell found that is no row, as arrays or a table beside a manifest."""

import csv
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from latecomer.eval.errors import InputError
from latecomer.eval.files import write_atomic

__all__ = ["Artifact", "read_artifact", "write_artifact"]

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
        Stored as ``<name>.csv``; the first record names the columns.  Exactly one of the two is
        given.  Read back, every entry is text.
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
    else:
        data, suffix = _table_text(name, artifact.table or ()), ".csv"
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
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = list(table[0]) if table else []
    writer.writerow(columns)
    for record in table:
        if list(record) != columns:
            raise TypeError(f"artifact {name!r}: records differ in their columns")
        cells = [
            value.item() if isinstance(value, np.generic) else value for value in record.values()
        ]
        writer.writerow(
            [repr(c) if isinstance(c, float) else "" if c is None else c for c in cells]
        )
    return out.getvalue()


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
            with np.load(data, allow_pickle=False) as stored:
                return Artifact(arrays={key: stored[key] for key in stored.files}, **about)
        with data.open(encoding="utf-8", newline="") as file:
            return Artifact(table=list(csv.DictReader(file)), **about)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{source} is no readable artifact: {error}") from None
