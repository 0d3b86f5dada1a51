"""Read per-client losses from a CSV file, a data frame or a mapping: one mean loss per client.

A user of any framework can write two columns, ``client`` and ``loss``; several rows of one client
are averaged, weighted when there is a ``weight`` column.  Neither the order of the rows nor the
type of the source changes the outcome: sums are exact and losses come sorted.  The ids cannot give
a random order either: where ids and losses are related, an order by id, or by a hash of it, is not
random.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from latecomer.bounds.certificate import Array
from latecomer.certify.sources import file_bytes, named, read_csv, rows_of
from latecomer.certify.table_rows import Rows
from latecomer.errors import InputError

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
        series, or one loss a client. A ``LossTable`` is returned unchanged.
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
        return source
    column, ranks = (order, None) if order is None or isinstance(order, str) else (None, order)
    rows = rows_of(source, Rows(loss_max, by, order=column), ranks)
    return table_of(rows, rows.means(), rows.notes())


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
    column : str
        Of numbers that stand in for the losses.
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
