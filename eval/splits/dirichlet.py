"""Splits by Dirichlet class proportions, in the two forms of the papers."""

import numpy as np
from numpy.typing import NDArray

from latecomer.checks import number_in, whole
from latecomer.errors import InputError
from latecomer.eval.splits.dealing import class_totals, log_dirichlet, share_counts
from latecomer.eval.splits.pool import (
    MIN_SAMPLES,
    Filling,
    Pool,
    check_sizes,
    fill_by_counts,
    fill_by_weight,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
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

    Raises
    ------
    InputError
        There are too many clients for the data, or some hold too little after the last draw.
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

    Parameters
    ----------
    logs : ndarray, shape [n_clients, n_classes]
        Logarithms of class proportions.
    sizes : ndarray of int64, shape [n_clients]
        Samples per client; their sum is at most ``totals.sum()``.
    totals : ndarray of int64, shape [n_classes]

    Returns
    -------
    ndarray of int64, shape [n_clients, n_classes]
        Rows add up to ``sizes``; columns to at most ``totals``.

    Examples
    --------
    >>> logs = np.log([[0.5, 0.5], [0.999, 0.001]])
    >>> counts = draw_labels(logs, np.array([6, 4]), np.array([5, 5]), np.random.default_rng(0))
    >>> counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist()
    ([6, 4], [5, 5])
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
