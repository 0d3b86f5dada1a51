"""Rows and artifacts: the files through which evaluation and reports meet.

A row is one number with everything needed to know what it is about; results of several numbers
(label counts, descriptors, tables of inputs) are artifacts with a manifest.  Files are written
whole or not at all.
"""

import contextlib
import csv
import io
import json
import math
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from latecomer.checks import named_files, output_files
from latecomer.errors import InputError, nearest
from latecomer.eval.results.kept_cells import (
    PACKED_ROWS,
    cells_of,
    declared_study,
    listed_cells,
    mapping_in,
    mapping_of_cell,
    rows_content,
    rows_file,
    run_folder,
)
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

    Returns the data file, ``folder/<name>.npz`` or ``folder/<name>.csv``. Arrays of objects, and
    tables whose records differ in their columns, are a TypeError.
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
        if any(record.keys() != artifact.table[0].keys() for record in artifact.table):
            raise TypeError(f"artifact {name!r}: records differ in their columns")
        table = pd.DataFrame(list(artifact.table), dtype=object)
        data, suffix = table.to_csv(index=False, lineterminator="\n"), ".csv"
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


ROWS_SCHEMA_VERSION = 1
MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "study": "name of the study",
        "cell": "id of the cell that the number is from",
        "dataset": "name of the data set",
        "split": "kind of split",
        "split_seed": "seed of the split",
        "method": "name of the method",
        "label": "what the study calls the method's entry",
        "personalization": "how the method serves a client, such as global, finetune, embedding",
        "seed": "training seed",
        "round": "rounds after which the model is measured",
        "group": "whose number it is: seen, held-out or new clients, or those of a route",
        "client": "number of the client; empty for a number about several",
        "shift": "what was done to the inputs, none for nothing",
        "severity": "how much of it, in the shift's unit",
        "classes": "what happened to the logits of absent classes (`evaluation.classes`)",
        "n_support": "samples that the client was served from",
        "n_query": "samples that it was scored on",
        "n_clients": "clients that the number is about",
        "aggregation": "per-client: mean over clients; pooled: over all their samples",
        "metric": "what the number is, such as error, loss, gap, certificate, a distance",
        "value": "the number; errors are fractions",
        "lower": "lower end of its interval, if it has one",
        "upper": "upper end of its interval, if it has one",
        "bound": "name of the bound or certificate, as route:rule",
        "term": "the part of a bound or distance that the number is; empty for the whole",
        "population": "clients that the bound is about",
        "predictor": "deterministic (fixed weights), gibbs (random weights) or a route's own",
        "sampling": "how clients are drawn: iid, finite-pool or martingale",
        "rigorous": "True for a proven bound, False for one that is not proven here",
        "delta": "probability with which the bound may fail",
        "status": "done, or failed for a cell that ended with an error",
        "message": "why the cell failed, why the bound is not proven, or what the number rests on",
        "version": "version of latecomer that wrote the row",
    }
)
"""What each column of ``rows.csv`` holds; the file has them in this order."""
COLUMNS = tuple(MEANINGS)
_FLOATS = ("severity", "value", "lower", "upper", "delta")
_INTEGERS = ("split_seed", "seed", "round", "n_support", "n_query", "n_clients")
_ORDER = (
    *("cell", "group", "client", "shift", "severity", "metric", "bound", "term"),
    *("aggregation", "predictor", "population", "delta"),
)
_SORTED_BY = tuple((name, COLUMNS.index(name)) for name in _ORDER)


def make_row(**fields: Any) -> dict[str, Any]:
    """Make a row: every column is present, those not given are empty; any other is a TypeError.

    >>> row = make_row(metric="error", value=0.25, client=7)
    >>> row["value"], row["client"], row["bound"]
    (0.25, 7, '')
    """
    for name in fields:
        if name not in COLUMNS:
            raise TypeError(f"rows have no column {name!r}{nearest(name, COLUMNS)}")
    return {name: fields.get(name, "") for name in COLUMNS}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, str):
        return value.replace("\r\n", "\n").replace("\r", "\n")
    raise TypeError(f"a row holds text and numbers only, got {type(value).__name__}")


