"""Vectorised helpers of the splits: how much of each class each client gets, and which rows.

A split kind gives each client a weight for each class, in a table clients x classes.
:func:`share_counts` divides each class in proportion to its column, :func:`deal_rows` picks the
rows, :func:`assign_roles` cuts each client's rows into support, validation and query.
"""

import numpy as np
import scipy
from numpy.typing import NDArray

__all__ = [
    "QUERY",
    "SUPPORT",
    "VALIDATION",
    "assign_roles",
    "balanced_classes",
    "class_totals",
    "deal_rows",
    "log_dirichlet",
    "share_counts",
    "stable_order",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SUPPORT, VALIDATION, QUERY = 0, 1, 2


def balanced_classes(
    n_clients: int, n_classes: int, per_client: int, rng: np.random.Generator, n_held_out: int = 0
) -> NDArray[np.bool_]:
    """Give each client distinct classes and each class to the same number of clients (up to 1).

    Clients choose one after another among the classes given out least often so far, ties at random,
    so that the numbers of clients per class never differ by more than one.

    With the last ``n_held_out`` clients dealt to apart, this holds among them and among the others:
    the smaller group has the sets of classes that the larger one was dealt first.

    Returns
    -------
    ndarray of bool, shape [n_clients, n_classes]

    Examples
    --------
    >>> dealt = balanced_classes(15, 5, 2, np.random.default_rng(0), n_held_out=5)
    >>> dealt[:10].sum(axis=0).tolist(), dealt[10:].sum(axis=0).tolist()
    ([4, 4, 4, 4, 4], [2, 2, 2, 2, 2])
    """
    if n_held_out:
        sizes = n_clients - n_held_out, n_held_out
        sets = balanced_classes(max(sizes), n_classes, per_client, rng)
        return np.concatenate([sets[:size] for size in sizes])
    chosen = np.zeros((n_clients, n_classes), dtype=np.bool_)
    given = np.zeros(n_classes)
    if per_client == n_classes:
        return ~chosen
    for client, tie in enumerate(rng.random((n_clients, n_classes))):
        picked = np.argpartition(given + tie, per_client - 1)[:per_client]
        chosen[client, picked] = True
        given[picked] += 1
    return chosen


def log_dirichlet(
    n_clients: int, n_classes: int, alpha: float | Floats, rng: np.random.Generator
) -> Floats:
    """Draw the logarithm of one class-proportion vector Dir(alpha) per client.

    ``alpha`` is one number for all classes, or one per class.

    Logarithms, because for small ``alpha`` most proportions are below the smallest float, and each
    class still needs an owner: a Gamma(alpha) variable is Gamma(alpha + 1) times U^(1/alpha).

    Returns
    -------
    ndarray, shape [n_clients, n_classes]
    """
    shape = (n_clients, n_classes)
    gamma = np.log(rng.standard_gamma(alpha + 1, shape)) - rng.standard_exponential(shape) / alpha
    return np.asarray(scipy.special.log_softmax(gamma, axis=1))


def class_totals(y: Ints, rows: Ints, n_classes: int) -> Ints:
    """Count the samples of each class among ``rows``, shape [n_classes]."""
    totals: Ints = np.bincount(y[rows], minlength=n_classes)
    return totals


def stable_order(keys: Ints) -> Ints:
    """Return the stable ``argsort`` of whole numbers below 2^32, several times as fast as NumPy's.

    NumPy sorts 16-bit numbers by radix, so larger ones are sorted by low half, then high half.

    Examples
    --------
    >>> stable_order(np.array([70_000, 3, 70_000, 3])).tolist()
    [1, 3, 0, 2]
    """
    order: Ints = np.argsort(keys.astype(np.uint16), kind="stable")
    high = keys >> 16
    if high.any():
        order = order[np.argsort(high[order].astype(np.uint16), kind="stable")]
    return order


def share_counts(weights: Floats, totals: Ints) -> Ints:
    """Divide each class's samples in proportion to its column of ``weights``.

    Cumulative shares are rounded, so that a column adds up to the class's total exactly and a
    count differs from its exact share by at most one. A class without any weight is given to
    nobody.

    Parameters
    ----------
    weights : ndarray, shape [n_clients, n_classes], at least 0
    totals : ndarray of int64, shape [n_classes]

    Returns
    -------
    ndarray of int64, shape [n_clients, n_classes]

    Examples
    --------
    >>> share_counts(np.array([[1.0, 0.0], [1.0, 3.0], [2.0, 0.0]]), np.array([8, 5])).tolist()
    [[2, 0], [2, 5], [4, 0]]
    """
    cumulative = np.cumsum(weights, axis=0)
    whole = cumulative[-1]
    scale = np.divide(totals, whole, out=np.zeros_like(whole), where=whole > 0)
    edges = np.rint(cumulative * scale).astype(np.int64)
    return np.asarray(np.diff(edges, axis=0, prepend=0))


def deal_rows(y: Ints, rows: Ints, counts: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Deal shuffled rows of each class to clients, ``counts[i, c]`` rows of class c to client i.

    Returns
    -------
    rows, owners : ndarray of int64
        The dealt rows and their clients; rows beyond the counts are left out.
    """
    n_clients, n_classes = counts.shape
    shuffled = rng.permutation(rows)
    by_class = shuffled[stable_order(y[shuffled])]
    totals = class_totals(y, rows, n_classes)
    starts = np.concatenate([[0], np.cumsum(totals)[:-1]])
    dealt = counts.sum(axis=0)
    owners = np.repeat(np.tile(np.arange(n_clients), n_classes), counts.T.reshape(-1))
    # Position of each dealt row: the start of its class plus its place within the class.
    place = np.arange(len(owners)) - np.repeat(np.cumsum(dealt) - dealt, dealt)
    return by_class[np.repeat(starts, dealt) + place], owners


def assign_roles(
    y: Ints,
    rows: Ints,
    owners: Ints,
    *,
    n_clients: int,
    query: float,
    validation: float,
    rng: np.random.Generator,
) -> Ints:
    """Divide every client's rows into support, validation and query, the same way in each class.

    A client's rows, ordered by class and shuffled within, are sampled systematically: query takes
    ``round(query * n)`` of them at even distances from a random start, then validation takes its
    share of the rest likewise. Each class thus contributes its share to within one sample. With
    ``query`` above 0 a client keeps at least one query sample; one support sample is always kept.
    The caller must refuse clients with fewer than two rows.

    Returns
    -------
    ndarray of int64
        ``SUPPORT``, ``VALIDATION`` or ``QUERY`` of each row.
    """
    shuffle = rng.permutation(len(rows))
    order = shuffle[stable_order(y[rows[shuffle]])]
    order = order[stable_order(owners[order])]
    roles = np.full(len(rows), SUPPORT, dtype=np.int64)
    sizes = np.bincount(owners, minlength=n_clients)
    wanted = np.rint(query * sizes).astype(np.int64)
    if query > 0:
        wanted = np.clip(wanted, 1, np.maximum(sizes - 1, 0))
    taken = _systematic(owners[order], sizes, wanted, rng)
    roles[order[taken]] = QUERY
    order = order[~taken]
    sizes = sizes - wanted
    wanted = np.minimum(np.rint(validation * sizes).astype(np.int64), np.maximum(sizes - 1, 0))
    roles[order[_systematic(owners[order], sizes, wanted, rng)]] = VALIDATION
    return roles


def _systematic(
    owners: Ints, sizes: Ints, wanted: Ints, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Mark exactly ``wanted[i]`` of client i's ``sizes[i]`` consecutive rows, evenly spread."""
    place = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    start = rng.integers(0, np.maximum(sizes, 1))[owners]
    step, whole = wanted[owners], sizes[owners]
    marks: NDArray[np.bool_] = ((place + 1) * step + start) // whole > (
        place * step + start
    ) // whole
    return marks
