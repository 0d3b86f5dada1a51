"""Shared by all kinds of split: the pool, the filling, size checks, dealing by weight."""

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latecomer.checks import whole
from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.splits.dealing import class_totals, deal_rows, share_counts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MIN_SAMPLES = 4


@dataclass(frozen=True, eq=False)
class Pool:
    """The samples that clients are filled from.

    Attributes
    ----------
    y : ndarray of int64, shape [N]
        Labels of the whole data set.
    train, test : ndarray of int64
        Rows to deal; ``test`` is None where the publisher has no test set.
    client : ndarray of int64, shape [N], or None
        Natural clients of the whole data set.
    n_classes : int
    coarse : ndarray of int64, shape [N], or None
        Superclasses of the whole data set.
    """

    y: Ints
    train: Ints
    test: Ints | None
    client: Ints | None
    n_classes: int
    coarse: Ints | None = None

    @property
    def least(self) -> int:
        """Fewest training rows a client needs: one for support, one for query if no test set."""
        return 2 if self.test is None else 1


@dataclass(frozen=True, eq=False)
class Filling:
    """The dealt rows, the client number of each row, the clients' ids, and clients left out."""

    rows: Ints
    owners: Ints
    ids: Ints
    left_out: tuple[int, ...] = ()


def only(filling: Filling, places: Ints) -> Filling:
    """Return the filling of the clients at ``places``, in that order."""
    number = np.full(len(filling.ids), -1, dtype=np.int64)
    number[places] = np.arange(len(places))
    owners = number[filling.owners]
    kept = owners >= 0
    return Filling(filling.rows[kept], owners[kept], filling.ids[places], filling.left_out)


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Return a separate random stream for each purpose, so that none affects another."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


def pool_of(dataset: Dataset, rows: Ints) -> Pool:
    """Return the pool of the given ``rows`` of a data set, train and test rows apart."""
    train, test = rows, None
    if dataset.test is not None:
        is_test = dataset.test[rows]
        train, test = rows[~is_test], rows[is_test]
    return Pool(dataset.y, train, test, dataset.client, dataset.n_classes, dataset.coarse)


def check_sizes(pool: Pool, clients: object, min_samples: object) -> tuple[int, int]:
    """Return the number of clients and the fewest training rows each, refusing impossible ones."""
    given = 0 if min_samples is None else whole("split.min_samples", min_samples, 1)
    least = max(given, pool.least)
    if clients is None:
        raise InputError("split.clients must be given for this kind of split")
    most = len(pool.train) // least
    why = f" ({len(pool.train)} samples, at least {least} for each client)"
    if most < 1:
        raise InputError(f"split.clients: no client can be filled{why}")
    return whole("split.clients", clients, 1, most, why), least


def fill_by_weight(pool: Pool, weights: Floats, least: int, rng: np.random.Generator) -> Filling:
    """Divide each class's train and test rows in proportion to its column of ``weights``."""
    return fill_by_counts(
        pool,
        share_counts(weights, class_totals(pool.y, pool.train, pool.n_classes)),
        weights,
        least,
        rng,
    )


def fill_by_counts(
    pool: Pool, counts: Ints, weights: Floats, least: int, rng: np.random.Generator
) -> Filling:
    """Deal ``counts`` [clients, classes] train rows, and the test rows by ``weights``.

    If the counts leave a share of a class unused, the same share of its test rows is left out.

    Raises
    ------
    InputError
        A client would hold too few samples.
    """
    parts = [_deal(pool.y, pool.train, counts, least, "samples", rng)]
    if pool.test is not None:
        totals = class_totals(pool.y, pool.train, pool.n_classes)
        tests = class_totals(pool.y, pool.test, pool.n_classes)
        used = np.divide(counts.sum(axis=0), totals, out=np.ones(pool.n_classes), where=totals > 0)
        shares = share_counts(weights, np.rint(used * tests).astype(np.int64))
        parts.append(_deal(pool.y, pool.test, shares, 1, "test samples", rng))
    rows, owners = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Filling(rows, owners, np.arange(len(weights)))


def _deal(
    y: Ints, rows: Ints, counts: Ints, least: int, what: str, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    smallest = counts.sum(axis=1).min()
    if smallest < least:
        raise InputError(
            f"split.clients={len(counts)}: a client would hold {smallest} {what} "
            f"(at least {least} each)"
        )
    return deal_rows(y, rows, counts, rng)