def _texts(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple([_text(row[name]) for name in COLUMNS])


def _sort_key(texts: Sequence[str]) -> tuple[Any, ...]:
    """Return what a line is sorted by: ``_ORDER``, then all of its text.

    So the order of the input never shows in the file.
    """
    # Empty first, then numbers by value, then words: client 10 comes after client 9.
    key: list[tuple[int, float, str]] = []
    for name, column in _SORTED_BY:
        text = texts[column]
        number = math.nan
        if text and name in ("client", "severity", "delta"):
            with contextlib.suppress(ValueError):
                number = float(text)
        if not text:
            key.append((0, 0.0, ""))
        elif math.isnan(number):
            key.append((2, 0.0, text))
        else:
            key.append((1, number, text))
    return (*key, texts)


def rows_to_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Write sorted rows as CSV text: header always, floats by ``repr``, Unix line ends."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    lines = [_texts(make_row(**row)) for row in rows]
    lines.sort(key=_sort_key)
    writer.writerows(lines)
    return out.getvalue()


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a rows file in one atomic step."""
    write_atomic(path, rows_to_text(rows))


def read_rows(path: str | Path) -> pd.DataFrame:
    """Read a rows file.

    Returns
    -------
    pandas.DataFrame
        The columns of `COLUMNS`: ``value lower upper severity delta`` are floats (NaN when empty),
        ``seed split_seed round n_*`` nullable integers, ``rigorous`` True, False or ``""``, all
        others text (``client`` too); a blank ``shift`` is ``none``.  The metric ``gap`` is new-
        minus seen-client *accuracy*, negative if new clients are served worse: minus the gap of
        errors that reports and trackers give.

    Raises
    ------
    InputError
        When the file is absent, torn, or no rows file of this schema.
    """
    return _typed(read_records(path), Path(path))


def _typed(records: list[list[str]], source: Path) -> pd.DataFrame:
    frame = pd.DataFrame(records, columns=list(COLUMNS), dtype="str")
    # Plain lists: looping over a column of a frame takes several times as long.
    columns = dict(zip(COLUMNS, zip(*records, strict=True), strict=True)) if records else {}
    try:
        for name in _FLOATS:
            texts = columns.get(name, ())
            frame[name] = np.array([float(text or "nan") for text in texts], dtype=float)
        for name in _INTEGERS:
            texts = columns.get(name, ())
            frame[name] = pd.array([int(text) if text else None for text in texts], "Int64")
        truth = {"": "", "True": True, "False": False}
        name = "rigorous"
        frame[name] = pd.Series([truth[text] for text in columns.get(name, ())], dtype=object)
    except (ValueError, KeyError) as error:
        raise InputError(f"{source} is no rows file: column {name!r}: {error}") from None
    frame["shift"] = frame["shift"].replace("", "none")
    return frame


def read_records(path: str | Path) -> list[list[str]]:
    """Read a rows file as text, one list per row in the order of `COLUMNS`."""
    source = Path(path)
    try:
        text = rows_content(source).decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no rows file {source}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{source} cannot be read as a rows file: {error}") from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header, *records = list(lines) or [[]]
    except csv.Error as error:
        raise InputError(f"{source} is torn or no CSV file: {error}") from None
    if tuple(header) != COLUMNS:
        differing = [name for name in header if name not in COLUMNS]
        absent = [name for name in COLUMNS if name not in header]
        what = (
            f"unknown column {differing[0]!r}"
            if differing
            else f"column {absent[0]!r} is absent"
            if absent
            else "columns in another order"
        )
        raise InputError(f"{source} is no rows file: {what}")
    short = [number for number, row in enumerate(records, 2) if len(row) != len(COLUMNS)]
    if short or not text.endswith("\n"):
        row = short[0] if short else len(records) + 1
        raise InputError(f"{source} is torn: row {row} is incomplete")
    return records


@dataclass(frozen=True)
class ArtifactFile:
    """One artifact of a run: the cell it belongs to, its name, kind and data file."""

    cell: str
    name: str
    kind: str
    path: Path

    def load(self) -> Artifact:
        """Read the artifact."""
        return read_artifact(self.path)


@dataclass(frozen=True)
class CellRecord:
    """One cell of a run: ``status`` is done, failed or unfinished."""

    id: str
    path: Path
    status: str
    config: dict[str, Any]
    timing: dict[str, Any]
    message: str

    def losses(self) -> list[tuple[int, float]]:
        """Return the training loss of every round that ``progress.jsonl`` has, by its round."""
        place = self.path / "progress.jsonl"
        told = {}
        for line in place.read_text("utf-8").splitlines() if place.is_file() else ():
            # Lines may be notes; the last one may be torn.
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                told[int(entry["round"])] = float(entry["loss"])
        return sorted(told.items())


@dataclass(frozen=True)
class RunRecord:
    """A run directory, read.

    Attributes
    ----------
    study, env : dict
        ``study.yaml`` (resolved) and ``env.json``.
    rows : pandas.DataFrame
        The merged rows, as `read_rows` gives them, and those of cells that ended since.
    artifacts : tuple of ArtifactFile
        Those of the finished cells.
    cells : tuple of CellRecord
        In the order of the study (``cells.json``).
    scorings : tuple of dict
        The lines of ``certification.jsonl``: models scored on the held-out clients so far.
    """

    path: Path
    study: dict[str, Any]
    env: dict[str, Any]
    rows: pd.DataFrame
    artifacts: tuple[ArtifactFile, ...]
    cells: tuple[CellRecord, ...]
    scorings: tuple[dict[str, Any], ...] = ()


def load_run(path: str | Path) -> RunRecord:
    """Read a run directory, whose cells may be packed.

    Raises
    ------
    InputError
        When it is no run directory, no cell of its run has ended, or a file in it is damaged.
    """
    folder = run_folder(path)
    places = cells_of(folder)
    try:
        study = declared_study(folder)
        env = mapping_in(folder / "env.json")
        cells = tuple(_cell(places / name) for name in listed_cells(folder))
        artifacts = tuple(
            _artifact_file(cell.id, file)
            for cell in cells
            if cell.status == "done"
            for file in sorted((cell.path / "artifacts").glob("*.manifest.json"))
        )
        scorings = _json_lines(folder / "certification.jsonl")
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{folder} holds a damaged run: {' '.join(str(error).split())}") from None
    rows = _rows_of(folder, cells)
    if rows_file(folder).name == PACKED_ROWS and not places.is_dir():
        failed = {*rows.loc[rows["status"] == "failed", "cell"]}  # a finished run, its rows alone
        cells = tuple(
            replace(cell, status="failed" if cell.id in failed else "done") for cell in cells
        )
    return RunRecord(folder, study, env, rows, artifacts, cells, scorings)


def write_beside(run: RunRecord, files: Mapping[str, str | bytes]) -> None:
    """Write files into a run's directory, by their names below it; all of them, or none.

    No name may be a folder, or a link to a file of the run or to its data.
    """
    output_files(run.path, files, named_files(run.study))
    for name, content in files.items():
        write_atomic(run.path / name, content)


def _rows_of(folder: Path, cells: Sequence[CellRecord]) -> pd.DataFrame:
    """Rows of a run: ``rows.csv``, written at its end, and the rows of cells not yet in it.

    A cell that had failed then, and was tried again with success, is not yet in it.
    """
    merged, done = rows_file(folder), {cell.id for cell in cells if cell.status == "done"}
    own, status = COLUMNS.index("cell"), COLUMNS.index("status")
    records = [
        record
        for record in (read_records(merged) if merged.is_file() else [])
        if record[status] != "failed" or record[own] not in done
    ]
    known = _by_cell(records)
    _refuse_changed(folder, known, cells)
    ended = [
        cell.path / "rows.csv"
        for cell in cells
        if cell.status != "unfinished" and cell.id not in known
    ]
    late = [record for path in ended if path.is_file() for record in read_records(path)]
    if not late:
        if not merged.is_file():
            raise InputError(f"{folder} holds an unfinished run, no cell of which has ended yet")
        return _typed(records, merged)
    return _typed(sorted(records + late, key=_sort_key), folder)


def _by_cell(records: Iterable[list[str]]) -> dict[str, list[list[str]]]:
    column, found = COLUMNS.index("cell"), dict[str, list[list[str]]]()
    for record in records:
        found.setdefault(record[column], []).append(record)
    return found


def _refuse_changed(
    folder: Path, merged: Mapping[str, list[list[str]]], cells: Iterable[CellRecord]
) -> None:
    """Refuse merged rows that are not those of the run's finished cells that lie there."""
    told = f"{rows_file(folder).name} was changed or cut short"
    again = "give the run's command again, which makes it anew from its cells"
    for cell in cells:
        own, held = cell.path / "rows.csv", merged.get(cell.id)
        if held is None or cell.status != "done" or not own.is_file():
            continue
        if sorted(read_records(own)) != sorted(held):
            raise InputError(f"{folder}: {told}, or {own} was: their rows differ; {again}")


def _artifact_file(cell: str, manifest: Path) -> ArtifactFile:
    about = mapping_of_cell(manifest.parents[1], f"{manifest.parent.name}/{manifest.name}")
    name, kind = about.get("file"), about.get("kind")
    if not (isinstance(name, str) and isinstance(kind, str)):
        raise ValueError(f"{manifest.name} in cell {cell} names no file and its kind")
    return ArtifactFile(cell, Path(name).stem, kind, manifest.parent / name)


def _json_lines(path: Path) -> tuple[dict[str, Any], ...]:
    try:
        lines = path.read_text("utf-8-sig").splitlines() if path.is_file() else []
        values = tuple(json.loads(line) for line in lines if line.strip())
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    if not all(isinstance(value, dict) for value in values):
        raise ValueError(f"a line of {path.name} is no mapping")
    return values


def _cell(place: Path) -> CellRecord:
    failure = mapping_of_cell(place, "failed.json")
    done = (place / "done").is_file()
    return CellRecord(
        id=place.name,
        path=place,
        status="done" if done else "failed" if failure else "unfinished",
        config=mapping_of_cell(place, "config.json"),
        timing=mapping_of_cell(place, "timing.json"),
        message=str(failure.get("message", "")),
    )
