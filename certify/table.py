"""Per-client losses from a file, a frame, a mapping or a sequence, and where they come from.

A user of any framework can write two columns, ``client`` and ``loss``; several rows of one client
are averaged, weighted when there is a ``weight`` column.  Neither the order of the rows nor the
type of the source changes the outcome: sums are exact and losses come sorted.  The ids cannot give
a random order either: where ids and losses are related, an order by id, or by a hash of it, is not
random.
"""

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latecomer.bounds.certificate import Array
from latecomer.certify.table_rows import Rows
from latecomer.checks import told, written_number
from latecomer.errors import InputError, refused_at
from latecomer.files import content_of

if TYPE_CHECKING:
    import pandas as pd

Record = dict[str, Any]


def rows_of(source: Any, rows: Rows, ranks: Any = None) -> Rows:
    """Put everything that a source holds into the rows, and return them.

    ``ranks`` are the clients' places in the order of sampling where no column holds them: by
    client, or one for each row.
    """
    _read(source, rows)
    if ranks is not None:
        rows.give_ranks(ranks)
    if not rows.numbers:
        raise InputError(f"{named(source)}: holds no clients")
    rows.check(named(source))
    return rows


def named(source: Any) -> str:
    """Return what messages call a source; of a path that is where it leads to, ``~`` included."""
    if isinstance(source, (str, PathLike)):
        return os.path.expanduser(str(fspath(source)))
    return "standard input" if isinstance(source, bytes) else "losses"


def _read(source: Any, rows: Rows) -> None:
    label = named(source)
    if isinstance(source, (str, PathLike)) and label.lower().endswith((".parquet", ".pq")):
        _read_frame(parquet_frame(label), rows, label)
    elif isinstance(source, (str, PathLike, bytes)):
        data = source if isinstance(source, bytes) else file_bytes(label)
        if is_json(data):
            _read_held(label, json_value(label, _text(label, data)), rows)
        else:
            read_csv(label, data, rows)
    elif isinstance(source, Mapping) or _are_records(source):
        _read_held(label, source, rows)
    elif hasattr(source, "columns") and hasattr(source, "itertuples"):
        _read_frame(source, rows)
    elif hasattr(source, "index") and hasattr(source, "items"):
        _read_series(source, rows)
    elif isinstance(source, (list, tuple)) or (hasattr(source, "ndim") and source.ndim == 1):
        _read_pairs(label, enumerate(source), rows)
    else:
        raise InputError(
            "losses must be a CSV, JSON or Parquet file, a DataFrame with columns client and loss,"
            " a mapping client -> loss or one loss a client in a row, got"
            f" {type(source).__name__}"
        )


def _are_records(source: Any) -> bool:
    return isinstance(source, (list, tuple)) and any(isinstance(one, Mapping) for one in source)


def _read_series(series: Any, rows: Rows) -> None:
    """Read a series, whose index holds the clients."""
    from latecomer.reading.column_names import averaged_over

    over = averaged_over([str(name) for name in series.index.names], models=True)
    if over and series.index.nlevels == 1:
        raise InputError(f"losses: the index must hold the clients, got {over!r}")
    _read_pairs("losses", series.items(), rows)


def _read_pairs(label: str, pairs: Iterable[tuple[Any, Any]], rows: Rows) -> None:
    """Read one loss a client."""
    for name, column in (("by", rows.by), ("order", rows.order)):
        if column is not None:
            raise InputError(f"{name} {column} needs a file or a DataFrame with that column")
    for key, value in pairs:
        held = len(rows.numbers)
        shown = key if isinstance(key, tuple) else str(key)
        rows.add(partial("{}, client {!r}".format, label, shown), key, value)
        if len(rows.numbers) == held:
            told = "; ".join([f"client {rows.spelt.of(key)!r} occurs twice", *rows.spelt.notes()])
            raise InputError(f"{label}: {told}")


def _read_held(label: str, held: Any, rows: Rows) -> None:
    """Read what JSON or Python holds: records, a list per column, or client: loss."""
    if isinstance(held, Mapping) and not is_list(held.get("client")):
        _read_pairs(label, held.items(), rows)
        return
    for where, values in records_of(label, held):
        if (names := tuple(map(str, values))) != rows.columns:
            asked = rows.asked(names)
            for name in asked:
                if name not in values:
                    listed = ", ".join(names[:8])
                    hint = rows.hint(name, names)
                    raise InputError(f"{where}: no {name!r} among {listed or 'none'}{hint}")
            rows.columns = _unlike(label, names, asked)
        rows.put(partial(str, where), values)


