"""Binary relative entropy, the solver of its inverses, and Gaussian relative entropies.

The solver: with s = -ln(1 - p) + ln(1 - q) the divergence kl(q || p) is convex and increasing in s.
From a start within a factor of three, a Newton and a Halley step come within 1e-7 for every q and
budget. By convexity the last Newton step ends above the root; it is extended past its rounding
errors.

Everything is in nats. An inverse that errs inward is no certificate, so both inverses end with an
outward step as large as the rounding errors can be.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, catalogued

__all__ = [
    "divergence_part",
    "gauss_kl_equal",
    "gauss_kl_iso",
    "kl",
    "kl_inverse_lower",
    "kl_inverse_upper",
    "safe_log_ratio",
    "xi",
]

_EPS = float(np.finfo(np.float64).eps)
_TINY = 1e-300
# Elements worked on at a time, so that the temporaries stay in the processor's cache.
_BLOCK = 32768


def divergence_part(a: Array, b: Array, gap: Array) -> Array:
    """Return ``a ln(a/b) + gap`` for ``gap = b - a``, without cancellation at a = b."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = gap / np.maximum(a, _TINY)
        small = np.abs(x) < 0.25
        r = np.where(small, x / (2.0 + x), 0.0)
        r2 = r * r
        # log1p(x) = 2 atanh(r) and x - 2 r = x r; odd powers to 23 reach rounding at |x| = 1/4.
        series = np.zeros_like(r)
        for power in range(23, 1, -2):
            series = r2 * (1.0 / power + series)
        direct = np.where(a > 0, a * np.log(a / b) + gap, gap)
    return np.asarray(np.where(small, a * r * (x - 2.0 * series), direct))


def safe_log_ratio(a: Array, b: Array, budget: Array) -> Array:
    """Return s >= 0 with kl(a || 1 - b exp(-s)) >= budget, within rounding of the smallest such s.

    ``a + b = 1``; the three arrays have one shape. Where ``b`` or the budget is 0 the value has no
    meaning. 1 - b exp(-s) is the upper inverse at a, b exp(-s) the lower inverse at b.
    """
    flat = np.empty(a.size)
    mass, rest, limit = a.ravel(), b.ravel(), budget.ravel()
    with np.errstate(all="ignore"):
        for first in range(0, flat.size, _BLOCK):
            part = slice(first, first + _BLOCK)
            flat[part] = _log_ratio(
                np.maximum(mass[part], _TINY),
                np.maximum(rest[part], _TINY),
                np.maximum(limit[part], _TINY),
            )
    return flat.reshape(a.shape)


def _log_ratio(a: Array, b: Array, budget: Array) -> Array:
    """Solve one block: start, Newton, Halley, then Newton outward."""
    root = np.sqrt(2.0 * a) * np.sqrt(budget)
    # Rounding moves s by a few eps a, so smaller values of s cannot be resolved.
    least = 8.0 * _EPS * a
    # The divergence is at least (b s)^2 / (2 (a + b s)) and at least b s + a ln a, which bounds s
    # from above. The second value is the expansion of s for small budgets.
    loga = np.where(b < 0.5, np.log1p(-b), np.log(a))  # the smaller of the two is exact
    above = (budget + np.minimum(root, -a * loga)) / b
    small = root / np.sqrt(b) + budget * (a / b + 2.0) / 3.0
    s = np.maximum(np.minimum(above, small), least)
    excess, d, p = _excess(a, b, budget, s)
    s = np.maximum(s - excess * p / d, least)
    excess, d, p = _excess(a, b, budget, s)
    step = excess * p / d
    s = np.maximum(s - step / (1.0 - 0.5 * step * a * (b - d) / (p * d)), least)
    s, close = _newton_outward(a, b, budget, s)
    if not close.all():
        far = np.flatnonzero(~close)
        s[far] = _slowly(a[far], b[far], budget[far], above[far])
    return s


def _excess(a: Array, b: Array, budget: Array, s: Array) -> tuple[Array, Array, Array]:
    """Return f(s) - budget with d = b (1 - exp(-s)) and p = a + d.

    f(s) = b s - a ln(1 + d/a) is the divergence, f' = d/p and f'' = a (b - d) / p^2.
    """
    d = np.expm1(-s)
    d *= -b
    bent = d / a
    np.log1p(bent, out=bent)
    bent *= a
    excess = b * s
    excess -= bent
    excess -= budget
    return excess, d, a + d


