"""Rows of losses as columns: what each row must hold, and each client's mean loss."""

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Array
from latecomer.checks import one_number, told
from latecomer.errors import InputError, nearest, refused_at
from latecomer.reading.ids import Spellings, refuse_alike, refuse_clients


@dataclass
class Rows:
    """The rows of a source as columns; messages say which row is meant.

    There may be a million rows: each stores only the few values that it holds, and its place is
    put into words only once something is wrong with it.
    """

    loss_max: float
    by: str | None
    once: bool = False  # whether a client may have only one row
    order: str | None = None  # column of the order in which the clients were drawn
    column: str = "loss"  # of the clients' numbers
    numbers: dict[str, int] = field(default_factory=dict)
    client: "array[int]" = field(default_factory=lambda: array("q"))
    loss: "array[float]" = field(default_factory=lambda: array("d"))
    weight: "array[float]" = field(default_factory=lambda: array("d"))
    groups: list[str] = field(default_factory=list)
    ranks: list[float] = field(default_factory=list)
    weightless: dict[int, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()  # names of all columns of the source
    spelt: Spellings = field(default_factory=Spellings)
    groups_spelt: Spellings = field(default_factory=lambda: Spellings("group"))

    def __post_init__(self) -> None:
        for option, column in (("by", self.by), ("order", self.order)):
            if column is not None:
                column_named(option, column)

    def asked(self, names: Sequence[str]) -> list[str]:
        """Return the columns that a source must have; ``names`` are those that it has.

        Raises
        ------
        InputError
            Groups or order are to be read from clients, losses or weights.
        """
        for option, column in (("by", self.by), ("order", self.order)):
            if column in ("client", self.column, "weight"):
                raise InputError(
                    f"{option} must name a column that was settled before the losses, beside "
                    f"client, {self.column} and weight, got {column!r}"
                )
        return ["client", self.column, *self.further]

    def hint(self, wanted: str, names: Sequence[str]) -> str:
        """Return what may help somebody whose source lacks a column; maybe nothing."""
        if wanted == "client":
            from latecomer.reading.column_names import client_hint

            return client_hint(names)
        if wanted == "loss" and "label" in names:
            return "; it holds points: say --score (score_points in Python)"
        return nearest(wanted, names)

    def put(self, where: Callable[[], str], values: Mapping[str, Any]) -> None:
        """Add one row of named values."""
        group = "" if self.by is None else values[self.by]
        rank = None if self.order is None else values[self.order]
        weight = values.get("weight", 1.0)
        self.add(where, values["client"], values[self.column], weight, group, rank)

    def add(
        self,
        where: Callable[[], str],
        given: Any,
        loss: Any,
        weight: Any = 1.0,
        group: Any = "",
        rank: Any = None,
    ) -> None:
        """Add one row, or raise an error that says in one line where it is and what is wrong."""
        client = self._name(where, given, self.spelt)
        value, heft = _quick(loss), _quick(weight)
        if not client or not 0 <= value <= self.loss_max or not 0 <= heft < math.inf:
            self._refuse(where(), client, loss, weight)
        if self.once and client in self.numbers:
            raise InputError(
                f"{where()}: client {client!r} occurs twice; a client arrives once, with one"
                f" {self.column}"
            )
        number = self.numbers.setdefault(client, len(self.numbers))
        self.client.append(number)
        self.loss.append(value + 0.0)  # -0 becomes 0
        self.weight.append(heft)
        if heft == 0:
            self.weightless.setdefault(number, where())
        if self.order is not None:
            self._rank(where, self.order, client, rank)
        if self.by is None:
            return
        group = self._name(where, group, self.groups_spelt)
        if number == len(self.groups):
            if not group:
                raise InputError(f"{where()}: no {self.by} is given for client {client!r}")
            self.groups.append(group)
        elif self.groups[number] != group:
            raise InputError(
                f"{where()}: client {client!r} has {self.by} {group!r}, and"
                f" {self.groups[number]!r} before"
            )

    @property
    def further(self) -> list[str]:
        """Columns that are asked for beside client and loss."""
        return [name for name in (self.by, self.order) if name is not None]

    def give_ranks(self, ranks: Any) -> None:
        """Take the clients' places in the order of sampling: by client, or one for each row."""
        self.order = "order"
        # The index of a pandas Series names the clients, unless it numbers the rows.
        if hasattr(ranks, "items") and type(getattr(ranks, "index", None)).__name__ != "RangeIndex":
            given, ranks = ranks, dict(ranks.items())
            if len(given) != len(ranks):
                raise InputError(
                    f"order must name every client once, got {len(given)} numbers for "
                    f"{len(ranks)} clients"
                )
            named = {self.spelt.of(client): rank for client, rank in ranks.items()}
            if unknown := sorted(named.keys() ^ self.numbers.keys()):
                raise InputError(f"order must name the clients of the losses, got {unknown[0]!r}")
            ranks = [named[client] for client in self.numbers]
            owners = list(range(len(ranks)))
        else:
            try:
                ranks, owners = list(ranks), list(self.client)
            except TypeError as error:
                raise InputError(
                    f"order must be the name of a column, or one number a client, got {told(ranks)}"
                ) from error
        if len(ranks) != len(owners):
            raise InputError(
                f"order must hold one number for each of {len(owners)} losses, got {len(ranks)}"
            )
        names = list(self.numbers)
        for owner, rank in zip(owners, ranks, strict=True):
            self._rank(lambda: "order", "order", names[owner], rank)

    def _rank(self, where: Callable[[], str], order: str, client: str, rank: Any) -> None:
        """Keep a client's place in the order of sampling, which all of its rows must agree on."""
        value, number = _quick(rank), self.numbers[client]
        if not math.isfinite(value):
            value = _number(where(), order, rank)
        if number == len(self.ranks):
            self.ranks.append(value)
        elif self.ranks[number] != value:
            raise InputError(
                f"{where()}: client {client!r} has {order} {value:g}, and {self.ranks[number]:g} "
                "before"
            )

    def places(self) -> list[int]:
        """Return each client's place in the order of sampling, from 0; [] if none was asked for."""
        if self.order is None:
            return []
        holders: dict[float, str] = {}
        legal = "the order of a random draw numbers the clients 1, 2, ... without ties or gaps"
        for client, rank in zip(self.numbers, self.ranks, strict=True):
            if rank in holders:
                two = f"{holders[rank]!r} and {client!r}"
                raise InputError(f"{self.order}: clients {two} both have {rank:g}; {legal}")
            holders[rank] = client
        first = 0 if 0.0 in holders else 1
        missing = [i for i in range(first, first + len(holders)) if i not in holders]
        if missing:
            other = next(r for r in holders if not first <= r < first + len(holders) or r % 1)
            raise InputError(
                f"{self.order}: no client has {missing[0]}, and {holders[other]!r} has {other:g}; "
                f"{legal}"
            )
        return [int(rank) - first for rank in self.ranks]

    def _name(self, where: Callable[[], str], given: Any, spellings: Spellings) -> str:
        try:
            return spellings.of(given)
        except InputError as error:
            raise InputError(f"{where()}: {error}") from error

    def check(self, label: str) -> None:
        """Refuse clients and groups that may be one, or several in one."""
        with refused_at(label):
            refuse_clients(self.numbers)
            refuse_alike(set(self.groups), self.by or "")

    def notes(self) -> tuple[str, ...]:
        """Say what was done with the rows that is not seen in the clients' losses."""
        notes = []
        if len(self.loss) > len(self.numbers):
            clients = "1 client" if len(self.numbers) == 1 else f"{len(self.numbers)} clients"
            notes.append(f"{len(self.loss)} rows of {clients}, averaged")
            from latecomer.reading.column_names import averaged_over

            over = averaged_over(self.columns, models=True)
            if over:
                notes.append(
                    f"warning: a client's rows were averaged over the column {over!r}; keep one"
                    f" {over} a client if the certificate is about that one"
                )
        elif any(heft != self.weight[0] for heft in self.weight):
            notes.append(
                "warning: weights tell the rows of one client apart, not clients: each has one row"
                " here, and all count alike"
            )
        return (*notes, *self.spelt.notes(), *self.groups_spelt.notes())

    def _refuse(self, where: str, client: str, loss: Any, weight: Any) -> None:
        if not client:
            raise InputError(f"{where}: no client id")
        value, heft = _number(where, self.column, loss), _number(where, "weight", weight)
        if heft < 0:
            raise InputError(f"{where}: weight must be at least 0, got {heft!r}")
        larger = "; divide losses that can be larger by the largest, or say it as loss_max"
        raise InputError(
            f"{where}: {self.column} must lie in [0, {self.loss_max:g}], got {value!r}"
            + (larger if value > self.loss_max else "")
        )

    def means(self, values: Array | None = None) -> Array:
        """Average each client's rows; sums are exact, so the order of the rows has no effect.

        ``values``, one a row, stand in for the losses.
        """
        losses, weights = np.array(self.loss if values is None else values), np.array(self.weight)
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


def column_named(option: str, column: Any) -> None:
    """Refuse what is no name of a column."""
    if not isinstance(column, str) or not column:
        raise InputError(f"{option} must be the name of a column, got {told(column)}")


def _quick(value: Any) -> float:
    """Return a value as a number, NaN where a message must say what is wrong with it."""
    return value if isinstance(value, float) else one_number(value)


def _number(where: str, name: str, value: Any) -> float:
    """Return a finite float."""
    number = one_number(value)
    if not math.isfinite(number):
        from latecomer.reading.delimited import decimal_comma

        hint = decimal_comma(value)
        raise InputError(f"{where}: {name} must be a finite number, got {told(value)}{hint}")
    return number
