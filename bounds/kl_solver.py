"""Solver behind the binary relative entropy: vectorised, cancellation-free, rounded outward.

With s = -ln(1 - p) + ln(1 - q) the divergence kl(q || p) is convex and increasing in s, and two
Halley steps from a start within a factor of three reach rounding error for every q and budget.
"""

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds.certificate import Array

__all__ = ["divergence_part", "safe_log_ratio"]

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
    """Return s >= 0 with kl(a || 1 - b exp(-s)) >= budget, within rounding of the smallest.

    ``a + b = 1``; the three arrays have one shape. Where ``b`` or the budget is 0 the value has no
    meaning. 1 - b exp(-s) is the upper inverse at a, b exp(-s) one minus the lower inverse at b.
    """
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
