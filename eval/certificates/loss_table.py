"""Read per-client losses from a CSV file, a data frame or a mapping: one mean loss a client.

A user of any framework can write two columns, ``client`` and ``loss``; several rows of one client
are averaged, weighted when there is a ``weight`` column.  Neither the order of the rows nor the
type of the source changes the outcome: sums are exact and losses come sorted.  Nothing is to be
learned from the ids either: an order by id, or by a hash of it, is no random order of clients whose
ids and losses go together.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from latecomer.eval.errors import InputError, nearest

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LossTable:
    """One loss per client, the smallest first.

    Attributes
    ----------
    clients : tuple of str
        Client ids.
    losses : tuple of float
        Mean loss of each client, same order, each in ``[0, loss_max]``.
    n_rows : int
        Rows that were averaged.
    """

    clients: tuple[str, ...]
    losses: tuple[float, ...]
    n_rows: int


@dataclass(frozen=True)
class _Row:
    where: str
    client: str
    loss: float
    weight: float


def read_losses(
    source: "str | PathLike[str] | pd.DataFrame | Mapping[Any, float]", *, loss_max: float
) -> LossTable:
    """Average the rows of each client and order the clients by their loss, then by their id.

    Parameters
    ----------
    source : path, DataFrame or mapping
        CSV file (UTF-8, comma-separated, a header) or DataFrame with the columns ``client``,
        ``loss`` and optionally ``weight``, other columns ignored; or a mapping client -> loss.
    loss_max : float
        Largest possible loss.

    Returns
    -------
    LossTable

    Raises
    ------
    InputError
        One line naming the file, the line and what is wrong with it.

    Examples
    --------
    >>> table = read_losses({"ann": 0.1, "bob": 0.3}, loss_max=1.0)
    >>> sorted(zip(table.clients, table.losses))
    [('ann', 0.1), ('bob', 0.3)]
    """
    rows: dict[str, list[_Row]] = {}
    for row in _rows(source):
        _check_loss(row, loss_max)
        rows.setdefault(row.client, []).append(row)
    if not rows:
        raise InputError(f"{_label(source)}: holds no clients")
    found = sorted((min(_mean(own), loss_max), client) for client, own in rows.items())
    return LossTable(
        clients=tuple(client for _, client in found),
        losses=tuple(loss for loss, _ in found),
        n_rows=sum(map(len, rows.values())),
    )


def read_arrivals(
    path: str | PathLike[str], *, loss_max: float, whole: bool
) -> tuple[tuple[str, float], ...]:
    """Return client and loss of every line, in the order of the file.

    Parameters
    ----------
    path : path
        CSV file with the columns ``client`` and ``loss``, one line a client.
    loss_max : float
        Largest possible loss.
    whole : bool
        Whether the file is complete.  One that is still written to may end within a line, which is
        left for later; a complete one may lack its last line break, and must hold a client.

    Raises
    ------
    InputError
        One line naming the file, the line and what is wrong with it.
    """
    name = str(fspath(path))
    data = _bytes(name)
    if not whole:
        data = data[: data.rfind(b"\n") + 1]
        if not data.strip():
            return ()
    found: dict[str, float] = {}
    for row in _csv_rows(name, data):
        _check_loss(row, loss_max)
        if row.client in found:
            raise InputError(
                f"{row.where}: client {row.client!r} occurs twice; a client arrives once, with one"
                " loss"
            )
        found[row.client] = row.loss
    if whole and not found:
        raise InputError(f"{name}: holds no clients")
    return tuple(found.items())


def _check_loss(row: _Row, loss_max: float) -> None:
    if row.loss < 0:
        raise InputError(f"{row.where}: loss {row.loss:g} is negative")
    if row.loss > loss_max:
        raise InputError(
            f"{row.where}: loss {row.loss:g} lies outside [0, {loss_max:g}];"
            " losses that can be larger need their largest value as loss_max (--loss-max)"
        )


def _mean(rows: list[_Row]) -> float:
    largest = max(row.weight for row in rows)
    if largest == 0:
        raise InputError(f"{rows[0].where}: the weights of client {rows[0].client!r} are all 0")
    # fsum is exact, so the order of the rows cannot show in the last digit.
    weights = [row.weight / largest for row in rows]
    total = math.fsum(w * row.loss for w, row in zip(weights, rows, strict=True))
    return total / math.fsum(weights)


def _label(source: Any) -> str:
    if isinstance(source, (str, PathLike)):
        return str(fspath(source))
    return "losses"


def _rows(source: Any) -> Iterator[_Row]:
    if isinstance(source, (str, PathLike)):
        return _csv_rows(_label(source), _bytes(_label(source)))
    if isinstance(source, Mapping):
        return _mapping_rows(source)
    if hasattr(source, "columns") and hasattr(source, "itertuples"):
        return _frame_rows(source)
    raise InputError(
        "losses must be a CSV file, a DataFrame with columns client and loss, or a mapping"
        f" client -> loss, got {type(source).__name__}"
    )


def _mapping_rows(losses: Mapping[Any, float]) -> Iterator[_Row]:
    seen: set[str] = set()
    for key, value in losses.items():
        client = str(key)
        if client in seen:
            raise InputError(f"losses: client {client!r} occurs twice")
        seen.add(client)
        yield _row(f"losses, client {client!r}", client, value, 1.0)


def _frame_rows(frame: Any) -> Iterator[_Row]:
    _require_columns("losses", [str(name) for name in frame.columns])
    columns = ["client", "loss", *(["weight"] if "weight" in frame.columns else [])]
    for number, values in enumerate(frame[columns].itertuples(index=False, name=None)):
        client, loss, *rest = values
        where = f"losses, row {number}"
        if client is None or client != client:
            raise InputError(f"{where}: no client id")
        yield _row(where, str(client), loss, *(rest or [1.0]))


def _csv_rows(path: str, data: bytes) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(_text(path, data), newline=""), strict=True)
    header: list[str] | None = None
    try:
        for cells in reader:
            # A field with line breaks spans lines; the last one is where the reader stands.
            where = f"{path}, line {reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            cells = [cell.strip() for cell in cells]
            if header is None:
                header = cells
                _require_columns(path, header)
                continue
            if len(cells) != len(header):
                raise InputError(
                    f"{where}: {len(cells)} values, but the header has {len(header)} columns"
                )
            row = dict(zip(header, cells, strict=True))
            yield _row(where, row["client"], row["loss"], row.get("weight", 1.0))
    except csv.Error as error:
        cause = "a quotation mark is never closed" if "unexpected end" in str(error) else error
        raise InputError(f"{path}, line {reader.line_num}: {cause}") from error
    if header is None:
        raise InputError(f"{path}: the file is empty")


def _bytes(path: str) -> bytes:
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


def _require_columns(where: str, columns: list[str]) -> None:
    for wanted in ("client", "loss"):
        if wanted not in columns:
            listed = ", ".join(columns[:8]) + (", ..." if len(columns) > 8 else "")
            raise InputError(
                f"{where}: no column {wanted!r} among {listed or 'none'}{nearest(wanted, columns)}"
            )
    for name in ("client", "loss", "weight"):
        if columns.count(name) > 1:
            raise InputError(f"{where}: column {name!r} occurs twice")


def _row(where: str, client: str, loss: Any, weight: Any) -> _Row:
    if not client:
        raise InputError(f"{where}: no client id")
    row = _Row(where, client, _number(where, "loss", loss), _number(where, "weight", weight))
    if row.weight < 0:
        raise InputError(f"{where}: weight {row.weight:g} is negative")
    return row


def _number(where: str, name: str, value: Any) -> float:
    """Return a finite float; text is taken from files only in plain decimal notation."""
    number = math.nan
    if isinstance(value, (int, float, np.integer, np.floating, np.bool_)) or (
        isinstance(value, str) and "_" not in value
    ):
        with suppress(ValueError, OverflowError):
            number = float(value)
    if not math.isfinite(number):
        shown = repr(value) if isinstance(value, str) else value
        raise InputError(f"{where}: {name} must be a finite number, got {shown}")
    return number