def _read_frame(frame: Any, rows: Rows, label: str = "losses") -> None:
    names = _required(label, frame.columns, rows, levels=frame.index.names)
    asked = _kept(names, rows)
    own = frame.iloc[:, [names.index(name) for name in asked]]
    for number, values in enumerate(own.itertuples(index=False, name=None)):
        where = partial("{}, row {}".format, label, number)
        rows.put(where, dict(zip(asked, values, strict=True)))


def _kept(names: Sequence[str], rows: Rows) -> list[str]:
    """Return the columns that the rows read: those they need, and weights where there are some."""
    weighted = ["weight"] if "weight" in names else []
    return list(dict.fromkeys([*rows.asked(names), *weighted]))


def read_csv(path: str, data: bytes, rows: Rows) -> None:
    """Put the lines of a CSV file into the rows."""
    from latecomer.reading.delimited import foreign_header, misfit, read_header

    text = _text(path, data)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)

    def where() -> str:
        # A field with line breaks spans several lines; the reader is at the last of them.
        return f"{path}, line {reader.line_num}"

    try:
        with refused_at(path):
            header = read_header(reader)
        names = _required(path, header, rows, lambda: foreign_header(text))
        client = names.index("client")
        places = [(name, names.index(name)) for name in _kept(names, rows)]
        # Blanks around an id are part of it until `Spellings` says that they are not.
        ids = ("client", rows.by)
        for cells in reader:
            if len(cells) != len(names):
                if not any(map(str.strip, cells)):
                    continue
                raise InputError(f"{where()}: {misfit(len(names), cells)}")
            if not cells[client] and not any(map(str.strip, cells)):
                continue
            rows.put(
                where,
                {n: cells[place] if n in ids else cells[place].strip() for n, place in places},
            )
    except csv.Error as error:
        if hint := foreign_header(text) if reader.line_num <= 1 else "":
            raise InputError(f"{path}: no commas between names of columns{hint}") from error
        cause = "a quotation mark is never closed" if "unexpected end" in str(error) else error
        raise InputError(f"{where()}: {cause}") from error


