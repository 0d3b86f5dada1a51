"""Bounds from wealth that is not monotone in the risk it is won against: a fixed grid of risks.

Nulls are one-sided, "the risk is at least g", for g on the grid 0, 1/10000, ..., 1, and the bound
is one step above the largest g that is not refused.  Proof: if the risk were above the bound, let
g' be the largest grid point at or below the risk.  Then g' is at least the bound, so it is refused;
but its null is true, and a true null is refused with probability at most delta.  One null counts,
so no union is paid.  The smallest refused point is proved at 2 delta only: so points are looked at
from the top, all of them, down to the first that is not refused; of a span of points it may be
proved at once that none is kept (:func:`latecomer.bounds.held_out.star.highest_unsure`).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds.certificate import Array

__all__ = ["STEPS", "allowance", "each_sample", "last_kept"]

STEPS = 10_000
_EPS = float(np.finfo(np.float64).eps)
# Wealths that a block of grid points holds at most, and at least: a step through a smaller block
# costs as much as through this one.
_LARGEST_BLOCK, _LEAST_BLOCK = 2**16, 2**10


def allowance(n: int) -> float:
    """Return what rounding can add to the log wealth of ``n`` bets; no risk is refused by less."""
    return 16.0 * (n + 8) * _EPS


def last_kept(
    refused: Callable[[Array], NDArray[np.bool_]],
    *,
    top: int,
    floor: int = -1,
    width: int = 1,
) -> int:
    """Index of the largest grid point from ``top`` downwards that is not refused.

    Parameters
    ----------
    refused : callable
        Risks [G], falling -> whether each is refused.
    top, floor : int
        Grid points above ``top`` are refused, ``floor`` is not; -1 stands for "none is kept".
    width : int
        Wealths that ``refused`` holds for each grid point.
    """
    most, size = max(1, _LARGEST_BLOCK // width), max(1, _LEAST_BLOCK // width)
    while top > floor:
        points = np.arange(top, max(top - size, floor), -1)
        kept = ~refused(points / STEPS)
        if kept.any():
            return int(points[kept.argmax()])
        top, size = int(points[-1]) - 1, min(2 * size, most)
    return floor


def each_sample(
    bound: Callable[..., float | Array],
    ordered: Array,
    *settings: Array,
    found: tuple[int, ...] = (),
) -> Array:
    """``bound(scores [M, k], setting, ...)`` for all leading axes, broadcast against each other.

    ``found`` is the shape of what it returns.
    """
    shape = np.broadcast_shapes(ordered.shape[:-2], *(one.shape for one in settings))
    samples = np.broadcast_to(ordered, (*shape, *ordered.shape[-2:]))
    given = [np.broadcast_to(one, shape) for one in settings]
    values = np.array(
        [bound(samples[at], *(float(one[at]) for one in given)) for at in np.ndindex(*shape)]
    )
    return np.asarray(values.reshape((*shape, *found)))
