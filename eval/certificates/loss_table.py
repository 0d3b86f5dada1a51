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
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from latecomer.bounds.certificate import Array
from latecomer.eval.certificates.loss_records import is_json, json_rows, parquet_frame
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
    groups : tuple of str
        Group of each client, same order; empty where no column of groups was asked for.
    rows_each : tuple of int
        Rows of each client, same order; empty where ``groups`` is.
    """

    clients: tuple[str, ...]
    losses: tuple[float, ...]
    n_rows: int
    groups: tuple[str, ...] = ()
    rows_each: tuple[int, ...] = ()

    def by_group(self) -> "dict[str, LossTable]":
        """Cut the table by its groups, which come sorted by name."""
        own: dict[str, list[int]] = {name: [] for name in sorted(set(self.groups))}
        for i, name in enumerate(self.groups):
            own[name].append(i)
        return {
            name: LossTable(
                tuple(self.clients[i] for i in of),
                tuple(self.losses[i] for i in of),
                sum(self.rows_each[i] for i in of),
            )
            for name, of in own.items()
        }


if TYPE_CHECKING:
    Rows = Mapping[Any, float] | Sequence[float] | Array | pd.DataFrame | pd.Series[float]
    Source = str | PathLike[str] | bytes | Rows | LossTable
else:
    Source = Any


@dataclass
class _Rows:
    """The rows of a source as columns, and how to say which row is meant.

    A million rows are read: what a row costs is kept to the few values it holds, and where it
    stands is put into words only once something is wrong with it.
    """

    loss_max: float
    by: str | None
    once: bool = False  # whether a client may have one row alone
    numbers: dict[str, int] = field(default_factory=dict)
    client: "array[int]" = field(default_factory=lambda: array("q"))
    loss: "array[float]" = field(default_factory=lambda: array("d"))
    weight: "array[float]" = field(default_factory=lambda: array("d"))
    groups: list[str] = field(default_factory=list)
    weightless: dict[int, str] = field(default_factory=dict)

    def add(
        self, where: Callable[[], str], client: str, loss: Any, weight: Any = 1.0, group: Any = ""
    ) -> None:
        """Take one row in, or say in one line where it stands and what is wrong with it."""
        value, heft = _quick(loss), _quick(weight)
        if not client or not 0 <= value <= self.loss_max or not 0 <= heft < math.inf:
            self._refuse(where(), client, loss, weight)
        if self.once and client in self.numbers:
            raise InputError(
                f"{where()}: client {client!r} occurs twice; a client arrives once, with one loss"
            )
        number = self.numbers.setdefault(client, len(self.numbers))
        self.client.append(number)
        self.loss.append(value)
        self.weight.append(heft)
        if heft == 0:
            self.weightless.setdefault(number, where())
        if self.by is None:
            return
        if number == len(self.groups):
            if not group:
                raise InputError(f"{where()}: no {self.by} is given for client {client!r}")
            self.groups.append(group)
        elif self.groups[number] != group:
            raise InputError(
                f"{where()}: client {client!r} has {self.by} {group!r}, and"
                f" {self.groups[number]!r} before"
            )

    def _refuse(self, where: str, client: str, loss: Any, weight: Any) -> None:
        if not client:
            raise InputError(f"{where}: no client id")
        value, heft = _number(where, "loss", loss), _number(where, "weight", weight)
        if heft < 0:
            raise InputError(f"{where}: weight must be at least 0, got {heft!r}")
        larger = "; divide losses that can be larger by the largest, or say it as loss_max"
        raise InputError(
            f"{where}: loss must lie in [0, {self.loss_max:g}], got {value!r}"
            + (larger if value > self.loss_max else "")
        )

    def means(self) -> Array:
        """Average each client's rows; sums are exact, so the order of the rows cannot show."""
        losses, weights = np.array(self.loss), np.array(self.weight)
        if len(self.numbers) == len(losses) and weights.all():
            return losses
        owner = np.array(self.client)
        order = np.argsort(owner, kind="stable")
        ends = np.searchsorted(owner[order], np.arange(len(self.numbers) + 1))
        averages = np.empty(len(self.numbers))
        for i, client in enumerate(self.numbers):
            own = order[ends[i] : ends[i + 1]]
            largest = weights[own].max()
            if largest == 0:
                raise InputError(
                    f"{self.weightless[i]}: the weights of client {client!r} are all 0, one must be"
                    " above"
                )
            shares = weights[own] / largest
            averages[i] = math.fsum(shares * losses[own]) / math.fsum(shares)
        return np.minimum(averages, self.loss_max)


