"""Exact limits from counts and ranks: 0/1 losses, shares of clients, the whole curve of scores.

With clients sorted by score, U_(i), the probability of a score up to the i-th one, is at least as
large as the i-th of k ordered uniform numbers.  Each is held to the same local level eta, with the
eta at which all k statements together hold with probability 1 - delta: where
:func:`latecomer.bounds.held_out.counting.dkw_band` has one width everywhere, this band is narrow at
its ends.
"""

from functools import lru_cache

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

__all__ = [
    "clopper_pearson",
    "conformal",
    "dkw_band",
    "equal_local_level",
    "local_level_band",
    "pool_fraction",
]


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
    # Deep in the tail the library finds no limit, or one too low (SciPy 1.13 does below 1e-240, and
    # its tail then agrees); Chernoff's is never below it.
    lost = (short & (failure < 0.5)) | np.isnan(limit) | (failure < 1e-200)
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
    allowed = [int(checks.exactly(level) * (k + 1)) for level in miss.ravel()]
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


LARGEST = 2000
"""Most clients for which local levels are computed; ``dkw_band`` serves more."""
_EPS = float(np.finfo(np.float64).eps)
# Points that are carried; dropping the others lowers the probability, which is safe.
_NEGLIGIBLE = 1e-25
# Probabilities near 1 are known to some 1e-15 a client; a delta below this drowns in it.
_RESOLVED = 1e-9
_ASSUMPTIONS = (
    "the model and the number of clients were fixed before the first score was seen",
    "clients i.i.d. (pool_band is for finite pools)",
)


@catalogued(
    family="hold-out",
    claim="Level that each of k order statistics may fail at, so that all hold together.",
    source="Noe 1972 (recursion); Aldor-Noiman and others 2013 (equal local levels), one-sided",
    assumptions=_ASSUMPTIONS,
    vacuous_when="never: it is delta for one client and falls slowly with their number",
)
def equal_local_level(*, n_clients: ArrayLike, delta: ArrayLike) -> Array:
    r"""Largest eta, rounded down, with :math:`P(U_{(i)} \ge b_i(\eta)\ \forall i) \ge 1 - \delta`.

    :math:`b_i(\eta)` is the lower eta-quantile of Beta(i, k - i + 1), the law of the i-th of k
    ordered uniform numbers.  The probability is a recursion over the b_i whose terms are all
    positive.

    Parameters
    ----------
    n_clients : array_like of int, from 1 to 2000
        Clients k.
    delta : array_like, in (0, 1)

    Examples
    --------
    >>> equal_local_level(n_clients=[30, 100], delta=0.05).round(7).tolist()
    [0.0042009, 0.0024609]
    """
    k = checks.count("n_clients", n_clients)
    checks.at_most("n_clients", k, "the largest number of clients", np.asarray(LARGEST))
    failure = checks.failure_probability("delta", delta)
    return np.asarray(np.vectorize(_level, otypes=[np.float64])(k, failure))


