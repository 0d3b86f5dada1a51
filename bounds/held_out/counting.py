"""Exact limits from counts and ranks: 0/1 losses, shares of clients, the next client's score."""

from fractions import Fraction

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.binary_kl import kl_inverse_upper
from latecomer.bounds.certificate import (
    Array,
    Certificate,
    catalogued,
    certificate,
    priced,
    rounded_up,
)

__all__ = ["clopper_pearson", "conformal", "dkw_band", "pool_fraction"]


@catalogued(
    family="hold-out",
    claim="The exact binomial upper limit for 0/1 losses, one-sided.",
    source="Clopper and Pearson 1934",
    population="one-client",
    predictor="any",
    sampling="iid",
    assumptions=(
        "the model, the rule and how many losses to take were fixed before the first was seen",
        "losses are 0 or 1 and i.i.d.",
        "never for new clients by pooling the samples of several clients: at delta .05 that "
        "failed in 15-39% of simulations",
    ),
    vacuous_when="every loss is an error",
)
def clopper_pearson(*, n_errors: ArrayLike, n_samples: ArrayLike, delta: ArrayLike) -> Certificate:
    """Error rate at most max{p: P(Bin(n, p) <= n_errors) >= delta}, with probability 1 - delta.

    Equal to 1 - delta^(1/n) without errors and to 1 when all are errors.

    Parameters
    ----------
    n_errors : array_like
        Number of errors, a whole number from 0 to ``n_samples``.
    n_samples : array_like
        Number n of 0/1 losses, at least 1.
    delta : array_like, in (0, 1)

    Examples
    --------
    >>> round(float(clopper_pearson(n_errors=16, n_samples=200, delta=0.05)), 10)
    0.1189717743
    """
    n = checks.count("n_samples", n_samples)
    errors = checks.count("n_errors", n_errors, minimum=0)
    failure = checks.failure_probability("delta", delta)
    checks.at_most("n_errors", errors, "n_samples", n)
    errors, n, failure = np.broadcast_arrays(errors, n, failure)
    left = np.maximum(n - errors, 1)
    limit = scipy.special.betainccinv(errors + 1.0, left, failure)
    step = 1e-14
    # The library's inverse is accurate to a few units; step out until the tail is at most delta.
    short = np.ones(limit.shape, dtype=np.bool_)
    while short.any() and step < 1e-6:
        limit = np.where(short, np.minimum(limit * (1.0 + step), 1.0), limit)
        tail = scipy.special.betaincc(errors + 1.0, left, limit)
        short = (tail > failure * (1.0 - 1e-13)) & (limit < 1.0)
        step *= 2.0
    # Deep in the tail the library finds no limit, or one too low; Chernoff's is never below it.
    lost = (short & (failure < 0.5)) | np.isnan(limit)
    if lost.any():
        chernoff = kl_inverse_upper(errors / n, rounded_up(-np.log(failure) / n))
        limit = np.where(lost, chernoff, limit)
    closed = np.minimum(rounded_up(-np.expm1(np.log(failure) / n)), 1.0)
    value = np.where(errors == 0, closed, np.where(errors == n, 1.0, limit))
    risk = errors / n
    return priced("clopper_pearson", value, risk, {"samples": failure})


@catalogued(
    family="hold-out",
    claim="A value the next client's score stays below with probability 1 - alpha.",
    source="split conformal prediction (Vovk et al. 2005)",
    population="next-client",
    predictor="any",
    sampling="iid or finite-pool",
    assumptions=(
        "the model and the number of clients were fixed before the first score was seen",
        "held-out clients and the next one are exchangeable",
        "the probability is over all of them together, not given these held-out clients",
    ),
    vacuous_when="fewer than 1/alpha - 1 clients (9 at alpha .1): then the value is loss_max",
)
def conformal(*, losses: ArrayLike, alpha: ArrayLike, loss_max: float = 1.0) -> Certificate:
    """Return the ceil((1 - alpha)(k + 1))-th smallest score, ``loss_max`` if there are too few.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, loss_max]
    alpha : array_like
        Probability that the next client exceeds the value, strictly between 0 and 1; read as the
        decimal number that it prints as.
    loss_max : float, positive

    Examples
    --------
    >>> float(conformal(losses=[0.2, 0.5, 0.1, 0.4], alpha=0.4))
    0.4
    """
    top = checks.largest_loss("loss_max", loss_max)
    scores = checks.losses_in("losses", losses, loss_max=top)
    miss = checks.failure_probability("alpha", alpha)
    k = scores.shape[-1]
    # In fractions, since in floats the product (1 - alpha)(k + 1) may just miss a whole number.
    allowed = [int(Fraction(repr(float(level))) * (k + 1)) for level in miss.ravel()]
    rank = k + 1 - np.asarray(allowed, dtype=np.int64).reshape(miss.shape)
    shape = np.broadcast_shapes(scores.shape[:-1], rank.shape)
    ordered = np.broadcast_to(np.sort(scores, axis=-1), (*shape, k))
    at = np.broadcast_to(np.minimum(rank, k) - 1, shape)
    value = np.take_along_axis(ordered, at[..., None], axis=-1)[..., 0]
    value = np.where(rank > k, top, value)
    return certificate(
        "conformal",
        value=value,
        terms={"quantile": value},
        delta={"next client": miss},
        loss_max=top,
    )


