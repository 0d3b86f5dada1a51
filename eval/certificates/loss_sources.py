"""Where losses come from: a file, its bytes, a frame, a mapping or a sequence, read row by row."""

import csv
import io
from collections.abc import Iterable, Mapping
from functools import partial
from os import PathLike, fspath
from typing import Any

from latecomer.eval.certificates.loss_records import is_json, json_rows, parquet_frame
from latecomer.eval.certificates.loss_rows import Rows
from latecomer.eval.errors import InputError, nearest


def rows_of(source: Any, rows: Rows, ranks: Any = None) -> Rows:
    """Put everything that a source holds into the rows, and return them.

    ``ranks`` are the clients' places in the order of sampling where no column holds them: by
    client, or one for each row.
    """
    _read(source, rows)
    if ranks is not None:
        rows.give_ranks(ranks)
    if not rows.numbers:
        raise InputError(f"{_label(source)}: holds no clients")
    return rows


def _label(source: Any) -> str:
    if isinstance(source, (str, PathLike)):
        return str(fspath(source))
    return "standard input" if isinstance(source, bytes) else "losses"


def _read(source: Any, rows: Rows) -> None:
    label = _label(source)
    if isinstance(source, (str, PathLike)) and label.lower().endswith((".parquet", ".pq")):
        _read_frame(parquet_frame(label), rows, label)
    elif isinstance(source, (str, PathLike, bytes)):
        data = source if isinstance(source, bytes) else file_bytes(label)
        (_read_json if is_json(data) else read_csv)(label, data, rows)
    elif isinstance(source, Mapping):
        _read_pairs(source.items(), rows)
    elif hasattr(source, "columns") and hasattr(source, "itertuples"):
        _read_frame(source, rows)
    elif hasattr(source, "index") and hasattr(source, "items"):
        _read_pairs(source.items(), rows)  # a series; its index holds the clients
    elif isinstance(source, (list, tuple)) or (hasattr(source, "ndim") and source.ndim == 1):
        _read_pairs(enumerate(source), rows)
    else:
        raise InputError(
            "losses must be a CSV, JSON or Parquet file, a DataFrame with columns client and loss,"
            " a mapping client -> loss or one loss a client in a row, got"
            f" {type(source).__name__}"
        )


def _read_pairs(pairs: Iterable[tuple[Any, Any]], rows: Rows) -> None:
    for name, column in (("by", rows.by), ("order", rows.order)):
        if column is not None:
            raise InputError(f"{name} {column} needs a file or a DataFrame with that column")
    for key, value in pairs:
        client = str(key)
        if client in rows.numbers:
            raise InputError(f"losses: client {client!r} occurs twice")
        rows.add(partial("losses, client {!r}".format, client), client, value)


def _read_json(path: str, data: bytes, rows: Rows) -> None:
    asked = ["client", "loss", *rows.further]
    for where, values in json_rows(path, _text(path, data)):
        for name in asked:
            if name not in values:
                listed = ", ".join(map(str, list(values)[:8]))
                raise InputError(f"{where}: no {name!r} among {listed or 'none'}")
        client, group = values["client"], None if rows.by is None else values[rows.by]
        told = "" if group is None else str(group)
        named = "" if client is None else str(client).strip()
        rank = None if rows.order is None else values[rows.order]
        weight = values.get("weight", 1.0)
        rows.add(partial(str, where), named, values["loss"], weight, told, rank)


def _read_frame(frame: Any, rows: Rows, label: str = "losses") -> None:
    listed = [str(name) for name in frame.columns]
    _require_columns(label, listed, rows.further)
    columns = ["client", "loss", *(["weight"] if "weight" in frame.columns else [])]
    asked = list(dict.fromkeys([*columns, *rows.further]))
    for number, values in enumerate(frame[asked].itertuples(index=False, name=None)):
        held = dict(zip(asked, values, strict=True))
        client, group = held["client"], "" if rows.by is None else held[rows.by]
        named = "" if client is None or client != client else str(client)
        told = "" if group is None or group != group else str(group)
        where = partial("{}, row {}".format, label, number)
        rank = None if rows.order is None else held[rows.order]
        rows.add(where, named, held["loss"], held.get("weight", 1.0), told, rank)


def read_csv(path: str, data: bytes, rows: Rows) -> None:
    """Put the lines of a CSV file into the rows."""
    reader = csv.reader(io.StringIO(_text(path, data), newline=""), strict=True)

    def where() -> str:
        # A field with line breaks spans several lines; the reader is at the last of them.
        return f"{path}, line {reader.line_num}"

    try:
        header = next((cells for cells in reader if any(map(str.strip, cells))), None)
        if header is None:
            raise InputError(f"{path}: the file is empty")
        names = [cell.strip() for cell in header]
        _require_columns(path, names, rows.further)
        client, loss = names.index("client"), names.index("loss")
        weight = names.index("weight") if "weight" in names else None
        group = None if rows.by is None else names.index(rows.by)
        rank = None if rows.order is None else names.index(rows.order)
        for cells in reader:
            if len(cells) != len(names):
                if not any(map(str.strip, cells)):
                    continue
                raise InputError(
                    f"{where()}: {len(cells)} values, but the header has {len(names)} columns"
                )
            if not cells[client] and not any(map(str.strip, cells)):
                continue
            rows.add(
                where,
                cells[client].strip(),
                cells[loss].strip(),
                1.0 if weight is None else cells[weight].strip(),
                "" if group is None else cells[group].strip(),
                None if rank is None else cells[rank].strip(),
            )
    except csv.Error as error:
        cause = "a quotation mark is never closed" if "unexpected end" in str(error) else error
        raise InputError(f"{where()}: {cause}") from error


def file_bytes(path: str) -> bytes:
    """Return what a file holds."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {cause}") from error


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text") from error


def _require_columns(where: str, columns: list[str], further: list[str]) -> None:
    asked = ("client", "loss", *further)
    for wanted in asked:
        if wanted not in columns:
            listed = ", ".join(columns[:8]) + (", ..." if len(columns) > 8 else "")
            raise InputError(
                f"{where}: no column {wanted!r} among {listed or 'none'}{nearest(wanted, columns)}"
            )
    for name in (*asked, "weight"):
        if columns.count(name) > 1:
            raise InputError(f"{where}: column {name!r} occurs twice")
