"""Balls of populations: the mean over clients to come, some given distance from the scored ones.

Every point of a grid fixed beforehand turns the losses into scores in [0, 1], any rule for a mean
bounds their mean at delta / J for J points, and duality turns each bound into one on the mean over
the ball (:mod:`latecomer.bounds.shift.duals` has the proofs).  The J bounds hold at once with
probability 1 - delta, whatever the radius, so the smallest holds **for all radii at once**: radii
given as an array are one certified curve, and any of them may be picked afterwards.

``ball_mixture`` pays less for the same grid.

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
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import (
    CATALOGUE,
    Array,
    Certificate,
    catalogued,
    certificate,
    halved,
    priced,
    rounded_up,
)
from latecomer.bounds.held_out.bets import Bets, product_bets
from latecomer.bounds.held_out.betting import REALISED, bet_weights
from latecomer.bounds.held_out.counting import dkw_band
from latecomer.bounds.held_out.losses import product
from latecomer.bounds.shift.duals import DUALS, Dual, points_in

__all__ = [
    "MeanRule",
    "ball_mixture",
    "breaking_radius",
    "chi2_ball",
    "dkw_ball",
    "kl_ball",
    "subgroup",
    "tv_ball",
]

MeanRule = Callable[..., Certificate]
ball_catalogued = partial(
    catalogued,
    family="population shift",
    population="unseen-client",
    predictor="any",
    sampling="iid or finite-pool",
)
_ASSUMED = (
    "the model, the rule, the grid and the number of clients were fixed before the first score",
    "one score in [0, 1] per held-out client, clients drawn as the rule asks",
)
_SOURCE = "this project; weak duality of {}"


def stacked(losses: Array, points: Array, n_dims: int) -> tuple[Array, Array]:
    """Return points [J, ...] and losses [J, ..., k], where ... stands for ``n_dims`` axes."""
    lead = losses.ndim - 1
    grid = points.reshape(-1, *(1,) * n_dims)
    each = losses.reshape(*(1,) * (n_dims - lead), *losses.shape)
    return grid, np.broadcast_to(each[None], (points.size, *each.shape))


def _ball(
    name: str,
    ball: str,
    losses: ArrayLike,
    radius: ArrayLike,
    delta: ArrayLike,
    points: ArrayLike,
    rule: MeanRule | None,
) -> Certificate:
    """Take the smallest bound of the grid; the rule gets delta / J for each of J points."""
    dual = DUALS[ball]
    scores = checks.losses_in("losses", losses)
    reach = dual.radius(dual.radius_name, radius)
    failure = checks.failure_probability("delta", delta)
    grid = points_in(dual, dual.points_name, points)
    if rule is not None and not callable(rule):
        raise TypeError(
            f"rule must be a calculator of losses and delta, got rule={checks.written(rule)}"
        )
    shape = np.broadcast_shapes(scores.shape[:-1], failure.shape, reach.shape)
    on_axis, each = stacked(scores, grid, len(shape))
    of_points = (rule or product)(
        losses=dual.scores(each, on_axis[..., None]), delta=failure / grid.size
    )
    whole = np.minimum(dual.value(of_points.value, dual.radius_at(np.array(0.0)), on_axis), 1.0)
    value = dual.value(of_points.value, reach, on_axis).min(axis=0) + np.zeros(shape)
    mean, unshifted = scores.mean(axis=-1), whole.min(axis=0)
    assumed = (*CATALOGUE[name].assumptions, *of_points.assumptions)
    return issued(name, mean, unshifted, value, failure, of_points.sampling, assumed)


def issued(
    name: str,
    mean: Array,
    unshifted: Array,
    value: Array,
    failure: Array,
    sampling: str,
    assumed: tuple[str, ...],
) -> Certificate:
    """Make the certificate: the sampled mean, the price without a shift, what the shift adds."""
    return certificate(
        name,
        value=value,
        terms={"empirical_risk": mean, "price": unshifted - mean, "shift": value - unshifted},
        delta=MappingProxyType({"clients": failure}),
        sampling=sampling,
        assumptions=tuple(dict.fromkeys(assumed)),
    )


def started_at(curve: Certificate, unshifted: NDArray[np.bool_], own: float) -> Certificate:
    """Start a certificate along radii from the mean's own, below which no shift takes it.

    Where ``unshifted`` is true, the population is the scored one and the value becomes ``own``, a
    certificate of its mean at the same delta: a statement of its own.  The others still hold
    together, since none is lowered.

    Examples
    --------
    >>> curve = kl_ball(losses=[0.1] * 40, radius=[0.0, 0.1], delta=0.05)
    >>> found = started_at(curve, np.array([True, False]), 0.17)
    >>> found.value.round(3).tolist(), found.terms["shift"].round(3).tolist()
    ([0.17, 0.347], [0.0, 0.177])
    """
    value = np.where(unshifted, own, np.maximum(curve.value, own))
    mean = np.broadcast_to(curve.terms["empirical_risk"], value.shape)
    terms = {"empirical_risk": mean, "price": own - mean, "shift": value - own}
    return replace(curve, value=value, terms=MappingProxyType(terms))


@ball_catalogued(
    claim="Mean over every population Q with TV(Q, P) at most a radius, P the scored one.",
    source=_SOURCE.format("a bounded score"),
    assumptions=(*_ASSUMED, "TV between the two laws of clients is at most radius"),
    vacuous_when="the radius and the price of the mean together reach 1 minus the mean",
)
def tv_ball(
    *,
    losses: ArrayLike,
    radius: ArrayLike,
    delta: ArrayLike,
    thresholds: ArrayLike = (0.0, 0.1, 0.2, 0.3),
    rule: MeanRule | None = None,
) -> Certificate:
    """E_Q L <= min_t t + (1 - t) (U((L - t)_+ / (1 - t)) + e) for every Q with TV(P, Q) <= e.

    Proof: L <= max(L, t) = t + (1 - t) Z with Z in [0, 1], so E_Q Z <= E_P Z + e; U at delta / J
    bounds E_P Z for all J thresholds at once, and no step depends on e.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, 1]
    radius : array_like
        Total variation e in [0, 1]; broadcasts with the leading axes.  All radii hold at once.
    delta : array_like, in (0, 1)
    thresholds : array_like
        Grid of t in [0, 1), at least one, fixed beforehand.
    rule : callable, optional
        ``rule(losses=..., delta=...)`` bounds a mean, such as ``product`` (the default) or
        ``partial(product_wor, pool_size=60)``; fixed beforehand.

    Examples
    --------
    >>> curve = tv_ball(losses=[0.1, 0.2] * 20, radius=[0.0, 0.1, 0.2], delta=0.05)
    >>> curve.value.round(4).tolist()
    [0.2395, 0.3295, 0.4195]
    """
    return _ball("tv_ball", "tv", losses, radius, delta, thresholds, rule)


@ball_catalogued(
    claim="Mean over every population Q with KL(Q || P) at most a radius, P the scored one.",
    source=_SOURCE.format("Donsker and Varadhan"),
    assumptions=(*_ASSUMED, "KL(Q || P) of the two laws of clients is at most radius, in nats"),
    vacuous_when="the radius exceeds about ln(1/p), p the share of clients that may be hopeless",
)
def kl_ball(
    *,
    losses: ArrayLike,
    radius: ArrayLike,
    delta: ArrayLike,
    temperatures: ArrayLike = (0.5, 1.0, 2.0, 4.0, 8.0),
    rule: MeanRule | None = None,
) -> Certificate:
    """E_Q L <= min_l (r + ln(1 + (e^l - 1) U(Z_l))) / l for every Q with KL(Q || P) <= r.

    Z_l = (e^(l L) - 1) / (e^l - 1) lies in [0, 1].  Proof: Donsker and Varadhan's inequality,
    l E_Q L <= KL(Q || P) + ln E_P e^(l L), with U at delta / J for all J temperatures at once.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, 1]
    radius : array_like
        KL(Q || P) in nats, at least 0; broadcasts with the leading axes.  All radii hold at once.
    delta : array_like, in (0, 1)
    temperatures : array_like
        Grid of l in [1e-290, 700], at least one, fixed beforehand.
    rule : callable, optional
        ``rule(losses=..., delta=...)`` bounds a mean; ``product`` unless given.

    Examples
    --------
    >>> curve = kl_ball(losses=[0.1, 0.2] * 20, radius=[0.0, 0.1, 0.2], delta=0.05)
    >>> curve.value.round(4).tolist()
    [0.2635, 0.3877, 0.4501]
    """
    return _ball("kl_ball", "kl", losses, radius, delta, temperatures, rule)


@ball_catalogued(
    claim="Mean over every population Q with chi2(Q || P) at most a radius, P the scored one.",
    source=_SOURCE.format("Cauchy and Schwarz"),
    assumptions=(*_ASSUMED, "chi2(Q || P) of the two laws of clients is at most radius"),
    vacuous_when="1 + radius exceeds one over the share of clients that may be hopeless",
)
def chi2_ball(
    *,
    losses: ArrayLike,
    radius: ArrayLike,
    delta: ArrayLike,
    thresholds: ArrayLike = (-2.0, -0.5, 0.0, 0.1, 0.2),
    rule: MeanRule | None = None,
) -> Certificate:
    """E_Q L <= min_t t + (1 - t) sqrt((1 + r) U(Z_t)) for every Q with chi2(Q || P) <= r.

    Z_t = ((L - t)_+ / (1 - t))^2.  Proof: with Y = (L - t)_+ / (1 - t), L <= t + (1 - t) Y and
    E_Q Y = E_P (dQ/dP) Y <= sqrt(E_P (dQ/dP)^2 E_P Y^2), whose first factor is 1 + chi2(Q || P);
    U at delta / J for all J thresholds at once.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, 1]
    radius : array_like
        chi2(Q || P), at least 0; broadcasts with the leading axes.  All radii hold at once.
    delta : array_like, in (0, 1)
    thresholds : array_like
        Grid of t in [-1000, 1), at least one, fixed beforehand; points below 0 help at small
        radii.
    rule : callable, optional
        ``rule(losses=..., delta=...)`` bounds a mean; ``product`` unless given.

    Examples
    --------
    >>> curve = chi2_ball(losses=[0.1, 0.2] * 20, radius=[0.0, 0.1, 0.2], delta=0.05)
    >>> curve.value.round(4).tolist()
    [0.2595, 0.3288, 0.3657]
    """
    return _ball("chi2_ball", "chi2", losses, radius, delta, thresholds, rule)


@ball_catalogued(
    claim="Mean over every group of clients that makes up at least a share of the population.",
    source=_SOURCE.format("a bounded density"),
    assumptions=(*_ASSUMED, "the group makes up at least that share of the population"),
    vacuous_when="the share is below about the price of the mean",
)
def subgroup(
    *,
    losses: ArrayLike,
    share: ArrayLike,
    delta: ArrayLike,
    thresholds: ArrayLike = (0.0, 0.1, 0.2, 0.3),
    rule: MeanRule | None = None,
) -> Certificate:
    """E_Q L <= min_t t + ((1 - t) / s) U((L - t)_+ / (1 - t)) for every Q with dQ/dP <= 1/s.

    This covers every group of clients of share at least s, whoever belongs to it, named or not.
    Proof: L <= t + (1 - t) Z with Z >= 0, and E_Q Z = E_P (dQ/dP) Z <= E_P Z / s; U at delta / J
    for all J thresholds at once.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, 1]
    share : array_like
        Share s in (0, 1]; broadcasts with the leading axes.  All shares hold at once.
    delta : array_like, in (0, 1)
    thresholds : array_like
        Grid of t in [0, 1), at least one, fixed beforehand.
    rule : callable, optional
        ``rule(losses=..., delta=...)`` bounds a mean; ``product`` unless given.

    Examples
    --------
    >>> curve = subgroup(losses=[0.1, 0.2] * 20, share=[1.0, 0.5, 0.2], delta=0.05)
    >>> curve.value.round(4).tolist()
    [0.2395, 0.366, 0.6151]
    """
    return _ball("subgroup", "subgroup", losses, share, delta, thresholds, rule)


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
_ASSUMED_OF_MIXTURES = (
    "the model, the bets, the grid and the number of clients were fixed before the first score",
    "one score in [0, 1] per held-out client, clients drawn as the bets ask",
)
Refused = Callable[[Array, Array], NDArray[np.bool_]]


def _asked(ball: str, losses: ArrayLike, delta: ArrayLike) -> tuple[Dual, Array, Array]:
    dual = DUALS[checks.one_of("ball", ball, tuple(DUALS))]
    scores, failure, _ = checks.scored(losses, delta)
    return dual, scores, failure


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
    dual: Dual,
    scores: Array,
    failure: Array,
    points: ArrayLike | None,
    weights: ArrayLike | None,
    bets: Bets,
) -> Refused:
    """Return a function: (value, radius), of one shape -> whether the average wealth refuses it.

    Everything errs towards not refusing: scores are rounded up, the means that are bet against are
    lowered, and the wealth has to pass its mark by more than a sum's rounding.
    """
    grid = points_in(dual, "points", points)
    shares = _weights(weights, grid)
    k = scores.shape[-1]
    mark = -np.log(failure) + 4e-13 * (k + 8)
    # Point by point, so that a million clients' scores are not stored a dozen times.
    wealths = [bets.wealth(dual.scores(scores, point), failure) for point in grid]

    def refused(value: Array, radius: Array) -> NDArray[np.bool_]:
        each = []
        for point, share, log_wealth in zip(grid, shares, wealths, strict=True):
            needed = dual.needed(value - 8.0 * _EPS, radius, point)
            lowered = needed * (1.0 - 64.0 * _EPS) - 16.0 * (k + 8) * _EPS
            with np.errstate(divide="ignore", invalid="ignore"):
                won = log_wealth(np.clip(lowered, 0.0, 1.0))
            # A score of 1 loses everything, even against a mean of 1.
            each.append(np.where(np.isnan(won), -np.inf, won) + np.log(share))
        together = np.logaddexp.reduce(np.stack(each), axis=0)
        return np.asarray(together.max(axis=-1) > mark)

    return refused


@ball_catalogued(
    claim="Mean over a ball of populations by bets averaged over the grid of its dual.",
    source="this project; weak duality, a mixture of bets and Ville's inequality",
    assumptions=(
        *_ASSUMED_OF_MIXTURES,
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
    dual, scores, failure = _asked(ball, losses, delta)
    reach = dual.radius("radius", radius)
    used = _bets(bets)
    refused = _refusals(dual, scores, failure, points, weights, used)
    shape = np.broadcast_shapes(scores.shape[:-1], failure.shape, reach.shape)
    reach, none = np.broadcast_to(reach, shape), dual.radius_at(np.array(0.0))
    if scores.ndim == 1 and failure.ndim == 0:
        # No shift is one search beside those of all radii, not one each.
        found = _least(refused, np.append(reach, none))
        value, unshifted = found[:-1].reshape(shape), np.broadcast_to(found[-1], shape)
    else:
        value, unshifted = _least(refused, np.stack([reach, np.broadcast_to(none, shape)]))
    mean = np.broadcast_to(scores.mean(axis=-1), shape)
    assumed = (*_ASSUMED_OF_MIXTURES, apart(ball), *((REALISED,) if used.realised else ()))
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
    ends = np.zeros(radius.shape), np.ones(radius.shape)
    return halved(*ends, _HALVINGS, lambda value: refused(value, radius))[1]


@catalogued(
    family="population shift",
    claim="Largest radius at which a certificate over a ball of populations is below a target.",
    source="this project; ball_mixture holds for all radii at once",
    assumptions=(
        *_ASSUMED_OF_MIXTURES,
        "the target may be chosen afterwards: the curve holds for all radii",
    ),
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
    dual, scores, failure = _asked(ball, losses, delta)
    aim = checks.between("target", target, 0.0, 1.0)
    refused = _refusals(dual, scores, failure, points, weights, _bets(bets))
    shape = np.broadcast_shapes(scores.shape[:-1], failure.shape, aim.shape)
    aim = np.broadcast_to(aim, shape)
    return widest(lambda reach: refused(aim, reach), dual.radius_at, shape)


def widest(
    below: Callable[[Array], NDArray[np.bool_]],
    radius_at: Callable[[Array], Array],
    shape: tuple[int, ...],
) -> Array:
    """Widest radius that ``below`` accepts, NaN where it does not accept even a shift of 0."""
    ends = np.zeros(shape), np.ones(shape)
    radius = radius_at(halved(*ends, _HALVINGS, lambda place: ~below(radius_at(place)))[0])
    return np.asarray(np.where(below(radius), radius, np.nan))


_FINE = np.concatenate([np.linspace(0.0, 0.99, 397), 1.0 - 0.01 * 0.5 ** np.arange(1, 9)])
_POINTS = {
    "tv": _FINE,
    "subgroup": _FINE,
    "chi2": np.concatenate([-np.geomspace(0.05, 20.0, 60), _FINE]),
    "kl": np.geomspace(0.01, 100.0, 400),
}


@catalogued(
    family="population shift",
    claim="Mean over a ball of populations from a band that holds for every threshold.",
    source="Najafi et al., ICML 2025 (arXiv 2410.20250), the idea; this form is this project's",
    population="unseen-client",
    predictor="any",
    sampling="iid",
    assumptions=(
        "the model and the number of clients were fixed before the first score was seen",
        "one score in [0, 1] per held-out client, clients i.i.d.",
        "KL(Q || P), TV(Q, P) or chi2(Q || P) of other clients' law Q from P is at most radius",
    ),
    vacuous_when="the band takes a share sqrt(ln(1/delta) / (2 k)) of clients for hopeless, .17 of "
    "50: what the radius makes of these alone may be all",
)
def dkw_ball(
    *, losses: ArrayLike, radius: ArrayLike, delta: ArrayLike, ball: str = "kl"
) -> Certificate:
    """Mean of the worst law within the radius of the largest law in the DKW band.

    With probability 1 - delta every share P(L > t) is at most the sampled one plus
    w = sqrt(ln(1/delta) / (2 k)) (Dvoretzky, Kiefer, Wolfowitz; Massart), so that P is
    stochastically below the sampled law with its best share w moved to 1.  Scores of a dual rise
    with the loss: their means under that law bound those under P, at every point at once, and a
    fine grid of points costs nothing.  The bound is simple and wide: it pays for the whole shape of
    the law, which a mean does not need.  It is for comparison with ``ball_mixture``.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, 1]
    radius : array_like
        KL(Q || P), TV(Q, P) or chi2(Q || P) of another population Q from the scored one, P; the
        share for ``subgroup``.  Broadcasts with the leading axes.
    delta : array_like
        Failure probability in (0, 1/2]; broadcasts with the leading axes.
    ball : {"kl", "tv", "chi2", "subgroup"}

    Returns
    -------
    Certificate
        At most 1, shape of the leading axes broadcast with ``radius`` and ``delta``.

    Examples
    --------
    >>> curve = dkw_ball(losses=[0.1, 0.2] * 20, radius=[0.0, 0.1, 0.2], delta=0.05)
    >>> curve.value.round(4).tolist()
    [0.3247, 0.4871, 0.5603]
    """
    dual, scores, failure = _asked(ball, losses, delta)
    reach = dual.radius("radius", radius)
    width = np.minimum(dkw_band(n_clients=scores.shape[-1], delta=failure), 1.0)
    k = scores.shape[-1]
    share = np.clip(np.arange(1, k + 1) / k - width[..., None], 0.0, 1.0 / k)
    shape = np.broadcast_shapes(scores.shape[:-1], failure.shape, reach.shape)
    ordered = np.sort(scores, axis=-1)
    value = np.ones(shape)
    for point in _POINTS[ball]:
        of_point = dual.scores(ordered, np.array(point))
        mean = np.minimum(rounded_up((share * of_point).sum(axis=-1) + width), 1.0)
        value = np.minimum(value, dual.value(mean, reach, np.array(point)))
    mean = np.broadcast_to(scores.mean(axis=-1), shape)
    return priced("dkw_ball", value, mean, {"clients": failure}, part="price and shift")
