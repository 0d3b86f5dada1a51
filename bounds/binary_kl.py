"""Binary relative entropy, its inverses rounded outward, and Gaussian relative entropies.

Everything is in nats. An inverse that errs to the inside is no certificate, so both inverses end
with a step to the outside as large as the rounding errors can be, checked by evaluating the
divergence there.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincc, gammaln

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, catalogued

__all__ = [
    "gauss_kl_equal",
    "gauss_kl_iso",
    "kl",
    "kl_inverse_lower",
    "kl_inverse_upper",
    "xi",
]

_EPS = float(np.finfo(np.float64).eps)
_TINY = 1e-300
# Elements worked on at a time, so that the temporaries stay in the processor's cache.
_BLOCK = 32768


def _divergence_part(a: Array, b: Array, gap: Array) -> Array:
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
        For values outside [0, 1] or that are no numbers.

    Examples
    --------
    >>> round(float(kl(q=0.1, p=0.2)), 10)
    0.036690014
    """
    first = checks.interval("q", q, 0.0, 1.0)
    second = checks.interval("p", p, 0.0, 1.0)
    first, second = (np.asarray(part) for part in np.broadcast_arrays(first, second))
    gap = second - first
    parts = _divergence_part(first, second, gap) + _divergence_part(1.0 - first, 1.0 - second, -gap)
    return np.asarray(np.maximum(parts, 0.0))


def _log_ratio(a: Array, b: Array, budget: Array) -> Array:
    """Smallest safe s with kl(a || 1 - b exp(-s)) >= budget, where a + b = 1, elementwise.

    In s the divergence is f(s) = b s - a log1p((b/a)(1 - exp(-s))): convex and increasing, with
    f' = d/p, f'' = a r/p^2 for r = b exp(-s), d = b - r, p = a + d.
    """
    root = np.sqrt(2.0 * a * budget)
    # Lower terms bound f from below, which bounds s from above; the second value is the expansion
    # of s for small budgets. Together they start within a factor of three everywhere.
    above = (budget + np.minimum(root, -a * np.log(a))) / b
    s = np.minimum(above, root / np.sqrt(b) + budget * (a / b + 2.0) / 3.0)
    for _ in range(2):
        s = _halley(a, b, budget, s)
    s, safe = _outward(a, b, budget, s)
    if not safe.all():
        wrong = np.flatnonzero(~safe)
        s[wrong] = _from_above(a[wrong], b[wrong], budget[wrong], above[wrong])
    return s


def _halley(a: Array, b: Array, budget: Array, s: Array) -> Array:
    d = -b * np.expm1(-s)
    r = b - d
    p = a + d
    step = (b * s - a * np.log1p(d / a) - budget) * p / d
    return np.asarray(s - step / (1.0 - 0.5 * step * a * r / (p * d)))


def _outward(a: Array, b: Array, budget: Array, s: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Step out by what rounding may have cost, and tell where the divergence proves it enough."""
    slope = -b * np.expm1(-s)
    slope = slope / (a + slope)
    out = s * (1.0 + 4.0 * _EPS) + 24.0 * _EPS * b * s / slope
    linear = b * out
    bent = a * np.log1p(-b * np.expm1(-out) / a)
    safe = linear - bent >= budget * (1.0 + 2.0 * _EPS) + 5.0 * _EPS * (linear + bent)
    return out, np.asarray(safe)


def _from_above(a: Array, b: Array, budget: Array, above: Array) -> Array:
    """Newton from the proven upper bound: convexity keeps every iterate on the safe side."""
    s = above * (1.0 + 8.0 * _EPS)
    for _ in range(60):
        d = -b * np.expm1(-s)
        s = s - (b * s - a * np.log1p(d / a) - budget) * (a + d) / d
    step = 64.0 * _EPS
    for _ in range(40):
        out, safe = _outward(a, b, budget, s * (1.0 + step))
        if safe.all():
            return out
        step *= 2.0
    return np.asarray(np.where(safe, out, above * (1.0 + 8.0 * _EPS)))


def _solve(a: Array, b: Array, budget: Array) -> Array:
    """``_log_ratio`` over arrays of one shape, a block at a time; 0 where b or the budget is 0."""
    flat = np.zeros(a.size)
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


@catalogued(
    family="building blocks",
    claim="Largest p with kl(q || p) within the budget, never below the true value.",
    source="Langford 2005; solved by Halley steps in -ln(1-p), rounded up",
)
def kl_inverse_upper(q: ArrayLike, budget: ArrayLike) -> Array:
    """Upper inverse of the binary relative entropy, rounded up.

    sup{p in [0, 1]: kl(q || p) <= budget}; 1 - exp(-budget) at q = 0 and 1 at q = 1. Increasing in
    both arguments. The result is never below the exact value and above it by a few units in the
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
        For ``q`` outside [0, 1], a negative budget, or what is no finite number.

    Examples
    --------
    >>> round(float(kl_inverse_upper(q=0.05, budget=0.02)), 10)
    0.1057499398
    """
    mean, limit = np.broadcast_arrays(
        checks.interval("q", q, 0.0, 1.0), checks.nonnegative("budget", budget)
    )
    rest = 1.0 - mean
    s = _solve(mean, rest, limit)
    p = (mean - rest * np.expm1(-s)) * (1.0 + 2.0 * _EPS)
    p = np.where(limit > 0, np.minimum(p, 1.0), mean)
    return np.asarray(np.where(rest > 0, p, 1.0))


@catalogued(
    family="building blocks",
    claim="Smallest p with kl(q || p) within the budget, never above the true value.",
    source="Langford 2005; solved by Halley steps in -ln p, rounded down",
)
def kl_inverse_lower(q: ArrayLike, budget: ArrayLike) -> Array:
    """Lower inverse of the binary relative entropy, rounded down.

    inf{p in [0, 1]: kl(q || p) <= budget}; 0 at q = 0 and exp(-budget) at q = 1. Increasing in
    ``q``, decreasing in the budget; never above the exact value.

    Parameters
    ----------
    q : array_like
        Mean in [0, 1].
    budget : array_like
        Nats, at least 0; broadcasts with ``q``.

    Returns
    -------
    ndarray
        Values in [0, q], shape of the broadcast inputs.

    Raises
    ------
    ValueError, TypeError
        For ``q`` outside [0, 1], a negative budget, or what is no finite number.

    Examples
    --------
    >>> round(float(kl_inverse_lower(q=0.05, budget=0.02)), 10)
    0.0177863835
    """
    mean, limit = np.broadcast_arrays(
        checks.interval("q", q, 0.0, 1.0), checks.nonnegative("budget", budget)
    )
    s = _solve(1.0 - mean, mean, limit)
    p = mean * np.exp(-s) * (1.0 - 4.0 * _EPS)
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

    Raises
    ------
    ValueError, TypeError
        For values out of range.

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
    spread = n_coordinates * _divergence_part(other, mine, mine - other)
    return np.asarray((spread + distance) / (2.0 * other))


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
        For what is no whole number of at least 1.

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
    direct = gammaln(small + 1.0) + small - small * np.log(small)
    moment = np.exp(np.where(size > 32, stirling, direct)) * gammaincc(size + 1.0, size)
    return np.asarray(moment * (1.0 + 1e-12))
