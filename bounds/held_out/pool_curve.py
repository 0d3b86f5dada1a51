"""The whole curve of a finite pool's scores at once: the counterpart of `dkw_band`."""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, catalogued, rounded_up

__all__ = ["LARGEST_POOL", "pool_band"]

LARGEST_POOL = 100_000
"""Clients of a pool that is walked down one by one, some thirty times."""


@catalogued(
    family="hold-out",
    claim="Half-width that makes the share of a pool's clients above every threshold right at "
    "once.",
    source="this project: exact law of the largest deviation, by counting lattice paths",
    assumptions=(
        "the model and the number of clients were fixed before the first score was seen",
        "the sampled clients are a uniform sample without replacement from the pool",
        "shares are of the scores as they were measured, on these points with these draws, not of "
        "expected scores over fresh ones",
    ),
    vacuous_when="a handful of clients: the width is .9 for one of ten at delta .05",
)
def pool_band(*, n_sampled: ArrayLike, pool_size: ArrayLike, delta: ArrayLike) -> Array:
    r"""Width to add to the sampled share of clients above a threshold, for all thresholds at once.

    With H_b sampled clients among the b worst of the pool's N, the width is the smallest w with
    :math:`P(\max_b (b/N - H_b/n) > w) \le \delta`; equal scores only make the maximum smaller.

    Parameters
    ----------
    n_sampled, pool_size, delta
        As for :func:`latecomer.bounds.held_out.counting.pool_fraction`; at most 100,000 clients.

    Examples
    --------
    >>> round(float(pool_band(n_sampled=30, pool_size=40, delta=0.05)), 4)
    0.1083
    """
    n = checks.count("n_sampled", n_sampled)
    pool = checks.count("pool_size", pool_size, most=LARGEST_POOL)
    failure = checks.failure_probability("delta", delta)
    checks.at_most("n_sampled", n, "pool_size", pool)
    n, pool, failure = np.broadcast_arrays(n, pool, failure)
    widths = [
        _width(int(size), int(total), float(share))
        for size, total, share in zip(n.ravel(), pool.ravel(), failure.ravel(), strict=True)
    ]
    return rounded_up(np.array(widths, dtype=np.float64).reshape(n.shape))


def _width(n: int, pool: int, delta: float) -> float:
    """Smallest j/(n N) that the deviation exceeds with probability at most delta, by bisection."""
    low, high = -1, n * pool
    while high - low > 1:
        middle = (low + high) // 2
        # Slightly below delta, so that rounding in the sum can only widen the band.
        if _within(middle, n, pool, delta * (1.0 - 1e-10)):
            high = middle
        else:
            low = middle
    return high / (n * pool)


def _within(limit: int, n: int, pool: int, most: float) -> bool:
    """P(some b has b n - H_b N > limit) <= most, walking down the pool from its worst client."""
    held = np.arange(n + 1)
    weight = np.zeros(n + 1)
    weight[0] = 1.0
    lost = 0.0
    for worst in range(1, pool + 1):
        taken = weight * (n - held) / (pool - worst + 1)
        weight = weight - taken
        weight[1:] += taken[:-1]
        too_low = worst * n - held * pool > limit
        lost += float(weight[too_low].sum())
        weight[too_low] = 0.0
        if lost > most:
            return False
    return True