def _newton_outward(a: Array, b: Array, budget: Array, s: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Take a Newton step and go past its rounding errors; also return where the step was small.

    f is convex, so that the step ends at or above the root whatever ``s`` was, and a small step
    ends at most its square from the root. The computed f is off by at most 12 eps b s: log and exp
    are accurate to 4 units, and a ln(1 + d/a) lies between a d/p and b s.
    """
    excess, d, p = _excess(a, b, budget, s)
    step = excess * p / d
    close = np.abs(step) <= 1e-7 * s
    s = s - step
    return s + 24.0 * _EPS * s * (1.0 + b * p / d), np.asarray(close)


def _slowly(a: Array, b: Array, budget: Array, above: Array) -> Array:
    """Newton from the proven upper bound, where convexity makes every step a descent."""
    above = above * (1.0 + 16.0 * _EPS)
    s, least = above, 8.0 * _EPS * a
    for _ in range(60):
        excess, d, p = _excess(a, b, budget, s)
        s = np.maximum(s - excess * p / d, least)
    # Where even this breaks down (results next to 0 or 1) the proven bound is returned.
    return np.asarray(np.fmin(_newton_outward(a, b, budget, s)[0], above))


@catalogued(
    family="building blocks",
    claim="Relative entropy between two coins, kl(q || p), in nats.",
    source="standard",
)
def kl(q: ArrayLike, p: ArrayLike) -> Array:
    """Relative entropy kl(q || p) of a coin with mean ``q`` from one with mean ``p``.

    kl(q || p) = q ln(q/p) + (1-q) ln((1-q)/(1-p)), with 0 ln 0 = 0; infinite when p is 0 or 1 and
    q is not.

    Parameters
    ----------
    q, p : array_like
        Means in [0, 1]; broadcast.

    Returns
    -------
    ndarray
        Nats, shape of the broadcast inputs.

    Raises
    ------
    ValueError, TypeError
        For values that are outside [0, 1] or are not numbers.

    Examples
    --------
    >>> round(float(kl(q=0.1, p=0.2)), 10)
    0.036690014
    """
    first = checks.interval("q", q, 0.0, 1.0)
    second = checks.interval("p", p, 0.0, 1.0)
    first, second = (np.asarray(part) for part in np.broadcast_arrays(first, second))
    gap = second - first
    parts = divergence_part(first, second, gap) + divergence_part(1.0 - first, 1.0 - second, -gap)
    return np.asarray(np.maximum(parts, 0.0))


@catalogued(
    family="building blocks",
    claim="Largest p with kl(q || p) within the budget, never below the true value.",
    source="Langford 2005; Newton and Halley steps in -ln(1-p), rounded up",
)
def kl_inverse_upper(q: ArrayLike, budget: ArrayLike) -> Array:
    """Upper inverse of the binary relative entropy, rounded up.

    sup{p in [0, 1]: kl(q || p) <= budget}; 1 - exp(-budget) at q = 0 and 1 at q = 1. Increasing in
    both arguments. The result is never below the exact value and exceeds it by a few units in the
    last place.

    Parameters
    ----------
    q : array_like
        Mean in [0, 1].
    budget : array_like
        Nats, at least 0; broadcasts with ``q``.

    Returns
    -------
    ndarray
        Values in [q, 1], shape of the broadcast inputs.

    Raises
    ------
    ValueError, TypeError
        For ``q`` outside [0, 1], a negative budget, or values that are not finite numbers.

    Examples
    --------
    >>> round(float(kl_inverse_upper(q=0.05, budget=0.02)), 10)
    0.1057499398
    """
    mean, limit = np.broadcast_arrays(
        checks.interval("q", q, 0.0, 1.0), checks.nonnegative("budget", budget)
    )
    rest = 1.0 - mean
    s = safe_log_ratio(mean, rest, limit)
    with np.errstate(under="ignore"):
        p = (mean - rest * np.expm1(-s)) * (1.0 + 8.0 * _EPS)
    p = np.where(limit > 0, np.minimum(p, 1.0), mean)
    return np.asarray(np.where(rest > 0, p, 1.0))


@catalogued(
    family="building blocks",
    claim="Smallest p with kl(q || p) within the budget, never above the true value.",
    source="Langford 2005; Newton and Halley steps in -ln p, rounded down",
)
def kl_inverse_lower(q: ArrayLike, budget: ArrayLike) -> Array:
    """Lower inverse of the binary relative entropy, rounded down.

    inf{p in [0, 1]: kl(q || p) <= budget}; 0 at q = 0 and exp(-budget) at q = 1. Increasing in
    ``q``, decreasing in the budget; never above the exact value.

    Parameters
    ----------
    q, budget : array_like
        As for :func:`kl_inverse_upper`.

    Returns
    -------
    ndarray
        Values in [0, q], shape of the broadcast inputs.

    Raises
    ------
    ValueError, TypeError
        For ``q`` outside [0, 1], a negative budget, or values that are not finite numbers.

    Examples
    --------
    >>> round(float(kl_inverse_lower(q=0.05, budget=0.02)), 10)
    0.0177863835
    """
    mean, limit = np.broadcast_arrays(
        checks.interval("q", q, 0.0, 1.0), checks.nonnegative("budget", budget)
    )
    s = safe_log_ratio(1.0 - mean, mean, limit)
    with np.errstate(under="ignore"):
        p = mean * np.exp(-s) * (1.0 - 8.0 * _EPS)
    p = np.where(p < np.finfo(np.float64).tiny, 0.0, p)  # below, numbers are too far apart
    return np.asarray(np.where((limit > 0) & (mean > 0), p, mean))


@catalogued(
    family="building blocks",
    claim="Relative entropy between two Gaussians of one shared isotropic variance.",
    source="standard; PeFLL ICLR 2024 Theorem 3.2 (its prose omits the factor 1/2: erratum E1)",
)
def gauss_kl_equal(*, squared_distance: ArrayLike, alpha: ArrayLike) -> Array:
    """KL(N(a, alpha I) || N(b, alpha I)) = squared_distance / (2 alpha), in nats.

    Parameters
    ----------
    squared_distance : array_like
        Squared Euclidean distance of the means, at least 0.
    alpha : array_like
        Shared variance of every coordinate (a variance, not a standard deviation), above 0.

    Returns
    -------
    ndarray
        Nats, shape of the broadcast inputs.

    Raises
    ------
    ValueError, TypeError
        For a negative distance or a variance that is not positive.

    Examples
    --------
    >>> float(gauss_kl_equal(squared_distance=3.0, alpha=0.5))
    3.0
    """
    distance = checks.nonnegative("squared_distance", squared_distance)
    return np.asarray(distance / (2.0 * checks.positive("alpha", alpha)))


@catalogued(
    family="building blocks",
    claim="Relative entropy between two isotropic Gaussians in a given dimension.",
    source="standard; the factor `dim` is missing in a much-copied meta-learning code base",
)
def gauss_kl_iso(
    *, squared_distance: ArrayLike, variance_q: ArrayLike, variance_p: ArrayLike, dim: ArrayLike
) -> Array:
    """KL(N(a, variance_q I) || N(b, variance_p I)) in ``dim`` dimensions, in nats.

    [dim (v - 1 - ln v) + squared_distance / variance_p] / 2 with v = variance_q / variance_p.

    Parameters
    ----------
    squared_distance : array_like
        Squared Euclidean distance of the means, at least 0.
    variance_q, variance_p : array_like
        Variances of the first and the second Gaussian, above 0.
    dim : array_like
        Number of coordinates, at least 1.

    Returns
    -------
    ndarray
        Nats, shape of the broadcast inputs.

    Examples
    --------
    >>> kl_nats = gauss_kl_iso(squared_distance=2.0, variance_q=0.5, variance_p=1.5, dim=10)
    >>> round(float(kl_nats), 10)
    2.8263947767
    """
    distance = checks.nonnegative("squared_distance", squared_distance)
    mine = checks.positive("variance_q", variance_q)
    other = checks.positive("variance_p", variance_p)
    n_coordinates = checks.count("dim", dim)
    with np.errstate(over="ignore", under="ignore"):
        # Variances far apart have no ratio among the normal numbers; their logarithms have one.
        ratio, gap = mine / other, (mine - other) / other
        of_logs = gap + (np.log(other) - np.log(mine))
        near = divergence_part(np.ones_like(ratio), ratio, gap)
        spread = np.where(np.abs(np.log2(mine) - np.log2(other)) < 1000.0, near, of_logs)
        return np.asarray(0.5 * (n_coordinates * spread + distance / other))


@catalogued(
    family="building blocks",
    claim="Exact exponential moment of the binary relative entropy, at most 2 sqrt(n).",
    source="Maurer 2004; closed form by Ramanujan's Q function (this project)",
)
def xi(n: ArrayLike) -> Array:
    """Largest E exp(n kl(k/n || p)) over p for k ~ Bin(n, p), rounded up.

    xi(n) = sum_k C(n, k) (k/n)^k (1 - k/n)^(n-k) = e^n n! n^(-n) P(Poisson(n) <= n), which grows
    as sqrt(pi n / 2) + 2/3 and never exceeds 2 sqrt(n).

    Parameters
    ----------
    n : array_like
        Sample size, a whole number of at least 1.

    Returns
    -------
    ndarray
        Shape of ``n``.

    Raises
    ------
    ValueError, TypeError
        For values that are not whole numbers of at least 1.

    Examples
    --------
    >>> round(float(xi(90)), 8)
    12.56733399
    """
    size = checks.count("n", n).astype(np.float64)
    inverse = 1.0 / size
    square = inverse * inverse
    tail = 1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square / 1680))
    stirling = 0.5 * np.log(2.0 * np.pi * size) + inverse * tail
    small = np.minimum(size, 32.0)
    direct = scipy.special.gammaln(small + 1.0) + small - small * np.log(small)
    above = scipy.special.gammaincc(size + 1.0, size)
    moment = np.exp(np.where(size > 32, stirling, direct)) * above
    return np.asarray(moment * (1.0 + 1e-12))
