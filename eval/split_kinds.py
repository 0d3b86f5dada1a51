"""The kinds of client split: each fills clients from a pool of samples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.eval.dealing import (
    balanced_classes,
    class_totals,
    deal_rows,
    log_dirichlet,
    share_counts,
)
from latecomer.eval.errors import InputError

__all__ = [
    "MIN_SAMPLES",
    "SPLITS",
    "Filling",
    "Pool",
    "SplitKind",
    "fill_dirichlet",
    "fraction",
    "whole",
]

Ints = NDArray[np.int64]
MIN_SAMPLES = 4
_ATTEMPTS = 100
_ALPHA_RANGE = (1e-4, 1e6)


@dataclass(frozen=True, eq=False)
class Pool:
    """What clients are filled from.

    Attributes
    ----------
    y : ndarray of int64, shape [N]
        Labels of the whole data set.
    train, test : ndarray of int64
        Rows to deal; ``test`` is None where the publisher has no test set.
    client : ndarray of int64, shape [N], or None
        Natural clients of the whole data set.
    n_classes : int
    """

    y: Ints
    train: Ints
    test: Ints | None
    client: Ints | None
    n_classes: int

    @property
    def least(self) -> int:
        """Fewest training rows a client can live on: support, and query if it comes from them."""
        return 2 if self.test is None else 1


@dataclass(frozen=True, eq=False)
class Filling:
    """The dealt rows, the number of the client each belongs to, and the clients' ids."""

    rows: Ints
    owners: Ints
    ids: Ints
    left_out: tuple[int, ...] = ()


@dataclass(frozen=True)
class SplitKind:
    """A kind of split: what it is, how it fills clients, which options it takes.

    Attributes
    ----------
    description : str
        One line.
    fill : callable
        ``fill(pool, clients, rng, **options) -> Filling``.
    required, optional : tuple of str
        Options.
    natural : bool
        Whether clients are the data's own: they keep their numbers and allow no reserve.
    """

    description: str
    fill: Callable[..., Filling]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    natural: bool = False


def whole(key: str, value: Any, low: int, high: int | None = None, why: str = "") -> int:
    """Return ``value`` as an int in [low, high], refusing everything else."""
    legal = f"of at least {low}" if high is None else f"in {low}..{high}"
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < low or (high is not None and value > high):
        raise InputError(f"{key} must be a whole number {legal}{why}, got {value!r}")
    return int(value)