def read_losses(
    source: Source,
    *,
    loss_max: float,
    by: str | None = None,
) -> LossTable:
    """Average the rows of each client and order the clients by their loss, then by their id.

    Parameters
    ----------
    source : path, bytes, DataFrame, mapping or sequence
        CSV file (UTF-8, comma-separated, a header), JSON (records, columns, or client: loss),
        Parquet or DataFrame with the columns ``client``, ``loss`` and optionally ``weight``, other
        columns ignored; a file's bytes; a mapping client -> loss, a series, or one loss a client.
        A table that was read before is handed back.
    loss_max : float
        Largest possible loss.
    by : str, optional
        Column of a file or frame that holds each client's group, the same in all of its rows.

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
    if isinstance(source, LossTable):
        return source
    rows = _Rows(loss_max, by)
    _read(source, rows)
    if not rows.numbers:
        raise InputError(f"{_label(source)}: holds no clients")
    means, names = rows.means(), list(rows.numbers)
    by_name = np.array(sorted(range(len(names)), key=names.__getitem__))
    order = by_name[np.argsort(means[by_name], kind="stable")].tolist()
    return LossTable(
        clients=tuple(names[i] for i in order),
        losses=tuple(means[order].tolist()),
        n_rows=len(rows.loss),
        groups=tuple(rows.groups[i] for i in order) if by is not None else (),
        rows_each=tuple(np.bincount(rows.client)[order].tolist()) if by is not None else (),
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
    rows = _Rows(loss_max, None, once=True)
    _read_csv(name, data, rows)
    if whole and not rows.numbers:
        raise InputError(f"{name}: holds no clients")
    return tuple(zip(rows.numbers, rows.loss, strict=True))


def read_in_order(source: Source, *, loss_max: float) -> tuple[tuple[str, float], ...]:
    """Return client and loss of every row, in the order of a source in which each occurs once.

    Raises
    ------
    InputError
        One line naming the file, the line and what is wrong with it.

    Examples
    --------
    >>> read_in_order([0.3, 0.1], loss_max=1.0)
    (('0', 0.3), ('1', 0.1))
    """
    rows = _Rows(loss_max, None, once=True)
    _read(source, rows)
    if not rows.numbers:
        raise InputError(f"{_label(source)}: holds no clients")
    return tuple(zip(rows.numbers, rows.loss, strict=True))


def _label(source: Any) -> str:
    if isinstance(source, (str, PathLike)):
        return str(fspath(source))
    return "standard input" if isinstance(source, bytes) else "losses"


def _read(source: Any, rows: _Rows) -> None:
    label = _label(source)
    if isinstance(source, (str, PathLike)) and label.lower().endswith((".parquet", ".pq")):
        _read_frame(parquet_frame(label), rows, label)
    elif isinstance(source, (str, PathLike, bytes)):
        data = source if isinstance(source, bytes) else _bytes(label)
        (_read_json if is_json(data) else _read_csv)(label, data, rows)
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


def _read_pairs(pairs: Iterable[tuple[Any, Any]], rows: _Rows) -> None:
    if rows.by is not None:
        raise InputError(f"by {rows.by} needs a file or a DataFrame with that column")
    for key, value in pairs:
        client = str(key)
        if client in rows.numbers:
            raise InputError(f"losses: client {client!r} occurs twice")
        rows.add(partial("losses, client {!r}".format, client), client, value)


def _read_json(path: str, data: bytes, rows: _Rows) -> None:
    asked = ["client", "loss", *([rows.by] if rows.by is not None else [])]
    for where, values in json_rows(path, _text(path, data)):
        for name in asked:
            if name not in values:
                listed = ", ".join(map(str, list(values)[:8]))
                raise InputError(f"{where}: no {name!r} among {listed or 'none'}")
        client, group = (values[name] for name in (asked[0], asked[-1]))
        told = "" if rows.by is None or group is None else str(group)
        named = "" if client is None else str(client).strip()
        rows.add(partial(str, where), named, values["loss"], values.get("weight", 1.0), told)


def _read_frame(frame: Any, rows: _Rows, label: str = "losses") -> None:
    listed = [str(name) for name in frame.columns]
    _require_columns(label, listed, rows.by)
    columns = ["client", "loss", *(["weight"] if "weight" in frame.columns else [])]
    weighted = len(columns) == 3
    asked = [*columns, *([rows.by] if rows.by is not None else [])]
    for number, values in enumerate(frame[asked].itertuples(index=False, name=None)):
        client, group = values[0], values[-1] if rows.by is not None else ""
        named = "" if client is None or client != client else str(client)
        told = "" if group is None or group != group else str(group)
        weight = values[2] if weighted else 1.0
        rows.add(partial("{}, row {}".format, label, number), named, values[1], weight, told)


def _read_csv(path: str, data: bytes, rows: _Rows) -> None:
    reader = csv.reader(io.StringIO(_text(path, data), newline=""), strict=True)

    def where() -> str:
        # A field with line breaks spans lines; the last one is where the reader stands.
        return f"{path}, line {reader.line_num}"

    try:
        header = next((cells for cells in reader if any(map(str.strip, cells))), None)
        if header is None:
            raise InputError(f"{path}: the file is empty")
        names = [cell.strip() for cell in header]
        _require_columns(path, names, rows.by)
        client, loss = names.index("client"), names.index("loss")
        weight = names.index("weight") if "weight" in names else None
        group = None if rows.by is None else names.index(rows.by)
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
            )
    except csv.Error as error:
        cause = "a quotation mark is never closed" if "unexpected end" in str(error) else error
        raise InputError(f"{where()}: {cause}") from error


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


def _require_columns(where: str, columns: list[str], by: str | None) -> None:
    asked = ("client", "loss") if by is None else ("client", "loss", by)
    for wanted in asked:
        if wanted not in columns:
            listed = ", ".join(columns[:8]) + (", ..." if len(columns) > 8 else "")
            raise InputError(
                f"{where}: no column {wanted!r} among {listed or 'none'}{nearest(wanted, columns)}"
            )
    for name in (*asked, "weight"):
        if columns.count(name) > 1:
            raise InputError(f"{where}: column {name!r} occurs twice")


def _quick(value: Any) -> float:
    """Return the number that a value plainly is, NaN where there is something to say about it."""
    if isinstance(value, float):
        return value
    if isinstance(value, str) and "_" not in value:
        with suppress(ValueError):
            return float(value)
        return math.nan
    try:
        return _number("", "", value)
    except InputError:
        return math.nan


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
