"""The whole curve of independent clients' scores at once, by equal local levels.

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
from latecomer.bounds.certificate import Array, catalogued

__all__ = ["equal_local_level", "local_level_band"]

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
    k, failure = np.broadcast_arrays(k, failure)
    levels = [_level(int(n), float(p)) for n, p in zip(k.ravel(), failure.ravel(), strict=True)]
    return np.reshape(np.array(levels, dtype=np.float64), k.shape)


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
