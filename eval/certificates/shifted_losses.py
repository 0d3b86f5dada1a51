"""Certify clients of another population, some distance away, from a table of losses.

One certificate is a curve: it holds for all radii at once, so that the radius at which a target
breaks may be read off it afterwards.  Rules that bet put all points of the grid into one bet; the
other rules give each point its share of delta.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Array, Certificate
from latecomer.bounds.checks import real
from latecomer.bounds.held_out.bets import (
    Bets,
    betting_mixture_bets,
    betting_wor_averaged_bets,
    betting_wor_bets,
    product_bets,
    product_mixture_bets,
    product_wor_averaged_bets,
    product_wor_bets,
    wsr_averaged_bets,
)
from latecomer.bounds.held_out.betting import BET_WEIGHTS
from latecomer.bounds.shift.ball_mixture import apart, ball_mixture, breaking_radius, widest
from latecomer.bounds.shift.balls import MeanRule, chi2_ball, kl_ball, subgroup, tv_ball
from latecomer.bounds.shift.duals import DUALS
from latecomer.eval.certificates.loss_sample import (
    Sample,
    checked,
    sample_of,
    scaled_to,
    tagged,
)
from latecomer.eval.certificates.loss_table import Order, Source
from latecomer.eval.certificates.rules import Rule
from latecomer.eval.errors import InputError, nearest

_BETS: Mapping[str, Callable[[Sample], Bets]] = MappingProxyType(
    {
        "product": lambda given: product_bets(),
        "product_mixture": lambda given: product_mixture_bets(weights=BET_WEIGHTS),
        "betting_mixture": lambda given: betting_mixture_bets(),
        "wsr_averaged": lambda given: wsr_averaged_bets(**_drawn(given)),
        "product_wor": lambda given: product_wor_bets(given.pool),
        "betting_wor": lambda given: betting_wor_bets(given.pool),
        "product_wor_averaged": lambda given: product_wor_averaged_bets(
            given.pool, **_drawn(given)
        ),
        "betting_wor_averaged": lambda given: betting_wor_averaged_bets(
            given.pool, **_drawn(given)
        ),
    }
)
_UNION: Mapping[str, tuple[Callable[..., Certificate], str, str]] = MappingProxyType(
    {
        "tv": (tv_ball, "radius", "thresholds"),
        "kl": (kl_ball, "radius", "temperatures"),
        "chi2": (chi2_ball, "radius", "thresholds"),
        "subgroup": (subgroup, "share", "thresholds"),
    }
)


def _drawn(given: Sample) -> dict[str, Any]:
    return {"seed": given.seed, "in_order": given.in_order}


@dataclass(frozen=True, eq=False)
class Shifted:
    """Certificates over balls of populations around the one that was scored.

    Attributes
    ----------
    ball : {"kl", "tv", "chi2", "subgroup"}
        How populations are compared; for ``subgroup`` a radius is a share of clients.
    radii : tuple of float
    certificate : Certificate
        One value per radius; all hold together.
    target : float or None
    breaking : float or None
        Largest radius (smallest share) at which the certificate is below the target; NaN where it
        is not below it even without a shift, None without a target.
    """

    ball: str
    radii: tuple[float, ...]
    certificate: Certificate
    target: float | None = None
    breaking: float | None = None


def certify_shifted(
    losses: Source,
    *,
    ball: str = "kl",
    radii: Sequence[float] = (),
    target: float | None = None,
    rule: str = "product",
    delta: float = 0.05,
    pool_size: int | None = None,
    loss_max: float = 1.0,
    seed: int | None = None,
    order: Order | None = None,
    best_of: Sequence[str] = (),
) -> Shifted:
    """Bound the mean loss of every population of clients within a radius of the scored one.

    With probability at least ``1 - delta`` over the draw of the clients all values hold, at all
    radii, and so does the breaking radius, whichever target is asked about.

    Parameters
    ----------
    losses, rule, delta, pool_size, loss_max, seed, order, best_of
        As for :func:`~latecomer.eval.certificates.from_losses.certify_losses`.
    ball : {"kl", "tv", "chi2", "subgroup"}
        KL(Q || P) in nats, TV(Q, P) or chi2(Q || P) of another population Q from this one, P: the
        first and the last only if Q has no kinds of clients that P lacks; ``subgroup`` stands for
        every group of clients that makes up at least a share.
    radii : sequence of float
        Radii, or shares; no shift unless given.
    target : float, optional
        Mean loss to stay below.

    Returns
    -------
    Shifted

    Examples
    --------
    >>> losses = {f"client {i}": 0.1 + 0.1 * (i % 2) for i in range(40)}
    >>> shifted = certify_shifted(losses, ball="kl", radii=[0.0, 0.1], target=0.3)
    >>> shifted.certificate.value.round(3).tolist(), round(shifted.breaking, 3)
    ([0.25, 0.357], 0.04)
    """
    reach = _reach(ball, radii)
    drawn: dict[str, Any] = {"pool_size": pool_size, "loss_max": loss_max}
    drawn |= {"seed": seed, "order": order}
    given = sample_of(losses, rule=rule, best_of=best_of, delta=delta, **drawn)
    aim = None if target is None else _aim(target, given.loss_max)
    issue, breaks = _functions(given, ball, delta)
    certificate = tagged(scaled_to(issue(reach), given.loss_max), given.rule, given)
    return Shifted(
        ball,
        tuple(float(radius) for radius in reach),
        replace(certificate, assumptions=(*certificate.assumptions, apart(ball))),
        target,
        None if aim is None else float(breaks(np.asarray(aim))),
    )


def _reach(ball: str, radii: Sequence[float]) -> Array:
    if ball not in DUALS:
        raise InputError(
            f"shift must be one of {', '.join(DUALS)}, got {ball!r}{nearest(str(ball), DUALS)}"
        )
    try:
        return np.atleast_1d(DUALS[ball].radius(ball, list(radii) or [_none(ball)]))
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error


def _aim(target: float, loss_max: float) -> float:
    """Return the target on the scale on which the largest loss is 1."""
    aim = float(checked(real, "target", target)) / loss_max
    if not 0 < aim < 1:
        raise InputError(f"target must lie strictly between 0 and {loss_max:g}, got {target:g}")
    return aim


def _none(ball: str) -> float:
    """Radius of no shift at all."""
    return float(DUALS[ball].radius_at(np.array(0.0)))


def _functions(
    given: Sample, ball: str, delta: float
) -> tuple[Callable[[Array], Certificate], Callable[[Array], Array]]:
    """Return functions radii -> certificate, target -> breaking radius, by one bet or a union."""
    rule = given.rule
    if rule.states != "mean":
        raise InputError(f"rule {rule.name} bounds no mean: a shift needs a rule that does")
    asked: dict[str, Any] = {"losses": given.unit(), "delta": delta}
    if rule.name in _BETS:
        bets = _BETS[rule.name](given)
        return (
            lambda radii: ball_mixture(radius=radii, ball=ball, bets=bets, **asked),
            lambda aim: breaking_radius(target=aim, ball=ball, bets=bets, **asked),
        )
    calculator, radius, points = _UNION[ball]
    asked |= {points: DUALS[ball].points, "rule": _each_point(rule, given)}

    def issue(radii: Array) -> Certificate:
        return calculator(**{radius: radii}, **asked)

    return issue, lambda aim: widest(
        lambda reach: issue(reach).value < aim, DUALS[ball].radius_at, aim.shape
    )


def _each_point(rule: Rule, given: Sample) -> MeanRule:
    """Apply a rule for one list of scores to every grid point's, once for all radii."""
    kept: list[Certificate] = []

    def bounded(*, losses: Array, delta: Array) -> Certificate:
        if not kept:
            rows = losses.reshape(losses.shape[0], -1)
            each = [
                rule.bound(given.asked(row.tolist(), float(delta)))
                for row in rows
                if rule.bound is not None
            ]
            kept.append(replace(each[0], value=np.array([float(one) for one in each])))
        return replace(kept[0], value=kept[0].value.reshape(losses.shape[:-1]))

    return bounded
