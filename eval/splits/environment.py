"""Independent clients: the one kind of split whose held-out clients are i.i.d. draws.

The environment is a law over clients. A client's class set is uniform over all sets of
``classes_per_client`` classes; of each of its classes it holds the same number of distinct images,
a uniform subset of that class's pool. Every class is cut in two before any client exists: training
clients are filled from one part, each image to one client at most; certification, novel and fresh
clients draw from the other part, the pools, each by itself. Given the training side they are
therefore independent and identically distributed, which a finite pool of clients is not; the price
is that two held-out clients may hold the same image. No training client holds any of the pools.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latecomer.eval.checks import whole
from latecomer.eval.errors import InputError
from latecomer.eval.splits.dealing import class_totals, deal_rows
from latecomer.eval.splits.pool import Filling, Pool

__all__ = ["Law", "draw_held_out", "fill_environment"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Law:
    """What a held-out client is drawn from.

    Attributes
    ----------
    classes_per_client : int
    train, test : int
        Samples of each class; ``test`` is 0 where the publisher has no test set.
    pools : tuple of ndarray of int64
        Train rows that no training client holds, per class.
    test_pools : tuple of ndarray of int64
        Test rows likewise; all empty where the publisher has no test set.
    """

    classes_per_client: int
    train: int
    test: int
    pools: tuple[Ints, ...]
    test_pools: tuple[Ints, ...]


def fill_environment(
    pool: Pool,
    n_training: int,
    n_held_out: int,
    rng: np.random.Generator,
    *,
    classes_per_client: int,
    samples_per_client: int | None = None,
    held_out: float | None = None,
) -> tuple[Filling, Law]:
    """Fill the training clients and set aside the pools of the others.

    Parameters
    ----------
    pool : Pool
    n_training, n_held_out : int
        Clients that train, and certification and novel clients.
    rng : Generator
    classes_per_client : int
    samples_per_client : int, optional
        Train samples, a multiple of ``classes_per_client``; as many as every training client can
        get unless given.
    held_out : float in (0, 1), optional
        Share of each class set aside; the held-out clients' share of all clients unless given.

    Returns
    -------
    Filling, Law
        The training clients, and the law of the others.

    Raises
    ------
    InputError
        A class has fewer images than are asked of it.
    """
    share = n_held_out / (n_training + n_held_out) if held_out is None else held_out
    totals = class_totals(pool.y, pool.train, pool.n_classes)
    present = np.flatnonzero(totals)
    why = " (the classes that have samples)"
    key = "split.classes_per_client"
    per_client = whole(key, classes_per_client, 1, len(present), why)
    kept, pools = _cut(pool.y, pool.train, pool.n_classes, share, rng)
    sets = _class_sets(n_training, present, per_client, pool.n_classes, rng)
    size = _per_class(pool, sets, kept, pools, per_client, samples_per_client, share > 0)
    rows, owners = deal_rows(pool.y, kept, size * sets, rng)
    test, test_pools = 0, tuple(rows[:0] for _ in pools)
    if pool.test is not None:
        kept, test_pools = _cut(pool.y, pool.test, pool.n_classes, share, rng)
        ratio = size * len(pool.test) / len(pool.train)
        test = min(max(1, round(ratio)), _most(pool, sets, kept, test_pools, share > 0))
        if test < 1:
            raise InputError(
                f"split.clients={n_training + n_held_out}: a client would hold 0 test samples of "
                "a class (at least 1)"
            )
        more, theirs = deal_rows(pool.y, kept, test * sets, rng)
        rows, owners = np.concatenate([rows, more]), np.concatenate([owners, theirs])
    law = Law(per_client, size, test, pools, test_pools)
    return Filling(rows, owners, np.arange(n_training)), law


def draw_held_out(law: Law, n_clients: int, rng: np.random.Generator) -> Filling:
    """Draw independent clients of a law; two of them may hold the same image.

    Examples
    --------
    >>> law = Law(1, 2, 0, (np.arange(5), np.arange(5, 9)), (np.arange(0), np.arange(0)))
    >>> found = draw_held_out(law, 3, np.random.default_rng(0))
    >>> found.owners.tolist(), len(found.rows)
    ([0, 0, 1, 1, 2, 2], 6)
    """
    n_classes = len(law.pools)
    present = np.array([c for c, rows in enumerate(law.pools) if len(rows)], dtype=np.int64)
    sets = _class_sets(n_clients, present, law.classes_per_client, n_classes, rng)
    rows: list[Ints] = []
    owners: list[Ints] = []
    for client, c in np.argwhere(sets).tolist():
        for source, size in ((law.pools[c], law.train), (law.test_pools[c], law.test)):
            if size:
                rows.append(rng.choice(source, size, replace=False))
                owners.append(np.full(size, client))
    nothing = np.zeros(0, dtype=np.int64)
    return Filling(
        np.concatenate([nothing, *rows]),
        np.concatenate([nothing, *owners]),
        np.arange(n_clients),
    )


def _class_sets(
    n_clients: int, present: Ints, per_client: int, n_classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw a uniform class set for each client by itself: 1 where a client holds a class."""
    order = np.argsort(rng.random((n_clients, len(present))), axis=1)[:, :per_client]
    sets = np.zeros((n_clients, n_classes), dtype=np.int64)
    np.put_along_axis(sets, present[order], 1, axis=1)
    return sets


def _cut(
    y: Ints, rows: Ints, n_classes: int, share: float, rng: np.random.Generator
) -> tuple[Ints, tuple[Ints, ...]]:
    """Set aside a share of each class at random: what is kept, and the pools per class."""
    totals = class_totals(y, rows, n_classes)
    aside = np.rint(share * totals).astype(np.int64)
    dealt, owners = deal_rows(y, rows, np.stack([aside, totals - aside]), rng)
    pool = dealt[owners == 0]
    pool.setflags(write=False)
    return dealt[owners == 1], tuple(np.split(pool, np.cumsum(aside)[:-1]))


def _most(pool: Pool, sets: Ints, kept: Ints, pools: tuple[Ints, ...], drawn: bool) -> int:
    """Return the most images of a class that every client can get; ``drawn``: also from pools."""
    demand = sets.sum(axis=0)
    asked = demand > 0
    supply = class_totals(pool.y, kept, pool.n_classes)
    for_training = int((supply[asked] // demand[asked]).min())
    present = np.unique(pool.y[pool.train])
    sizes = [len(pools[c]) for c in present]
    return min(for_training, *sizes) if drawn else for_training


def _per_class(
    pool: Pool,
    sets: Ints,
    kept: Ints,
    pools: tuple[Ints, ...],
    per_client: int,
    samples_per_client: int | None,
    drawn: bool,
) -> int:
    """Return the train samples of each class that a client holds."""
    most = _most(pool, sets, kept, pools, drawn)
    least = -(-pool.least // per_client)
    if most < least:
        raise InputError(
            f"split.clients: {len(sets)} training clients leave {most} samples of some class for "
            f"each client (at least {least}): ask for fewer clients or classes_per_client"
        )
    if samples_per_client is None:
        return most
    why = f" (a multiple of classes_per_client={per_client}, with {most} of a class at most)"
    key = "split.samples_per_client"
    size = whole(key, samples_per_client, least * per_client, most * per_client, why)
    if size % per_client:
        raise InputError(f"{key} must be a multiple of classes_per_client={per_client}, got {size}")
    return size // per_client