@catalogued(
    family="hold-out",
    claim="Share of a finite pool's clients whose score exceeds a threshold fixed beforehand.",
    source="exact hypergeometric limit",
    population="unseen-client",
    predictor="any",
    sampling="finite-pool",
    assumptions=(
        "the model, the threshold and the number of clients were fixed before the first score was "
        "seen",
        "the sampled clients are a uniform sample without replacement from the pool",
        "the share is of the scores as they were measured, on these points with these draws, not "
        "of expected scores over fresh ones",
    ),
    vacuous_when="every sampled client exceeds the threshold",
)
def pool_fraction(
    *, n_exceeding: ArrayLike, n_sampled: ArrayLike, pool_size: ArrayLike, delta: ArrayLike
) -> Certificate:
    """Share at most B/N with B = max{B: P(Hyp(N, B, n) <= x) >= delta}, probability 1 - delta.

    Parameters
    ----------
    n_exceeding : array_like
        Sampled clients x above the threshold, from 0 to ``n_sampled``.
    n_sampled : array_like
        Sampled clients n, at least 1 and at most ``pool_size``.
    pool_size : array_like
        Clients N in the pool, the sampled ones included.
    delta : array_like, in (0, 1)

    Examples
    --------
    >>> float(pool_fraction(n_exceeding=0, n_sampled=30, pool_size=40, delta=0.05))
    0.05
    """
    seen = checks.count("n_exceeding", n_exceeding, minimum=0)
    n = checks.count("n_sampled", n_sampled)
    pool = checks.count("pool_size", pool_size)
    failure = checks.failure_probability("delta", delta)
    checks.at_most("n_exceeding", seen, "n_sampled", n)
    checks.at_most("n_sampled", n, "pool_size", pool)
    seen, n, pool, failure = np.broadcast_arrays(seen, n, pool, failure)
    low, high = seen.copy(), pool - n + seen
    while (low < high).any():
        middle = (low + high + 1) // 2
        # Slightly below delta, so that rounding in the tail can only add a client.
        possible = _at_most(seen, pool, middle, n) >= failure * (1.0 - 1e-11)
        low = np.where(possible, middle, low)
        high = np.where(possible, high, middle - 1)
    share = seen / n
    value = low / pool
    return certificate(
        "pool_fraction",
        value=value,
        terms={"sampled_share": share, "price": value - share},
        delta={"clients": failure},
    )


def _at_most(
    seen: NDArray[np.int64], pool: NDArray[np.int64], bad: NDArray[np.int64], n: NDArray[np.int64]
) -> Array:
    """P(at most ``seen`` of ``n`` clients are among the ``bad`` ones of a pool), for each."""
    if seen.any():
        return np.asarray(scipy.stats.hypergeom.cdf(seen, pool, bad, n))
    # A product; importing distributions takes longer than anything else that a certificate needs.
    each = [
        np.exp(np.log1p(-b / (size - np.arange(drawn))).sum())
        for size, b, drawn in zip(pool.ravel(), bad.ravel(), n.ravel(), strict=True)
    ]
    return np.reshape(np.array(each), seen.shape)


@catalogued(
    family="hold-out",
    claim="Half-width that makes the share of clients above every threshold right at once.",
    source="Dvoretzky, Kiefer and Wolfowitz 1956; constant of Massart 1990, one-sided",
    assumptions=(
        "the model and the number of clients were fixed before the first score was seen",
        "clients i.i.d.",
        "delta at most 1/2",
    ),
    vacuous_when="n_clients is below ln(1/delta)/2",
)
def dkw_band(*, n_clients: ArrayLike, delta: ArrayLike) -> Array:
    """Width sqrt(ln(1/delta) / (2 k)) to add to the sampled share of clients above a threshold.

    With probability 1 - delta the true share is below the sum for all thresholds simultaneously.

    Parameters
    ----------
    n_clients : array_like
        Sampled clients k, at least 1.
    delta : array_like
        Failure probability, above 0 and at most 1/2.

    Examples
    --------
    >>> round(float(dkw_band(n_clients=100, delta=0.05)), 6)
    0.122387
    """
    k = checks.count("n_clients", n_clients)
    failure = checks.failure_probability("delta", checks.interval("delta", delta, 0.0, 0.5))
    return rounded_up(np.sqrt(-np.log(failure) / (2.0 * k)))
