"""Laws of independent clients: what held-out clients are drawn from, and the pools laid aside.

Every class is cut in two before any client is made: seen clients are filled from one part, each
image to at most one client; certification, novel and new clients draw independently from the
other part, the pools. Given the training part they are therefore independent and identically
distributed, which a finite pool of clients is not; the price is that two held-out clients may hold
the same image. No seen client holds an image of a pool.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.splits.dealing import class_totals, deal_rows, log_dirichlet
from latecomer.eval.splits.pool import Filling, Pool

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Law:
    """The law that held-out clients are drawn from.

    Attributes
    ----------
    classes_per_client : int
        Classes of a client; 0 where the law is given by types or concentrations.
    train, test : int
        Samples per class; ``test`` is 0 where the publisher has no test set.
    pools : tuple of ndarray of int64
        Train rows that no seen client holds, per class.
    test_pools : tuple of ndarray of int64
        Test rows likewise; all empty where the publisher has no test set.
    types, weights : tuple
        The class sets that a client may have and their probabilities; if empty, all sets of
        ``classes_per_client`` classes are equally likely.
    concentrations : tuple of float
        Parameters of the Dirichlet law of a client's class proportions, if there is one: ``train``
        and ``test`` are then samples of all classes together.
    """

    classes_per_client: int
    train: int
    test: int
    pools: tuple[Ints, ...]
    test_pools: tuple[Ints, ...]
    types: tuple[tuple[int, ...], ...] = ()
    weights: tuple[float, ...] = ()
    concentrations: tuple[float, ...] = ()

    def counts(self, n_clients: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Draw the numbers of train and test samples per class for each held-out client."""
        n_classes = len(self.pools)
        if self.concentrations:
            logs = log_dirichlet(n_clients, n_classes, np.array(self.concentrations), rng)
            shares = np.exp(logs)
            shares /= shares.sum(axis=1, keepdims=True)
            return rng.multinomial(self.train, shares), rng.multinomial(self.test, shares)
        present = np.array([c for c, rows in enumerate(self.pools) if len(rows)], dtype=np.int64)
        sets = self.class_sets(n_clients, present, n_classes, rng)
        return self.train * sets, self.test * sets

    def class_sets(
        self, n_clients: int, present: Ints, n_classes: int, rng: np.random.Generator
    ) -> Ints:
        """Draw each client's class set independently: 1 where a client holds a class."""
        sets = np.zeros((n_clients, n_classes), dtype=np.int64)
        if not self.types:
            order = np.argsort(rng.random((n_clients, len(present))), axis=1)
            np.put_along_axis(sets, present[order[:, : self.classes_per_client]], 1, axis=1)
            return sets
        for client, kind in enumerate(rng.choice(len(self.types), n_clients, p=self.weights)):
            sets[client, list(self.types[kind])] = 1
        return sets


def held_out_share(n_training: int, n_held_out: int, held_out: float | None) -> float:
    """Return the share of each class set aside for held-out clients."""
    return n_held_out / (n_training + n_held_out) if held_out is None else held_out


def fill_from_law(
    pool: Pool,
    kind: Law,
    n_training: int,
    share: float,
    rng: np.random.Generator,
    size_of: Callable[[int], int],
) -> tuple[Filling, Law]:
    """Fill the seen clients and set aside pools for a law that has none yet.

    ``size_of`` maps the most samples per class that every client can get to the number it gets.

    Raises
    ------
    InputError
        A class has fewer images than are asked of it.
    """
    present = np.unique(pool.y[pool.train])
    kept, pools = cut_pools(pool.y, pool.train, pool.n_classes, share, rng)
    sets = kind.class_sets(n_training, present, pool.n_classes, rng)
    size = size_of(_most(pool, sets, kept, pools, share > 0))
    rows, owners = deal_rows(pool.y, kept, size * sets, rng)
    test, test_pools = 0, tuple(rows[:0] for _ in pools)
    if pool.test is not None:
        kept, test_pools = cut_pools(pool.y, pool.test, pool.n_classes, share, rng)
        ratio = size * len(pool.test) / len(pool.train)
        test = min(max(1, round(ratio)), _most(pool, sets, kept, test_pools, share > 0))
        if test < 1:
            raise InputError(
                f"split.clients: {n_training} seen clients would hold 0 test samples of "
                "a class (at least 1)"
            )
        more, theirs = deal_rows(pool.y, kept, test * sets, rng)
        rows, owners = np.concatenate([rows, more]), np.concatenate([owners, theirs])
    law = replace(kind, train=size, test=test, pools=pools, test_pools=test_pools)
    return Filling(rows, owners, np.arange(n_training)), law


def draw_held_out(law: Law, n_clients: int, rng: np.random.Generator) -> Filling:
    """Draw independent clients from a law; two of them may hold the same image.

    Examples
    --------
    >>> law = Law(1, 2, 0, (np.arange(5), np.arange(5, 9)), (np.arange(0), np.arange(0)))
    >>> held_out = draw_held_out(law, 3, np.random.default_rng(0))
    >>> held_out.owners.tolist(), len(held_out.rows)
    ([0, 0, 1, 1, 2, 2], 6)
    """
    train, test = law.counts(n_clients, rng)
    rows: list[Ints] = []
    owners: list[Ints] = []
    for client, c in np.argwhere(train + test).tolist():
        for pools, sizes in ((law.pools, train), (law.test_pools, test)):
            size = int(sizes[client, c])
            if size:
                rows.append(rng.choice(pools[c], size, replace=False))
                owners.append(np.full(size, client))
    nothing = np.zeros(0, dtype=np.int64)
    return Filling(
        np.concatenate([nothing, *rows]),
        np.concatenate([nothing, *owners]),
        np.arange(n_clients),
    )


def cut_pools(
    y: Ints, rows: Ints, n_classes: int, share: float, rng: np.random.Generator
) -> tuple[Ints, tuple[Ints, ...]]:
    """Set aside a random share of each class; return the kept rows and the pools per class."""
    totals = class_totals(y, rows, n_classes)
    aside = np.rint(share * totals).astype(np.int64)
    dealt, owners = deal_rows(y, rows, np.stack([aside, totals - aside]), rng)
    pool = dealt[owners == 0]
    pool.setflags(write=False)
    return dealt[owners == 1], tuple(np.split(pool, np.cumsum(aside)[:-1]))


def _most(pool: Pool, sets: Ints, kept: Ints, pools: tuple[Ints, ...], drawn: bool) -> int:
    """Return the most images per class that every client can get; ``drawn``: also from pools."""
    demand = sets.sum(axis=0)
    asked = demand > 0
    supply = class_totals(pool.y, kept, pool.n_classes)
    for_training = int((supply[asked] // demand[asked]).min())
    present = np.unique(pool.y[pool.train])
    sizes = [len(pools[c]) for c in present]
    return min(for_training, *sizes) if drawn else for_training
