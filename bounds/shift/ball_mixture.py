"""Balls of populations at a lower price: one bet on all points of the grid together.

A union pays ln J for a grid of J points although their scores are made from the same losses and
win or lose together.  Here the wealths that a rule wins on each point's scores are averaged before
anything is refused, which costs ln J only where a single point wins everything.

W_j(m) is the wealth that the bets win on point j's scores Z_j against the mean m, such as
prod (1 - Z_j) / (1 - m) for the product; m_j(v, r) is the mean of Z_j whose dual bound is v: for kl
(e^(l v - r) - 1) / (e^l - 1), for tv (v - t) / (1 - t) - r.  A value v is refused at radius r if
the average over j of W_j(m_j(v, r)), by weights fixed beforehand, passes 1/delta.

Proof.  Let m*_j be the true means and f(r) = min_j of the dual bounds at them, which the mean over
the ball does not exceed.  The average of W_j(m*_j) is a supermartingale that starts at 1, so with
probability 1 - delta it never passes 1/delta.  Bounds rise with the mean and f(r) is the least, so
m_j(f(r), r) <= m*_j for all j and **every r at once**.  Wealth rises with the mean, so f(r) is not
refused, and the values not refused form a half-line.

For bets that do not depend on delta (all but those of ``wsr_averaged``) and equal weights the
result is never above the union over the same grid, which needs one wealth to pass J/delta by
itself.  Weight near the points that are best at the radii of interest (``planned_grid``) lowers the
curve there.  Means are clipped to [0, 1], where the true ones lie.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, catalogued
from latecomer.bounds.held_out.bets import Bets, product_bets
from latecomer.bounds.held_out.betting import REALISED, bet_weights
from latecomer.bounds.shift.balls import issued
from latecomer.bounds.shift.duals import DUALS, Dual, points_in

__all__ = ["ball_mixture", "breaking_radius"]

_NOTHING_NEW = "Q has no kinds of clients that P lacks"
_APART = {
    "kl": "KL(Q || P) of the other population Q from this one, P, is at most the radius, in nats; "
    f"{_NOTHING_NEW}",
    "tv": "TV(Q, P) of the other population Q from this one, P, is at most the radius",
    "chi2": "chi2(Q || P) of the other population Q from this one, P, is at most the radius; "
    f"{_NOTHING_NEW}",
    "subgroup": "the clients meant are a group that makes up at least the share",
}

_EPS = float(np.finfo(np.float64).eps)
_HALVINGS = 48
_ASSUMED = (
    "the model, the bets, the grid and the number of clients were fixed before the first score",
    "one score in [0, 1] per held-out client, clients drawn as the bets ask",
)
Refused = Callable[[Array, Array], NDArray[np.bool_]]


def _bets(bets: Bets | None) -> Bets:
    if bets is None:
        return product_bets()
    if not isinstance(bets, Bets):
        raise TypeError(
            f"bets must be Bets, such as product_bets(), got bets={checks.written(bets)}"
        )
    return bets


def _weights(weights: ArrayLike | None, grid: Array) -> Array:
    """Return one weight a point, those given or equal ones."""
    if weights is None:
        return np.full(grid.size, 1.0 / grid.size)
    shares = bet_weights(None, weights)
    if shares.size != grid.size:
        raise ValueError(f"weights must be one a point ({grid.size}), got {shares.size}")
    if (shares <= 0).any():
        raise ValueError(f"weights must be above 0, got {float(shares.min()):g}")
    return shares


def _refusals(
    dual: Dual, scores: Array, failure: Array, grid: Array, weights: Array, bets: Bets
) -> Refused:
    """Return a function: (value, radius), of one shape -> whether the average wealth refuses it.

    Everything errs towards not refusing: scores are rounded up, the means that are bet against are
    lowered, and the wealth has to pass its mark by more than a sum's rounding.
    """
    k = scores.shape[-1]
    mark = -np.log(failure) + 4e-13 * (k + 8)
    # Point by point, so that a million clients' scores are not stored a dozen times.
    wealths = [bets.wealth(dual.scores(scores, point), failure) for point in grid]

    def refused(value: Array, radius: Array) -> NDArray[np.bool_]:
        each = []
        for point, share, log_wealth in zip(grid, weights, wealths, strict=True):
            needed = dual.needed(value - 8.0 * _EPS, radius, point)
            lowered = needed * (1.0 - 64.0 * _EPS) - 16.0 * (k + 8) * _EPS
            with np.errstate(divide="ignore", invalid="ignore"):
                won = log_wealth(np.clip(lowered, 0.0, 1.0))
            # A score of 1 loses everything, even against a mean of 1.
            each.append(np.where(np.isnan(won), -np.inf, won) + np.log(share))
        together = np.logaddexp.reduce(np.stack(each), axis=0)
        return np.asarray(together.max(axis=-1) > mark)

    return refused


@catalogued(
    family="population shift",
    claim="Mean over a ball of populations by bets averaged over the grid of its dual.",
    source="this project; weak duality, a mixture of bets and Ville's inequality",
    population="unseen-client",
    predictor="any",
    sampling="iid or finite-pool",
    assumptions=(
        *_ASSUMED,
        "KL(Q || P), TV(Q, P) or chi2(Q || P) of other clients' law Q from P is at most radius",
    ),
    vacuous_when="the radius exceeds what a share of hopeless clients that goes unseen allows",
)
def ball_mixture(
    *,
    losses: ArrayLike,
    radius: ArrayLike,
    delta: ArrayLike,
    ball: str = "kl",
    points: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    bets: Bets | None = None,
) -> Certificate:
    """Smallest v at which the average over points j of the wealth W_j(m_j(v, r)) passes 1/delta.

    Holds for every r at once.  The module's docstring defines W_j and m_j and has the proof.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, 1]
        For bets on a pool, in the order of sampling.
    radius : array_like
        KL(Q || P), TV(Q, P) or chi2(Q || P) of another population Q from the scored one, P; the
        share for ``subgroup``.  Broadcasts with the leading axes.
    delta : array_like, in (0, 1)
    ball : {"kl", "tv", "chi2", "subgroup"}
    points : array_like, optional
        Grid of thresholds (kl: temperatures), fixed beforehand; the ball's default unless given.
    weights : array_like, optional
        One above 0 for each of the points, which sum to 1, fixed beforehand; equal unless given.
    bets : Bets, optional
        From :mod:`latecomer.bounds.held_out.bets`, fixed beforehand; the product's unless given.

    Returns
    -------
    Certificate
        At most 1, shape of the leading axes broadcast with ``radius`` and ``delta``.

    Examples
    --------
    >>> curve = ball_mixture(losses=[0.1, 0.2] * 20, radius=[0.0, 0.1, 0.2], delta=0.05)
    >>> curve.value.round(4).tolist()
    [0.25, 0.3566, 0.4251]
    """
    dual = DUALS[checks.one_of("ball", ball, tuple(DUALS))]
    scores = checks.losses_in("losses", losses)
    reach = dual.radius("radius", radius)
    failure = checks.failure_probability("delta", delta)
    used = _bets(bets)
    grid = points_in(dual, "points", points)
    refused = _refusals(dual, scores, failure, grid, _weights(weights, grid), used)
    shape = np.broadcast_shapes(scores.shape[:-1], failure.shape, reach.shape)
    reach, none = np.broadcast_to(reach, shape), dual.radius_at(np.array(0.0))
    if scores.ndim == 1 and failure.ndim == 0:
        # No shift is one search beside those of all radii, not one each.
        found = _least(refused, np.append(reach, none))
        value, unshifted = found[:-1].reshape(shape), np.broadcast_to(found[-1], shape)
    else:
        value, unshifted = _least(refused, np.stack([reach, np.broadcast_to(none, shape)]))
    mean = np.broadcast_to(scores.mean(axis=-1), shape)
    assumed = (*_ASSUMED, apart(ball), *((REALISED,) if used.realised else ()))
    return issued("ball_mixture", mean, unshifted, value, failure, used.sampling, assumed)


def apart(ball: str) -> str:
    """Say how far the other population may lie from the scored one: an assumption of every ball.

    Examples
    --------
    >>> apart("tv")
    'TV(Q, P) of the other population Q from this one, P, is at most the radius'
    """
    return _APART[checks.one_of("ball", ball, tuple(_APART))]


def _least(refused: Refused, radius: Array) -> Array:
    """Smallest refused value at a radius, the refused end of its bracket; 1 if there is none."""
    low, high = np.zeros(radius.shape), np.ones(radius.shape)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        wrong = refused(middle, radius)
        high, low = np.where(wrong, middle, high), np.where(wrong, low, middle)
    return high


@catalogued(
    family="population shift",
    claim="Largest radius at which a certificate over a ball of populations is below a target.",
    source="this project; ball_mixture holds for all radii at once",
    assumptions=(*_ASSUMED, "the target may be chosen afterwards: the curve holds for all radii"),
    vacuous_when="NaN: the certificate is at or above the target without any shift",
)
def breaking_radius(
    *,
    losses: ArrayLike,
    target: ArrayLike,
    delta: ArrayLike,
    ball: str = "kl",
    points: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    bets: Bets | None = None,
) -> Array:
    """Largest r at which :func:`ball_mixture` refuses the target; for ``subgroup`` the least share.

    How different may the next population be before the certificate says nothing of the target?
    With probability 1 - delta every population within r has a mean below the target.  r is the
    refused end of its bracket, so that the statement holds.

    Parameters
    ----------
    losses, delta, ball, points, weights, bets
        As for :func:`ball_mixture`.
    target : array_like, in (0, 1)
        Mean loss.

    Returns
    -------
    ndarray
        NaN where not even the scored population itself is certified to be below the target.

    Examples
    --------
    >>> radii = breaking_radius(losses=[0.1, 0.2] * 20, target=[0.15, 0.3, 0.4], delta=0.05)
    >>> radii.round(4).tolist()
    [nan, 0.0396, 0.1601]
    """
    dual = DUALS[checks.one_of("ball", ball, tuple(DUALS))]
    scores = checks.losses_in("losses", losses)
    aim = checks.between("target", target, 0.0, 1.0)
    failure = checks.failure_probability("delta", delta)
    grid = points_in(dual, "points", points)
    refused = _refusals(dual, scores, failure, grid, _weights(weights, grid), _bets(bets))
    shape = np.broadcast_shapes(scores.shape[:-1], failure.shape, aim.shape)
    aim = np.broadcast_to(aim, shape)
    return widest(lambda reach: refused(aim, reach), dual.radius_at, shape)


def widest(
    below: Callable[[Array], NDArray[np.bool_]],
    radius_at: Callable[[Array], Array],
    shape: tuple[int, ...],
) -> Array:
    """Widest radius that ``below`` accepts, NaN where it does not accept even a shift of 0."""
    low, high = np.zeros(shape), np.ones(shape)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        legal = below(radius_at(middle))
        low, high = np.where(legal, middle, low), np.where(legal, high, middle)
    radius = radius_at(low)
    return np.asarray(np.where(below(radius), radius, np.nan))
