"""Grids of a ball's dual with most of their weight near the radii that are planned.

A mixture over a grid pays for every point that is of no use at the radius in question.  Where radii
are settled before the scores are seen, so are the points that are best there: those that are best
for populations as they often are, with as many hopeless clients as may go unseen.  A small weight
stays on the ball's own grid, so that the curve is of use at all other radii too; it is valid at all
of them whatever the weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array
from latecomer.bounds.shift.duals import DUALS, Dual

__all__ = ["Grid", "planned_grid"]

EXPECTED = (0.05, 0.15, 0.3)
"""Mean losses that a plan has in mind unless it says which."""
MOST_RADII = 4
"""Most radii that points are made for."""
PLANNED = 0.8
"""Weight of the points near the planned radii, all together."""
TRIED = {
    "kl": np.geomspace(0.05, 40.0, 300),
    "tv": np.linspace(0.0, 0.95, 191),
    "chi2": 1.0 - np.geomspace(0.05, 30.0, 400),
    "subgroup": np.linspace(0.0, 0.95, 191),
}
"""A fine grid of each ball's points."""
# Expected populations spread by this share of their mean.
_SPREAD = 0.6
_QUANTILES = (np.arange(25) + 0.5) / 25


@dataclass(frozen=True)
class Grid:
    """Points of a ball's dual, and weights that sum to 1."""

    points: tuple[float, ...]
    weights: tuple[float, ...]


def planned_grid(
    *,
    ball: str,
    radii: ArrayLike,
    n_clients: int,
    delta: float,
    expected: Sequence[float] = EXPECTED,
) -> Grid:
    """Points that are best at planned radii for expected means, beside the ball's own grid.

    An expected population has Beta losses of that mean and .6 times its spread, and a share
    1 - delta^(1/k) of hopeless clients, which k clients leave unseen with probability delta.

    Parameters
    ----------
    ball : {"kl", "tv", "chi2", "subgroup"}
    radii : array_like
        Radii (shares for ``subgroup``) settled beforehand; of more than four, four between the
        smallest and the largest.  Without one beyond no shift the ball's own grid is returned, by
        equal weights.
    n_clients : int, at least 1
    delta : float, in (0, 1)
    expected : sequence of float, in (0, 1)
        Mean losses that one plans with.

    Returns
    -------
    Grid
        For ``points`` and ``weights`` of :func:`latecomer.bounds.shift.ball_mixture.ball_mixture`.

    Examples
    --------
    >>> grid = planned_grid(ball="kl", radii=[0.1], n_clients=30, delta=0.05, expected=[0.2])
    >>> round(grid.points[0], 2), grid.weights[0], len(grid.points)
    (1.4, 0.8, 14)
    """
    dual = DUALS[checks.one_of("ball", ball, tuple(DUALS))]
    reach = np.unique(dual.radius("radii", radii))
    k = checks.one_count("n_clients", n_clients)
    failure = float(checks.failure_probability("delta", delta))
    means = np.atleast_1d(checks.between("expected", expected, 0.0, 1.0))
    own, none = dual.points, float(dual.radius_at(np.array(0.0)))
    beyond = reach[reach != none]
    if beyond.size > MOST_RADII:
        beyond = beyond[np.linspace(0, beyond.size - 1, MOST_RADII).round().astype(int)]
    near = sorted(
        {
            _best(dual, TRIED[ball], float(radius), float(mean), failure ** (1.0 / k))
            for radius in beyond
            for mean in means
        }
    )
    if not near:
        return Grid(own, (1.0 / len(own),) * len(own))
    beside = (1.0 - PLANNED) / len(own)
    return Grid((*near, *own), (*[PLANNED / len(near)] * len(near), *[beside] * len(own)))


def _best(dual: Dual, tried: Array, radius: float, mean: float, seen: float) -> float:
    """Return the point whose bound is least for an expected population at a radius."""
    scale = mean * (1.0 - mean) / (_SPREAD * mean) ** 2 - 1.0
    scale = max(scale, 1.0)
    quantiles = scipy.special.betaincinv(mean * scale, (1.0 - mean) * scale, _QUANTILES)
    losses = np.append(quantiles, 1.0)
    shares = np.append(np.full(_QUANTILES.size, seen / _QUANTILES.size), 1.0 - seen)
    means = (dual.scores(losses, tried[:, None]) * shares).sum(axis=-1)
    return float(tried[np.argmin(dual.value(means, np.array(radius), tried))])
