"""Certify clients of another population, some distance away, from a table of losses.

One certificate is a curve: it holds for all radii at once, so that the radius at which a target
breaks may be read off it afterwards.  Rules that bet put all points of the grid into one bet; the
other rules give each point its share of delta.  The mixture of products, which also stands in for
``blend``, has most of its bet near the radii that were asked for, which must be settled beforehand;
other rules spread theirs over the ball's own grid.

The curve starts from the mean's own certificate.  Without a shift the only population in the ball
is the one that was scored, so the statement there is that certificate, at its own delta; the
statements at all radii beyond hold together at theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import Array, Certificate, rounded_up
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
from latecomer.bounds.shift.balls import (
    MeanRule,
    apart,
    ball_mixture,
    breaking_radius,
    chi2_ball,
    issued,
    kl_ball,
    started_at,
    subgroup,
    tv_ball,
    widest,
)
from latecomer.bounds.shift.duals import DUALS, TRIED, Grid, planned_grid
from latecomer.certify.arguments import Stated
from latecomer.certify.rule import DEFAULT_RULE, RULES, Rule
from latecomer.certify.rules.declaration import is_own
from latecomer.certify.sample import Sample, sample_of, scaled_to, tagged
from latecomer.certify.table import Order, Source
from latecomer.checks import checked, several
from latecomer.errors import InputError, nearest

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
_NEAR_RADII = MappingProxyType({name: "product_mixture" for name in ("blend", "product_mixture")})
"""What bets near the radii asked: for ``blend``, whose wealth is not monotone in the mean, too."""
_NEAR = "so were the radii asked for, near which most of the bets lie"
_UNION: Mapping[str, Callable[..., Certificate]] = MappingProxyType(
    {"tv": tv_ball, "kl": kl_ball, "chi2": chi2_ball, "subgroup": subgroup}
)


def _drawn(given: Sample) -> dict[str, Any]:
    return {"seed": given.seed, "in_order": given.in_order}


@dataclass(frozen=True, eq=False)
class Shifted(Stated):
    """Certificates over balls of populations around the one that was scored.

    Attributes
    ----------
    ball : {"kl", "tv", "chi2", "subgroup"}
        How populations are compared; for ``subgroup`` a radius is a share of clients.
    radii : tuple of float
    certificate : Certificate
        One value per radius.  All beyond no shift hold together; without a shift it is the mean's
        own certificate, which holds at the same delta by itself.
    rule : str
        The rule by which populations beyond no shift are certified.
    target : float or None
    breaking : float or None
        Largest radius (smallest share) at which the certificate is below the target; NaN where
        there is none, None without a target.
    """

    ball: str
    radii: tuple[float, ...]
    certificate: Certificate
    rule: str
    target: float | None = None
    breaking: float | None = None


def certify_shifted(
    losses: Source,
    *,
    ball: str = "kl",
    radii: Sequence[float] = (),
    target: float | None = None,
    near: Sequence[float] | None = None,
    rule: str = DEFAULT_RULE,
    delta: float = 0.05,
    pool_size: int | None = None,
    loss_max: float = 1.0,
    seed: int | None = None,
    order: Order | None = None,
    best_of: Sequence[str] = (),
    trust: bool = False,
) -> Shifted:
    """Bound the mean loss of every population of clients within a radius of the scored one.

    With probability at least ``1 - delta`` the values at all radii beyond no shift hold, and the
    breaking radius for any target.  Without a shift it is the mean's own certificate, by itself.

    Parameters
    ----------
    losses, rule, delta, pool_size, loss_max, seed, order, best_of, trust
        As for :func:`~latecomer.certify.statements.certify_losses`; beyond no shift
        ``product_mixture`` stands in for ``blend``.
    ball : {"kl", "tv", "chi2", "subgroup"}
        KL(Q || P) in nats, TV(Q, P) or chi2(Q || P) of another population Q from this one, P; or
        every group of clients that makes up at least a share.
    radii, near : sequence of float
        Radii, or shares; no shift unless given.  The default bets near ``near``, which must be
        settled before the losses: ``radii`` unless given.
    target : float, optional
        Mean loss to stay below.

    Returns
    -------
    Shifted

    Examples
    --------
    >>> losses = {f"client {i}": 0.1 + 0.1 * (i % 2) for i in range(40)} | {"lost": 1.0}
    >>> shifted = certify_shifted(losses, ball="kl", radii=[0.1], target=0.45)
    >>> shifted.certificate.value.round(3).tolist(), round(shifted.breaking, 3)
    ([0.503], 0.033)
    """
    _reach(ball, radii)  # said before anything is read
    drawn: dict[str, Any] = {"pool_size": pool_size, "seed": seed, "order": order, "trust": trust}
    given = sample_of(losses, rule, best_of, delta=delta, loss_max=loss_max, **drawn)
    return within(given, ball, radii, target, delta=delta, near=near)


def within(
    given: Sample,
    ball: str,
    radii: Sequence[float],
    target: float | None,
    *,
    delta: float,
    near: Sequence[float] | None = None,
) -> Shifted:
    """Bound as `certify_shifted` does, for a sample that is read and checked."""
    reach = _reach(ball, radii)
    aim = None if target is None else _aim(target, given.loss_max)
    made, rule_of_ball, breaks = _issued(given, ball, delta, reach, reach if near is None else near)
    return Shifted(
        ball,
        tuple(float(radius) for radius in reach),
        made,
        rule_of_ball,
        target,
        None if aim is None else float(breaks(np.asarray(aim))),
    )


def _issued(
    given: Sample, ball: str, delta: float, reach: Array, near: Sequence[float] | Array
) -> tuple[Certificate, str, Callable[[Array], Array]]:
    """Return the certificate at all radii, who bet for it, and target -> breaking radius."""
    betting, grid, told = _betting(given, ball, delta, near)
    issue, breaks = _functions(betting, ball, delta, grid)
    whole = from_the_mean(issue(reach), reach, ball, lambda: float(given.bounded(delta)))
    tags = given.rule if (reach == no_shift(ball)).any() else betting.rule
    made = tagged(scaled_to(whole, given.loss_max), tags, given)
    if is_own(given.rule.name):
        # A shift proves no more than the rule does.
        own = given.bounded(delta)
        made = replace(made, rigorous=own.rigorous, reason=own.reason)
    assumed = (*made.assumptions, *told, apart(ball))
    return replace(made, assumptions=assumed), betting.rule.name, breaks


def _betting(
    given: Sample, ball: str, delta: float, near: Sequence[float] | Array
) -> tuple[Sample, Grid, tuple[str, ...]]:
    """Return who bets on populations, on which points of the grid, and what that assumes."""
    if given.rule.states != "mean":
        raise InputError(f"rule {given.rule.name} bounds no mean: a shift needs a rule that does")
    name, own = _NEAR_RADII.get(given.rule.name), DUALS[ball].points
    grid = Grid(own, (1.0 / len(own),) * len(own))
    if name is None:
        return given, grid, ()
    radii = _reach(ball, list(near))
    planned = planned_grid(ball=ball, radii=radii, n_clients=given.n_clients, delta=delta)
    return replace(given, rule=RULES[name]), planned, () if planned == grid else (_NEAR,)


def _reach(ball: str, radii: Sequence[float]) -> Array:
    if not isinstance(ball, str) or ball not in DUALS:
        raise InputError(
            f"shift must be one of {', '.join(DUALS)}, got {ball!r}{nearest(str(ball), DUALS)}"
        )
    try:
        reach = np.asarray(DUALS[ball].radius(ball, several(radii) or [no_shift(ball)]))
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error
    if reach.ndim > 1:
        raise InputError(f"{ball} must be numbers in a row, got shape {reach.shape}")
    return reach


def _aim(target: float, loss_max: float) -> float:
    """Return the target on the scale on which the largest loss is 1."""
    aim = float(checked(real, "target", target)) / loss_max
    if not 0 < aim < 1:
        raise InputError(f"target must lie strictly between 0 and {loss_max:g}, got {target:g}")
    return aim


def no_shift(ball: str) -> float:
    """Radius of no shift at all; for ``subgroup`` the share of all clients.

    Examples
    --------
    >>> no_shift("kl"), no_shift("subgroup")
    (0.0, 1.0)
    """
    return float(DUALS[ball].radius_at(np.array(0.0)))


def _functions(
    given: Sample, ball: str, delta: float, grid: Grid
) -> tuple[Callable[[Array], Certificate], Callable[[Array], Array]]:
    """Return functions radii -> certificate, target -> breaking radius, by one bet or a union."""
    rule = given.rule
    if rule.name in _BETS:
        return bet_on(given.unit(), ball=ball, delta=delta, bets=_BETS[rule.name](given), grid=grid)
    if "zero_one" in rule.doors:
        return _of_shares(float(given.bounded(delta)), given, ball, delta)
    dual, each = DUALS[ball], _each_point(rule, given)

    def issue(radii: Array) -> Certificate:
        named = {dual.radius_name: radii, dual.points_name: dual.points}
        return _UNION[ball](losses=given.unit(), delta=delta, rule=each, **named)

    return issue, lambda aim: widest(
        lambda reach: issue(reach).value < aim, dual.radius_at, aim.shape
    )


def bet_on(
    losses: ArrayLike,
    *,
    ball: str,
    delta: float,
    bets: Bets | None = None,
    grid: Grid | None = None,
) -> tuple[Callable[[Array], Certificate], Callable[[Array], Array]]:
    """Return functions radii -> certificate and target -> breaking radius, all by one bet.

    All radii and targets hold together.  Losses lie in [0, 1]; bets are the product's unless given,
    and lie on the ball's own grid with equal weights.

    Examples
    --------
    >>> issue, breaks = bet_on([0.1, 0.2] * 20, ball="kl", delta=0.05)
    >>> issue(np.array([0.0, 0.1])).value.round(4).tolist(), breaks(np.array(0.4)).round(3).tolist()
    ([0.25, 0.3566], 0.16)
    """
    points, weights = (None, None) if grid is None else (grid.points, grid.weights)

    def issue(radii: Array) -> Certificate:
        return ball_mixture(
            losses=losses,
            radius=radii,
            delta=delta,
            ball=ball,
            points=points,
            weights=weights,
            bets=bets,
        )

    def breaks(target: Array) -> Array:
        return breaking_radius(
            losses=losses,
            target=target,
            delta=delta,
            ball=ball,
            points=points,
            weights=weights,
            bets=bets,
        )

    return issue, breaks


def from_the_mean(
    whole: Certificate, reach: Array, ball: str, mean: Callable[[], float]
) -> Certificate:
    """Let a curve start from the mean's own certificate, where no shift is among the radii."""
    unshifted = reach == no_shift(ball)
    return started_at(whole, unshifted, mean()) if unshifted.any() else whole


def _of_shares(
    share: float, given: Sample, ball: str, delta: float
) -> tuple[Callable[[Array], Certificate], Callable[[Array], Array]]:
    """Return the same for 0/1 losses, from the one bound of the share of ones.

    A score of any point of the dual has then a mean that the share settles: all points hold
    together, on a grid as fine as one likes, at no price.
    """
    dual, points = DUALS[ball], TRIED[ball]
    least, most = (dual.scores(np.array(end), points) for end in (0.0, 1.0))
    means = np.minimum(rounded_up(least + share * (most - least)), 1.0)
    unit = given.unit()

    def value(radii: Array) -> Array:
        whole = dual.value(means, np.asarray(radii)[..., None], points).min(axis=-1)
        return np.asarray(np.clip(whole, share, 1.0))

    def issue(radii: Array) -> Certificate:
        tags = (given.bounded(delta).sampling, ())
        of_all = (np.asarray(unit.mean()), np.asarray(share), value(radii), np.asarray(delta))
        return issued(_UNION[ball].__name__, *of_all, *tags)

    return issue, lambda aim: widest(
        lambda reach: value(reach) < aim, DUALS[ball].radius_at, aim.shape
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
