"""Four kinds of balls of populations, their duals, and the grids that a dual is searched on.

Scored clients were drawn from law P, clients to come are drawn from law Q.  For every Q within a
radius of P, and every point of a grid, the mean loss under Q is at most a function of the radius
and of the P-mean of a score in [0, 1], made from the loss at that point (weak duality):

* ``tv``: TV(P, Q) <= r.  L <= max(L, t) = t + (1 - t) Z with Z = (L - t)_+ / (1 - t), and
  E_Q Z <= E_P Z + r, since Z has range 1.
* ``kl``: KL(Q || P) <= r.  Donsker and Varadhan: l E_Q L <= r + ln E_P e^(l L), and
  e^(l L) = 1 + (e^l - 1) Z with Z = (e^(l L) - 1) / (e^l - 1).
* ``chi2``: chi2(Q || P) <= r.  As for tv, Y for Z, and E_Q Y <= sqrt(E_P (dQ/dP)^2) sqrt(E_P Y^2),
  whose first factor is at most sqrt(1 + r); Z = Y^2.  Points below 0 help at small radii.
* ``subgroup``: dQ/dP <= 1/s, which covers every group of clients of share at least s.  As for tv,
  and E_Q Z <= E_P Z / s.

Nothing depends on how clients were sampled: where P is uniform on a finite pool, Q weights its
clients differently.

A mixture over a grid pays for every point that is of no use at the radius in question.  Where radii
are settled before the scores are seen, so are the points that are best there: those that are best
for populations as they often are, with as many hopeless clients as may go unseen.  A small weight
stays on the ball's own grid, so that the curve is of use at all other radii too; it is valid at all
of them whatever the weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, rounded_up

# (array, point) -> array, and so on: everything broadcasts, points on the first axis.
_Transform = Callable[[Array, Array], Array]
_Bound = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class Dual:
    """One kind of ball of populations, in the terms of its dual."""

    radius_name: str  # name of the radius in calculators
    scores: _Transform  # ``(losses, point) -> Z`` in [0, 1], rounded up
    # ``(P-mean of Z, radius, point) -> bound`` on the ball's mean; rises with mean and ball.
    value: _Bound
    needed: _Bound  # ``(bound, radius, point) -> mean`` of Z at which ``value`` reaches the bound
    radius: Callable[[str, ArrayLike], Array]  # ``(name, radius) -> array``, or an error
    # Maps a place in [0, 1) to a radius: no shift at 0, ever wider balls towards 1.
    radius_at: Callable[[Array], Array]
    points_name: str  # name of the grid in calculators
    points: tuple[float, ...]  # default grid
    points_legal: str  # what a grid must be, in words
    points_in: Callable[[Array], NDArray[np.bool_]]  # which points are legal


def _excess(losses: Array, t: Array) -> Array:
    return np.minimum(rounded_up(np.maximum(losses - t, 0.0) / (1.0 - t)), 1.0)


def _share(name: str, value: ArrayLike) -> Array:
    legal = "must be a share of clients above 0 and at most 1"
    share = checks.real(name, value, legal=legal)
    wrong = (share <= 0) | (share > 1)
    if wrong.any():
        raise ValueError(f"{name} {legal}, got {name}={float(share[wrong].ravel()[0]):g}")
    return share


_GRID = "must list at least one number {}, all fixed beforehand"
# The best points at useful radii lie on these grids; longer grids cost more than they gain.
DUALS: Mapping[str, Dual] = MappingProxyType(
    {
        "tv": Dual(
            radius_name="radius",
            scores=_excess,
            value=lambda mean, radius, t: rounded_up(t + (1.0 - t) * (mean + radius)),
            needed=lambda value, radius, t: np.asarray((value - t) / (1.0 - t) - radius),
            radius=lambda name, value: checks.interval(name, value, 0.0, 1.0),
            radius_at=lambda place: place,
            points_name="thresholds",
            points=(0.0, 0.05, 0.1, 0.15, 0.2),
            points_legal=_GRID.format("of at least 0 and below 1"),
            points_in=lambda t: (t >= 0) & (t < 1),
        ),
        "kl": Dual(
            radius_name="radius",
            scores=lambda losses, temperature: np.minimum(
                rounded_up(np.expm1(temperature * losses) / np.expm1(temperature)), 1.0
            ),
            value=lambda mean, radius, temperature: rounded_up(
                (radius + np.log1p(np.expm1(temperature) * mean)) / temperature
            ),
            needed=lambda value, radius, temperature: np.asarray(
                np.expm1(temperature * value - radius) / np.expm1(temperature)
            ),
            radius=checks.nonnegative,
            radius_at=lambda place: -np.log1p(-place),
            points_name="temperatures",
            points=tuple(0.5 * 2.0 ** (0.25 * j) for j in range(13)),
            # Smaller ones would be rounded to 0 within the value.
            points_legal=_GRID.format("of at least 1e-290 and at most 700"),
            points_in=lambda t: (t >= 1e-290) & (t <= 700),
        ),
        "chi2": Dual(
            radius_name="radius",
            scores=lambda losses, t: np.minimum(rounded_up(np.square(_excess(losses, t))), 1.0),
            value=lambda mean, radius, t: rounded_up(
                t + (1.0 - t) * np.sqrt((1.0 + radius) * mean)
            ),
            needed=lambda value, radius, t: np.asarray(
                np.square(np.maximum(value - t, 0.0) / (1.0 - t)) / (1.0 + radius)
            ),
            radius=checks.nonnegative,
            radius_at=lambda place: place / (1.0 - place),
            points_name="thresholds",
            points=(-2.0, -0.5, 0.0, 0.1, 0.2),
            # Far below 0, t cancels more digits of the other term than rounding up restores.
            points_legal=_GRID.format("of at least -1000 and below 1"),
            points_in=lambda t: (t >= -1000) & (t < 1),
        ),
        "subgroup": Dual(
            radius_name="share",
            scores=_excess,
            value=lambda mean, share, t: rounded_up(t + (1.0 - t) / share * mean),
            needed=lambda value, share, t: np.asarray(share * (value - t) / (1.0 - t)),
            radius=_share,
            radius_at=lambda place: 1.0 - place,
            points_name="thresholds",
            points=(0.0, 0.1, 0.2, 0.3, 0.4),
            points_legal=_GRID.format("of at least 0 and below 1"),
            points_in=lambda t: (t >= 0) & (t < 1),
        ),
    }
)


def points_in(dual: Dual, name: str, points: ArrayLike | None) -> Array:
    """Return a grid [J] of at least one legal point; the dual's own where none is given."""
    legal = dual.points_legal
    grid = checks.real(name, dual.points if points is None else points, legal=legal)
    if grid.ndim != 1 or not grid.size:
        raise ValueError(f"{name} {legal}, got shape {grid.shape}")
    wrong = ~dual.points_in(grid)
    if wrong.any():
        index = int(np.argmax(wrong))
        raise ValueError(f"{name} {legal}, got {name}[{index}]={grid[index]:g}")
    return grid


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
        For ``points`` and ``weights`` of :func:`latecomer.bounds.shift.balls.ball_mixture`.

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