def file_bytes(path: str | Path) -> bytes:
    """Return what a file holds."""
    try:
        return content_of(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {cause}") from error


def _text(path: str, data: bytes) -> str:
    from latecomer.reading.delimited import text_of

    with refused_at(path):
        return text_of(data)


def _required(
    where: str,
    given: Iterable[Any],
    rows: Rows,
    foreign: Callable[[], str] = str,
    levels: Sequence[Any] = (),
) -> list[str]:
    """Return the names of the columns, among which are those that the rows need."""
    from latecomer.reading.column_names import column_names

    with refused_at(where):
        names = column_names(given)
    rows.columns = (*names, *(str(level) for level in levels if level is not None))
    asked = rows.asked(names)
    for wanted in asked:
        if wanted not in names:
            listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            hint = foreign() or rows.hint(wanted, names)
            if wanted in levels:
                hint = "; it is in the index: reset_index() makes it a column"
            raise InputError(f"{where}: no column {wanted!r} among {listed or 'none'}{hint}")
    _unlike(where, names, asked)
    return names


def _unlike(where: str, names: Sequence[str], asked: Iterable[str]) -> tuple[str, ...]:
    """Return names of columns, none of which may be taken for another that is asked for."""
    from latecomer.reading.column_names import refuse_repeated

    with refused_at(where):
        refuse_repeated(list(names), [*asked, "weight"])
    return tuple(names)


def is_json(data: bytes) -> bool:
    """Whether a file's content is JSON: no CSV table of losses begins with a bracket."""
    return data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{")


def json_value(path: str, text: str) -> Any:
    """Return what a JSON text holds; a name that an object gives twice is refused."""
    try:
        held = json.loads(text, object_pairs_hook=_once, parse_float=written_number)
    except (ValueError, RecursionError) as error:
        lines = "Extra data" in str(error) and text.lstrip().startswith("{")
        hint = "; records a line are no JSON: put them in one list, [...]" if lines else ""
        raise InputError(f"{path}: not JSON: {error}{hint}") from error
    if isinstance(held, dict) and {"certificate", "rule", "orders"} <= held.keys():
        raise InputError(f"{path}: holds a certificate, no losses")
    return held


def records_of(label: str, held: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield where each row stands, and its values by column, from records or a list per column.

    Examples
    --------
    >>> list(records_of("stdin", [{"client": "ann", "loss": 0.1}]))
    [('stdin, record 0', {'client': 'ann', 'loss': 0.1})]
    """
    if isinstance(held, Mapping):
        yield from _columns(label, held)
    else:
        for number, one in enumerate(held):
            yield f"{label}, record {number}", _record(label, number, one)


def _once(pairs: list[tuple[str, Any]]) -> Record:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} occurs twice")
    return record


def _record(path: str, number: int, one: Any) -> Mapping[str, Any]:
    if not isinstance(one, Mapping):
        raise InputError(
            f"{path}, record {number}: must hold client and loss by name, got {one!r:.60}"
        )
    return one


def _columns(path: str, held: Mapping[str, Any]) -> Iterator[tuple[str, Record]]:
    lengths = {name: len(one) if is_list(one) else None for name, one in held.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length or 'no list'}" for name, length in lengths.items())
        raise InputError(f"{path}: columns must be lists of one length, got {told}")
    for number, values in enumerate(zip(*held.values(), strict=True)):
        yield f"{path}, record {number}", dict(zip(held, values, strict=True))


def is_list(value: Any) -> bool:
    """Whether a value can be a column."""
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) == 1


def parquet_frame(path: str) -> Any:
    """Read a Parquet file as a DataFrame, where pandas can."""
    try:
        import pandas as pd

        return pd.read_parquet(path)
    except ImportError as error:
        raise InputError(
            f"{path}: Parquet is read by pandas with pyarrow or fastparquet, and these are not"
            " installed: pip install pandas pyarrow, or write CSV"
        ) from error
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}") from error


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
    order : tuple of int
        Place of each client in the order in which they were drawn, from 0; empty where no order
        was named.
    notes : tuple of str
        What was done with the rows: that they were averaged, that two spellings are one client.
    by : str
        The column of groups; empty where none was asked for.
    """

    clients: tuple[str, ...]
    losses: tuple[float, ...]
    n_rows: int
    groups: tuple[str, ...] = ()
    rows_each: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    by: str = ""

    def by_group(self) -> "dict[str, LossTable]":
        """Split the table by group; the groups come sorted by name."""
        own: dict[str, list[int]] = {name: [] for name in sorted(set(self.groups))}
        for i, name in enumerate(self.groups):
            own[name].append(i)
        return {
            name: LossTable(
                tuple(self.clients[i] for i in of),
                tuple(self.losses[i] for i in of),
                sum(self.rows_each[i] for i in of),
                # Within a group clients keep their order, which is as random.
                order=_places([self.order[i] for i in of]) if self.order else (),
            )
            for name, of in own.items()
        }


def _places(numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(np.argsort(np.argsort(numbers)).tolist())


if TYPE_CHECKING:
    Held = Mapping[Any, float] | Sequence[float] | Array | pd.DataFrame | pd.Series[float]
    Source = str | PathLike[str] | bytes | Held | LossTable
    Order = str | Mapping[Any, int] | Sequence[int] | pd.Series[int]
else:
    Source = Order = Any


def read_losses(
    source: Source,
    *,
    loss_max: float,
    by: str | None = None,
    order: Order | None = None,
) -> LossTable:
    """Average the rows of each client and order the clients by their loss, then by their id.

    Parameters
    ----------
    source : path, bytes, DataFrame, mapping or sequence
        CSV file (UTF-8, comma-separated, a header), JSON (records, columns, or client: loss),
        Parquet or DataFrame with the columns ``client``, ``loss`` and optionally ``weight``, other
        columns ignored; a file's bytes; records, columns or client -> loss as Python objects; a
        series, or one loss a client. A ``LossTable`` is returned unchanged, with its own order and
        groups; ``by`` and ``order`` may name them again.
    loss_max : float
        Largest possible loss.
    by : str, optional
        Column of a file or frame that holds each client's group, the same in all of its rows.
    order : str, mapping or sequence, optional
        The order in which the clients were drawn at random, not that of their arrival nor of their
        ids: a column of numbers 1, 2, ... (or from 0) without ties or gaps, the same in all rows of
        a client; or these numbers by client, or one for each loss.

    Returns
    -------
    LossTable

    Examples
    --------
    >>> table = read_losses({"ann": 0.1, "bob": 0.3}, loss_max=1.0)
    >>> sorted(zip(table.clients, table.losses))
    [('ann', 0.1), ('bob', 0.3)]
    """
    if isinstance(source, LossTable):
        _check_read(source, loss_max, by, order)
        return source
    column, ranks = (order, None) if order is None or isinstance(order, str) else (None, order)
    rows = rows_of(source, Rows(loss_max, by, order=column), ranks)
    return table_of(rows, rows.means(), rows.notes())


def _check_read(table: LossTable, loss_max: float, by: str | None, order: Order | None) -> None:
    """Refuse a table that lacks what is asked of it: nothing more is read once it is made."""
    for client, loss in zip(table.clients, table.losses, strict=True):
        if not 0 <= loss <= loss_max:
            raise InputError(
                f"losses, client {client!r}: loss must lie in [0, {loss_max:g}], got {loss!r} in a"
                " table that was read with another loss_max"
            )
    if by is not None and by != table.by:
        read = f"column {table.by!r}" if table.by else "none"
        raise InputError(f"by must be the column with which a table was read, {read}, got {by!r}")
    if order is not None and not (table.order and isinstance(order, str)):
        read = "" if table.order else ", none"
        raise InputError(
            f"order must be the column with which a table was read{read}, got {told(order)}"
        )


def table_of(rows: Rows, means: Array, notes: tuple[str, ...]) -> LossTable:
    """Order the clients of the rows by their mean loss, then by id; a client of NaN is left out."""
    names, places = list(rows.numbers), rows.places()
    counted = [i for i in range(len(names)) if not math.isnan(means[i])]
    by_name = np.array(sorted(counted, key=names.__getitem__), dtype=int)
    smallest_first = by_name[np.argsort(means[by_name], kind="stable")].tolist()
    each = np.bincount(rows.client)[smallest_first].tolist()
    grouped = rows.by is not None
    return LossTable(
        clients=tuple(names[i] for i in smallest_first),
        losses=tuple(means[smallest_first].tolist()),
        n_rows=sum(each),
        groups=tuple(rows.groups[i] for i in smallest_first) if grouped else (),
        rows_each=tuple(each) if grouped else (),
        order=_places([places[i] for i in smallest_first]) if places else (),
        notes=notes,
        by=rows.by or "",
    )


def read_arrivals(
    path: str | PathLike[str], *, loss_max: float, whole: bool, column: str = "loss"
) -> tuple[tuple[str, float], ...]:
    """Return client and loss of every line of a CSV file, in its order, one line a client.

    A file that is not ``whole`` is still written to and may end within a line, which is left for
    later; a whole one may lack its last line break, and must hold a client.  ``column`` names
    numbers that stand in for the losses.
    """
    name = named(path)
    data = file_bytes(name)
    if not whole:
        data = data[: data.rfind(b"\n") + 1]
        if not data.strip():
            return ()
    rows = Rows(loss_max, None, once=True, column=column)
    read_csv(name, data, rows)
    rows.check(name)
    if whole and not rows.numbers:
        raise InputError(f"{name}: holds no clients")
    return tuple(zip(rows.numbers, rows.loss, strict=True))


def read_in_order(
    source: Source, *, loss_max: float, column: str = "loss"
) -> tuple[tuple[str, float], ...]:
    """Return client and loss of every row, in the source's order; each client must occur once.

    ``column`` names numbers that stand in for the losses.

    Examples
    --------
    >>> read_in_order([0.3, 0.1], loss_max=1.0)
    (('0', 0.3), ('1', 0.1))
    """
    rows = rows_of(source, Rows(loss_max, None, once=True, column=column))
    return tuple(zip(rows.numbers, rows.loss, strict=True))