def fraction(key: str, value: Any, *, above: bool = False) -> float:
    """Return ``value`` as a float in [0, 1), or strictly above 0 when ``above``."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 1 or (above and value == 0):
        legal = "lie strictly between 0 and 1" if above else "be at least 0 and less than 1"
        raise InputError(f"{key} must {legal}, got {value!r}")
    return float(value)


def fill_by_class(
    pool: Pool,
    clients: int | None,
    rng: np.random.Generator,
    *,
    classes_per_client: int,
    min_samples: int | None = None,
) -> Filling:
    """Give each client ``classes_per_client`` distinct classes and equal shares of each.

    Every class goes to the same number of clients up to rounding; classes that the data lack are
    never given, and classes are left unused where there are fewer places than classes.

    Raises
    ------
    InputError
        Too many clients or classes per client for the data.
    """
    n_clients, least = _sizes(pool, clients, min_samples)
    totals = class_totals(pool.y, pool.train, pool.n_classes)
    present = np.flatnonzero(totals)
    per_client = whole(
        "split.classes_per_client",
        classes_per_client,
        1,
        len(present),
        " (the classes that have samples)",
    )
    weights = np.zeros((n_clients, pool.n_classes))
    weights[:, present] = balanced_classes(n_clients, len(present), per_client, rng)
    places = weights.sum(axis=0).astype(np.int64)
    crowded = np.flatnonzero(places > totals)
    if len(crowded):
        c = int(crowded[0])
        raise InputError(
            f"split.clients={n_clients} with classes_per_client={per_client} gives class {c} to "
            f"{places[c]} clients, but it has {totals[c]} samples"
        )
    return _fill_by_weight(pool, weights, least, rng)


def fill_dirichlet(
    pool: Pool,
    clients: int | None,
    rng: np.random.Generator,
    *,
    alpha: float,
    min_samples: int | None = None,
    key: str = "split.alpha",
) -> Filling:
    """Draw class proportions Dir(alpha) per client and divide each class in proportion to them.

    Proportions of clients that would get fewer than ``min_samples`` (default 4) are drawn anew,
    at most 100 times.

    Raises
    ------
    InputError
        Too many clients for the data, or some still hold too little after the last draw.
    """
    low, high = _ALPHA_RANGE
    is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    if not is_number or not low <= alpha <= high:
        raise InputError(f"{key} must lie in [{low:g}, {high:g}], got {alpha!r}")
    n_clients, least = _sizes(pool, clients, MIN_SAMPLES if min_samples is None else min_samples)
    totals = class_totals(pool.y, pool.train, pool.n_classes)
    logs = log_dirichlet(n_clients, pool.n_classes, alpha, rng)
    for _ in range(_ATTEMPTS):
        # Only ratios within a class count, so each column may be scaled to a maximum of 1.
        weights = np.exp(logs - logs.max(axis=0))
        short = share_counts(weights, totals).sum(axis=1) < least
        if pool.test is not None:
            tests = class_totals(pool.y, pool.test, pool.n_classes)
            short |= share_counts(weights, tests).sum(axis=1) < 1
        if not short.any():
            return _fill_by_weight(pool, weights, least, rng)
        logs[short] = log_dirichlet(int(short.sum()), pool.n_classes, alpha, rng)
    raise InputError(
        f"{key}={alpha:g}: after {_ATTEMPTS} draws {int(short.sum())} of {n_clients} clients still "
        f"hold too few samples (at least {least} each): ask for fewer clients, a larger alpha or "
        "a smaller min_samples"
    )


def fill_natural(
    pool: Pool,
    clients: int | None,
    rng: np.random.Generator,
    *,
    min_samples: int | None = None,
) -> Filling:
    """Take the data's own clients: all of them, or ``clients`` of them drawn at random.

    Clients too small to be split are refused, unless ``min_samples`` is given: then those with
    fewer samples are left out, and the split says which.

    Raises
    ------
    InputError
        The data have no clients, too few of them, or one is too small.
    """
    if pool.client is None:
        raise InputError("split.kind=natural needs data with an array client, got none")
    given = 0 if min_samples is None else whole("split.min_samples", min_samples, 1)
    least = max(given, pool.least)
    n_natural = int(pool.client.max()) + 1
    large = np.bincount(pool.client[pool.train], minlength=n_natural) >= least
    if pool.test is not None:
        large &= np.bincount(pool.client[pool.test], minlength=n_natural) >= 1
    if min_samples is None and not large.all():
        raise InputError(
            f"split.kind=natural: {int((~large).sum())} of {n_natural} clients hold too few "
            f"samples to be split (at least {least} each): split.min_samples leaves them out"
        )
    ids = np.flatnonzero(large)
    if not len(ids):
        raise InputError(f"split.min_samples={least} leaves out all {n_natural} clients")
    if clients is not None:
        wanted = whole("split.clients", clients, 1, len(ids), " (the natural clients)")
        ids = np.sort(rng.permutation(ids)[:wanted])
    number = np.full(n_natural, -1, dtype=np.int64)
    number[ids] = np.arange(len(ids))
    rows = pool.train if pool.test is None else np.concatenate([pool.train, pool.test])
    owners = number[pool.client[rows]]
    kept = owners >= 0
    return Filling(rows[kept], owners[kept], ids, tuple(np.flatnonzero(~large).tolist()))


def _sizes(pool: Pool, clients: object, min_samples: object) -> tuple[int, int]:
    """Return number of clients and least training rows of each, refusing what cannot exist."""
    given = 0 if min_samples is None else whole("split.min_samples", min_samples, 1)
    least = max(given, pool.least)
    if clients is None:
        raise InputError("split.clients must be given for this kind of split")
    most = len(pool.train) // least
    why = f" ({len(pool.train)} samples, at least {least} for each client)"
    if most < 1:
        raise InputError(f"split.clients: no client can be filled{why}")
    return whole("split.clients", clients, 1, most, why), least


def _fill_by_weight(
    pool: Pool, weights: NDArray[np.float64], least: int, rng: np.random.Generator
) -> Filling:
    """Deal train and test rows by the same weights."""
    parts = []
    for rows, needed, what in ((pool.train, least, "samples"), (pool.test, 1, "test samples")):
        if rows is None:
            continue
        counts = share_counts(weights, class_totals(pool.y, rows, pool.n_classes))
        sizes = counts.sum(axis=1)
        if sizes.min() < needed:
            raise InputError(
                f"split.clients={len(weights)}: a client would hold {sizes.min()} {what} "
                f"(at least {needed} each)"
            )
        parts.append(deal_rows(pool.y, rows, counts, rng))
    rows, owners = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Filling(rows, owners, np.arange(len(weights)))


SPLITS: Mapping[str, SplitKind] = MappingProxyType(
    {
        "by_class": SplitKind(
            "each client holds equal shares of classes_per_client distinct classes",
            fill_by_class,
            required=("classes_per_client",),
            optional=("min_samples",),
        ),
        "dirichlet": SplitKind(
            "each class is divided in proportion to clients' Dir(alpha) class proportions",
            fill_dirichlet,
            required=("alpha",),
            optional=("min_samples",),
        ),
        "natural": SplitKind(
            "the data's own clients",
            fill_natural,
            optional=("min_samples",),
            natural=True,
        ),
    }
)
