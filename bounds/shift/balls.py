"""The mean over clients to come, whose population differs from the scored one by a given radius.

Every point of a grid fixed beforehand turns the losses into scores in [0, 1], any rule for a mean
bounds their mean at delta / J for J points, and duality turns each bound into one on the mean over
the ball (:mod:`latecomer.bounds.shift.duals` has the proofs).  The J bounds hold at once with
probability 1 - delta, whatever the radius, so the smallest holds **for all radii at once**: radii
given as an array are one certified curve, and any of them may be picked afterwards.

``ball_mixture`` pays less for the same grid.
"""

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import CATALOGUE, Array, Certificate, catalogued, certificate
from latecomer.bounds.held_out.losses import product
from latecomer.bounds.shift.duals import DUALS, points_in

__all__ = ["MeanRule", "chi2_ball", "kl_ball", "subgroup", "tv_ball"]

MeanRule = Callable[..., Certificate]
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


@catalogued(
    family="population shift",
    claim="Mean over every population Q with TV(Q, P) at most a radius, P the scored one.",
    source=_SOURCE.format("a bounded score"),
    population="unseen-client",
    predictor="any",
    sampling="iid or finite-pool",
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


@catalogued(
    family="population shift",
    claim="Mean over every population Q with KL(Q || P) at most a radius, P the scored one.",
    source=_SOURCE.format("Donsker and Varadhan"),
    population="unseen-client",
    predictor="any",
    sampling="iid or finite-pool",
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


@catalogued(
    family="population shift",
    claim="Mean over every population Q with chi2(Q || P) at most a radius, P the scored one.",
    source=_SOURCE.format("Cauchy and Schwarz"),
    population="unseen-client",
    predictor="any",
    sampling="iid or finite-pool",
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


@catalogued(
    family="population shift",
    claim="Mean over every group of clients that makes up at least a share of the population.",
    source=_SOURCE.format("a bounded density"),
    population="unseen-client",
    predictor="any",
    sampling="iid or finite-pool",
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