@catalogued(
    family="hold-out",
    claim="Largest share of clients above a threshold, for every threshold at once, by how many "
    "scores it leaves below.",
    source="this project: equal local levels (equal_local_level); above 2,000 clients Dvoretzky, "
    "Kiefer and Wolfowitz with Massart's constant",
    assumptions=(*_ASSUMPTIONS, "above 2,000 clients delta at most 1/2"),
    vacuous_when="a handful of clients",
)
def local_level_band(*, n_clients: ArrayLike, delta: ArrayLike) -> Array:
    """Limits 1 - b_j on the share of clients strictly above t where j scores are at most t.

    Tied scores count in j, and b_0 = 0.  With no score above t, 100 clients leave .058 where
    ``dkw_band`` leaves .122, and 30 leave .167 where it leaves .223; in the middle of the curve
    this band is up to .023 and .032 wider.

    Parameters
    ----------
    n_clients : int, from 1 to 10 million
        Clients k; above 2,000 the band is that of ``dkw_band``.
    delta : float, in (0, 1)

    Returns
    -------
    ndarray, shape [k + 1]
        The limit for j = 0, ..., k.

    Examples
    --------
    >>> local_level_band(n_clients=30, delta=0.05)[[0, 15, 30]].round(4).tolist()
    [1.0, 0.7396, 0.1667]
    """
    k = checks.count("n_clients", n_clients, most=10**7)
    failure = checks.failure_probability("delta", delta)
    if k.ndim or failure.ndim:
        name = "n_clients" if k.ndim else "delta"
        raise ValueError(
            f"{name} must be one number, got shape {np.shape(k if k.ndim else failure)}"
        )
    j = np.arange(int(k) + 1)
    if k > LARGEST:
        width = np.sqrt(-np.log(checks.interval("delta", delta, 0.0, 0.5)) / (2.0 * int(k)))
        return np.minimum(1.0, (1.0 - j / int(k) + width) * (1.0 + 8.0 * _EPS))
    below = _boundary(int(k), _level(int(k), float(failure)))
    return np.concatenate([[1.0], np.minimum(1.0, (1.0 - below) * (1.0 + 8.0 * _EPS))])


def _boundary(k: int, level: float) -> Array:
    """Lower quantiles b_1, ..., b_k of the ordered uniform numbers, rounded down."""
    i = np.arange(1, k + 1)
    quantiles = scipy.special.betaincinv(i, k - i + 1, level) * (1.0 - 1e-12)
    # Far down in the tail scipy finds none; 0 is below them all.
    return np.where(np.isnan(quantiles), 0.0, quantiles)


def _all_above(bounds: Array) -> float:
    """P(U_(i) >= b_i for all i), from below: at b_i there must be fewer than i of k points.

    Points of a Poisson process of rate k, of which k fall into [0, 1].
    """
    k = len(bounds)
    steps = k * np.diff(bounds, prepend=0.0, append=1.0)
    weight, start = np.array([1.0]), 0
    for i, step in enumerate(steps, start=1):
        jumps = np.arange(min(k, int(step + 12.0 * np.sqrt(step) + 40.0)) + 1)
        weight = np.convolve(weight, _poisson(step, jumps))
        weight = weight[: (i if i <= k else k + 1) - start]
        kept = np.flatnonzero(weight > _NEGLIGIBLE)
        if not kept.size:
            return 0.0
        weight, start = weight[kept[0] : kept[-1] + 1], start + int(kept[0])
    if not start <= k < start + weight.size:
        return 0.0
    return float(weight[k - start] / _poisson(float(k), np.array([k]))[0])


def _poisson(mean: float, counts: NDArray[np.int64]) -> Array:
    return np.asarray(np.exp(counts * np.log(mean) - mean - scipy.special.gammaln(counts + 1.0)))


@lru_cache(maxsize=256)
def _level(k: int, delta: float) -> float:
    """Largest level whose band holds with probability 1 - delta, to 1e-9 from below.

    Below ``_RESOLVED``, where 1 - delta is hardly told from 1, it is the union's delta/k.
    """
    # The k statements share delta at worst, and no single one may fail more often than all.
    low, high = delta / k * (1.0 - 2.0 * _EPS), delta
    if k == 1:
        return delta
    if delta < _RESOLVED:
        return low

    # The logarithm of k! has k ln k in it, whose rounding is the error of the probability.
    most = delta - max(delta * 1e-9, 2.0 * _EPS * (k + 8) * float(np.log(k + 8)))

    def spare(log_level: float) -> float:
        return _all_above(_boundary(k, float(np.exp(log_level)))) - (1.0 - most)

    if spare(float(np.log(low))) <= 0:
        return low
    level = float(np.exp(scipy.optimize.brentq(spare, np.log(low), np.log(high), xtol=1e-10)))
    step = 1e-10
    while spare(float(np.log(level))) < 0 and level > low:
        level = max(low, level * (1.0 - step))
        step *= 2.0
    return level
