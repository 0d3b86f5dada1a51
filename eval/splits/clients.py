"""One client's samples, and how a client's rows become support, validation and query."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.splits.dealing import QUERY, SUPPORT, VALIDATION, assign_roles, stable_order
from latecomer.eval.splits.pool import Filling

Ints = NDArray[np.int64]
Role = Literal["support", "validation", "query", "all"]


@dataclass(frozen=True, eq=False)
class ClientRows:
    """The samples of one client, as row numbers of the data set, each in random order.

    Attributes
    ----------
    id : int
        Unique within a split; a natural client keeps its number in the data set.
    support : ndarray of int64
        Samples that the client may learn from; never empty.
    validation : ndarray of int64
        Samples for model selection; may be empty.
    query : ndarray of int64
        Samples that the client is scored on; never empty.
    """

    id: int
    support: Ints = field(repr=False)
    validation: Ints = field(repr=False)
    query: Ints = field(repr=False)

    def rows(self, role: Role) -> Ints:
        """Return the rows of one role, or of all."""
        if role == "all":
            return np.concatenate([self.support, self.validation, self.query])
        rows: Ints = getattr(self, role)
        return rows


def label_counts(
    y: Ints, clients: Sequence[ClientRows], n_classes: int, *, role: Role = "all"
) -> Ints:
    """Count each client's samples per class, shape [n_clients, n_classes].

    Parameters
    ----------
    y : ndarray of int64, shape [N]
        Labels of the whole data set.
    clients : sequence of ClientRows
    n_classes : int
    role : {"support", "validation", "query", "all"}
    """
    rows = [client.rows(role) for client in clients]
    owners = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    labels = y[np.concatenate(rows)] if rows else np.zeros(0, dtype=np.int64)
    cells = np.bincount(owners * n_classes + labels, minlength=len(rows) * n_classes)
    return cells.reshape(len(rows), n_classes)


def cut_into_roles(
    dataset: Dataset,
    filling: Filling,
    order: Ints,
    ids: Ints,
    query: float,
    validation: float,
    rng: np.random.Generator,
) -> tuple[ClientRows, ...]:
    """Divide every client's rows into roles, with the same shares in each class.

    Client ``order[i]`` of the filling becomes the i-th of the result, with id ``ids[i]``. Where
    the publisher has a test set, its samples are the query and the query share does not apply.
    """
    n_clients = len(order)
    rank = np.empty(n_clients, dtype=np.int64)
    rank[order] = np.arange(n_clients)
    shuffle = rng.permutation(len(filling.rows))
    rows, owners = filling.rows[shuffle], rank[filling.owners[shuffle]]
    roles = np.full(len(rows), QUERY, dtype=np.int64)
    train = slice(None) if dataset.test is None else ~dataset.test[rows]
    roles[train] = assign_roles(
        dataset.y,
        rows[train],
        owners[train],
        n_clients=n_clients,
        query=query if dataset.test is None else 0.0,
        validation=validation,
        rng=rng,
    )
    cell = owners * 3 + roles
    rows = rows[stable_order(cell)]
    rows.setflags(write=False)
    ends = np.cumsum(np.bincount(cell, minlength=3 * n_clients)).tolist()
    parts = [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return tuple(
        ClientRows(
            id=int(name),
            support=parts[3 * i + SUPPORT],
            validation=parts[3 * i + VALIDATION],
            query=parts[3 * i + QUERY],
        )
        for i, name in enumerate(ids.tolist())
    )
