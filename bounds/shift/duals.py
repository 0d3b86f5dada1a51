"""Four kinds of balls of populations around the scored one, and bounds on the mean over each.

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
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, rounded_up

__all__ = ["DUALS", "Dual", "points_in"]

# (array, point) -> array, and so on: everything broadcasts, points on the first axis.
_Transform = Callable[[Array, Array], Array]
_Bound = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class Dual:
    """One kind of ball of populations, in the terms of its dual.

    Attributes
    ----------
    radius_name : str
        Name of the radius in calculators.
    scores : callable
        ``(losses, point) -> Z`` in [0, 1], rounded up.
    value : callable
        ``(P-mean of Z, radius, point) -> bound`` on the ball's mean; rises with mean and ball.
    needed : callable
        ``(bound, radius, point) -> mean`` of Z at which ``value`` reaches the bound.
    radius : callable
        ``(name, radius) -> array``, or an error.
    radius_at : callable
        Maps a place in [0, 1) to a radius: no shift at 0, ever wider balls towards 1.
    points_name : str
        Name of the grid in calculators.
    points : tuple of float
        Default grid.
    points_legal : str
        What a grid must be, in words.
    points_in : callable
        Which points are legal.
    """

    radius_name: str
    scores: _Transform
    value: _Bound
    needed: _Bound
    radius: Callable[[str, ArrayLike], Array]
    radius_at: Callable[[Array], Array]
    points_name: str
    points: tuple[float, ...]
    points_legal: str
    points_in: Callable[[Array], NDArray[np.bool_]]


def _excess(losses: Array, t: Array) -> Array:
    return np.minimum(rounded_up(np.maximum(losses - t, 0.0) / (1.0 - t)), 1.0)


def _squared_excess(losses: Array, t: Array) -> Array:
    return np.minimum(rounded_up(np.square(_excess(losses, t))), 1.0)


def _exponential(losses: Array, temperature: Array) -> Array:
    return np.minimum(rounded_up(np.expm1(temperature * losses) / np.expm1(temperature)), 1.0)


def _tv_value(mean: Array, radius: Array, t: Array) -> Array:
    return rounded_up(t + (1.0 - t) * (mean + radius))


def _kl_value(mean: Array, radius: Array, temperature: Array) -> Array:
    return rounded_up((radius + np.log1p(np.expm1(temperature) * mean)) / temperature)


def _chi2_value(mean: Array, radius: Array, t: Array) -> Array:
    return rounded_up(t + (1.0 - t) * np.sqrt((1.0 + radius) * mean))


def _subgroup_value(mean: Array, share: Array, t: Array) -> Array:
    return rounded_up(t + (1.0 - t) / share * mean)


def _tv_needed(value: Array, radius: Array, t: Array) -> Array:
    return np.asarray((value - t) / (1.0 - t) - radius)


def _kl_needed(value: Array, radius: Array, temperature: Array) -> Array:
    return np.asarray(np.expm1(temperature * value - radius) / np.expm1(temperature))


def _chi2_needed(value: Array, radius: Array, t: Array) -> Array:
    return np.asarray(np.square(np.maximum(value - t, 0.0) / (1.0 - t)) / (1.0 + radius))


def _subgroup_needed(value: Array, share: Array, t: Array) -> Array:
    return np.asarray(share * (value - t) / (1.0 - t))


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
            value=_tv_value,
            needed=_tv_needed,
            radius=lambda name, value: checks.interval(name, value, 0.0, 1.0),
            radius_at=lambda place: place,
            points_name="thresholds",
            points=(0.0, 0.05, 0.1, 0.15, 0.2),
            points_legal=_GRID.format("of at least 0 and below 1"),
            points_in=lambda t: (t >= 0) & (t < 1),
        ),
        "kl": Dual(
            radius_name="radius",
            scores=_exponential,
            value=_kl_value,
            needed=_kl_needed,
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
            scores=_squared_excess,
            value=_chi2_value,
            needed=_chi2_needed,
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
            value=_subgroup_value,
            needed=_subgroup_needed,
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
