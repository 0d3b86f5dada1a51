"""How clients are filled: how much of each class each gets, and which rows of the pool.

A split kind gives each client a weight for each class, in a table clients x classes.
:func:`share_counts` divides each class in proportion to its column, :func:`deal_rows` picks the
rows, :func:`assign_roles` cuts each client's rows into support, validation and query.
"""

import zlib
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from latecomer.checks import number_in, whole
from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset

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
    """Draw the logarithm of one class-proportion vector Dir(alpha) per client, [clients, classes].

    ``alpha`` is one number for all classes, or one per class.

    Logarithms, because for small ``alpha`` most proportions are below the smallest float, and each
    class still needs an owner: a Gamma(alpha + 1) variable times U^(1/alpha) is Gamma(alpha).
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
    """
    order: Ints = np.argsort(keys.astype(np.uint16), kind="stable")
    high = keys >> 16
    if high.any():
        order = order[np.argsort(high[order].astype(np.uint16), kind="stable")]
    return order


def share_counts(weights: Floats, totals: Ints) -> Ints:
    """Divide each class's samples in proportion to its column of ``weights`` [clients, classes].

    Cumulative shares are rounded, so that a column adds up to the class's total exactly and a
    count differs from its exact share by at most one. A class without any weight is given to
    nobody.

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

    Returns the dealt rows and their clients; rows beyond the counts are left out.
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


MIN_SAMPLES = 4


@dataclass(frozen=True, eq=False)
class Pool:
    """The samples that clients are filled from.

    Attributes
    ----------
    y, client, coarse : ndarray of int64, shape [N], the last two or None
        Labels, natural clients and superclasses of the whole data set.
    train, test : ndarray of int64
        Rows to deal; ``test`` is None where the publisher has no test set.
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


_ATTEMPTS = 100
_ALPHA_RANGE = (1e-4, 1e6)


def fill_dirichlet(
    pool: Pool,
    clients: int | None,
    rng: np.random.Generator,
    *,
    alpha: float,
    form: str,
    samples_per_client: int | None = None,
    min_samples: int | None = None,
    key: str = "split.alpha",
) -> Filling:
    """Draw class proportions Dir(alpha) for each client and fill the client by them.

    ``shares`` (PeFLL, pFedHN): each class is divided in proportion to the clients' proportions,
    normalised over clients. Clients that would get fewer than ``min_samples`` (default 4) are
    drawn anew, at most 100 times. ``draws`` (OD-PFL): every client holds ``samples_per_client``
    train samples (by default an equal share of all), with labels drawn from its proportions
    (:func:`draw_labels`).
    """
    number_in(key, alpha, *_ALPHA_RANGE)
    if form == "draws":
        return _fill_draws(pool, clients, rng, alpha, samples_per_client, min_samples)
    if samples_per_client is not None:
        raise InputError("split.samples_per_client is for form=draws, got it with form=shares")
    least_asked = MIN_SAMPLES if min_samples is None else min_samples
    n_clients, least = check_sizes(pool, clients, least_asked)
    totals = class_totals(pool.y, pool.train, pool.n_classes)
    logs = log_dirichlet(n_clients, pool.n_classes, alpha, rng)
    for _ in range(_ATTEMPTS):
        # Only ratios within a class matter, so each column may be scaled to a maximum of 1.
        weights = np.exp(logs - logs.max(axis=0))
        short = share_counts(weights, totals).sum(axis=1) < least
        if pool.test is not None:
            tests = class_totals(pool.y, pool.test, pool.n_classes)
            short |= share_counts(weights, tests).sum(axis=1) < 1
        if not short.any():
            return fill_by_weight(pool, weights, least, rng)
        logs[short] = log_dirichlet(int(short.sum()), pool.n_classes, alpha, rng)
    raise InputError(
        f"{key}={alpha:g}: after {_ATTEMPTS} draws {int(short.sum())} of {n_clients} clients still "
        f"hold too few samples (at least {least} each): ask for fewer clients, a larger alpha or "
        "a smaller min_samples"
    )


def _fill_draws(
    pool: Pool,
    clients: int | None,
    rng: np.random.Generator,
    alpha: float,
    samples_per_client: int | None,
    min_samples: int | None,
) -> Filling:
    n_clients, least = check_sizes(pool, clients, min_samples)
    most = len(pool.train) // n_clients
    size = most
    if samples_per_client is not None:
        why = f" ({len(pool.train)} samples for {n_clients} clients)"
        size = whole("split.samples_per_client", samples_per_client, least, most, why)
    logs = log_dirichlet(n_clients, pool.n_classes, alpha, rng)
    totals = class_totals(pool.y, pool.train, pool.n_classes)
    counts = draw_labels(logs, np.full(n_clients, size), totals, rng)
    return fill_by_counts(pool, counts, counts.astype(np.float64), least, rng)


def draw_labels(logs: Floats, sizes: Ints, totals: Ints, rng: np.random.Generator) -> Ints:
    """Draw each client's labels from its own class proportions until classes run out.

    All clients draw at once. If more samples of a class are drawn than exist, clients are served in
    random order, and missing samples are drawn again from the client's proportions over the classes
    left. Each round exhausts a class or is the last, so there are at most as many as classes.

    ``logs`` [clients, classes] of the proportions; ``sizes`` [clients], at most ``totals.sum()`` in
    all. Rows of what is returned add up to ``sizes``, columns to at most ``totals`` [classes].
    """
    counts = np.zeros(logs.shape, dtype=np.int64)
    left, short = totals.copy(), sizes.copy()
    while short.any():
        asking = rng.permutation(np.flatnonzero(short))
        open_logs = np.where(left > 0, logs[asking], -np.inf)
        chances = np.exp(open_logs - open_logs.max(axis=1, keepdims=True))
        wanted = rng.multinomial(short[asking], chances / chances.sum(axis=1, keepdims=True))
        reached = np.minimum(np.cumsum(wanted, axis=0), left)
        served = np.diff(reached, axis=0, prepend=0)
        counts[asking] += served
        short[asking] -= served.sum(axis=1)
        left -= served.sum(axis=0)
    return counts
