"""Certificates for populations other than the one that the held-out clients were drawn from.

New clients need not be drawn as the certified ones were.  One certificate bounds the mean error
over every population within a radius of the scored one, for all radii at once.  It is therefore a
curve, and a target has a breaking radius.  :mod:`latecomer.bounds.shift.duals` has the proofs.  The
bets are products: the scores Z of a grid point are convex in the error, so that a bound that covers
the mean of Z as measured covers the clients' expected errors as well.

Unless a study asks for bets ``product``, whose curve is 1 as soon as one client's error is 1, they
are a mixture of products with weights, and the grid's weight lies near the radii that the study
declares.  That curve starts from the mean's own certificate by the same mixture: without a shift it
is the statement about clients like the scored ones, which holds at the same delta by itself.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Array, Certificate
from latecomer.bounds.held_out.bets import product_mixture_bets
from latecomer.bounds.held_out.betting import BET_WEIGHTS, product_mixture
from latecomer.bounds.shift.duals import DUALS
from latecomer.bounds.shift.planned_grid import planned_grid
from latecomer.certify.populations import bet_on, from_the_mean
from latecomer.certify.rule import RULES
from latecomer.eval.routes.scored_clients import Scored

BETS = ("product_mixture", "product")
"""Rules that bet on populations, the default first."""
# Where a curve's radii lie between no shift (0) and any shift (1); each ball has its own scale.
_PLACES = np.arange(46) / 50


@dataclass(frozen=True, eq=False)
class Populations:
    """One certificate for populations within every radius of the scored one.

    Attributes
    ----------
    at : dict of float to Certificate
        Certificates by requested radius (for ``subgroup``, by share).
    curve : list of dict
        Records ``radius value``, from no shift outwards until nothing is certified any more.
    breaking : float or None
        Largest radius (smallest share) at which the target holds; NaN where there is none, None
        without a target.
    """

    at: dict[float, Certificate]
    curve: list[dict[str, Any]]
    breaking: float | None = None


def ball_of(rule: str) -> str:
    """Return the name of the ball by which a rule compares populations.

    Examples
    --------
    >>> ball_of("kl_ball"), ball_of("subgroup")
    ('kl', 'subgroup')
    """
    return rule.removesuffix("_ball")


def certify_populations(
    scored: Scored,
    *,
    rule: str,
    radii: tuple[float, ...],
    delta: float,
    target: float | None = None,
    bets: str = BETS[0],
) -> Populations:
    """Bound the mean error over every population within each radius, all with probability 1-delta.

    Without a shift the value of ``product_mixture`` is the mean's own certificate, a statement by
    itself at the same delta.

    Parameters
    ----------
    scored : Scored
    rule : {"tv_ball", "kl_ball", "chi2_ball", "subgroup"}
    radii : tuple of float
        Radii of the ball; for ``subgroup``, shares of clients.
    delta : float
        Failure probability of the whole curve beyond no shift and of every breaking radius.
    target : float, optional
        Mean error to stay below.
    bets : {"product_mixture", "product"}
        Fixed beforehand; ``product`` by equal weights of the grid.

    Returns
    -------
    Populations

    Examples
    --------
    >>> from latecomer.eval.scoring.scores import ClientScore
    >>> scores = [ClientScore(i, 20, 10, 1 + i % 2, .3) for i in range(40)]
    >>> scored = Scored(scores, "iid", None, "deterministic")
    >>> certified = certify_populations(scored, rule="kl_ball", radii=(0.0, 0.1), delta=.05,
    ...                                 target=.3)
    >>> [round(float(one), 3) for one in certified.at.values()], round(certified.breaking, 3)
    ([0.216, 0.342], 0.043)
    """
    scored.check(RULES[rule])
    ball = ball_of(rule)
    grid = np.union1d(DUALS[ball].radius_at(_PLACES), radii)
    if bets == "product":
        issue, breaks = bet_on(scored.losses, ball=ball, delta=delta)
        whole = issue(grid)
    else:
        plan = planned_grid(ball=ball, radii=radii, n_clients=len(scored.scores), delta=delta)
        near = product_mixture_bets(weights=BET_WEIGHTS)
        issue, breaks = bet_on(scored.losses, ball=ball, delta=delta, bets=near, grid=plan)
        own = product_mixture(losses=scored.losses, delta=delta, weights=BET_WEIGHTS)
        whole = from_the_mean(issue(grid), grid, ball, lambda: float(own))
    breaking = None if target is None else float(breaks(np.asarray(target)))
    at, curve = _told(whole, grid, radii, rising=ball != "subgroup")
    tagged = {radius: scored.tagged(one, RULES[rule]) for radius, one in at.items()}
    return Populations(tagged, curve, breaking)


def _told(
    whole: Certificate, grid: Array, radii: tuple[float, ...], *, rising: bool
) -> tuple[dict[float, Certificate], list[dict[str, Any]]]:
    """Return the certificates at the radii asked for, and the curve from no shift outwards."""
    outwards = np.argsort(grid if rising else -grid)
    values = whole.value[outwards].tolist()
    curve = [
        {"radius": radius, "value": value}
        for i, (radius, value) in enumerate(zip(grid[outwards].tolist(), values, strict=True))
        if radius in radii or not i or values[i - 1] < 1
    ]
    at = {radius: _one(whole, int(np.flatnonzero(grid == radius)[0])) for radius in radii}
    return at, curve


def _one(curve: Certificate, place: int) -> Certificate:
    """Return a curve's certificate at one radius; its delta is that of the whole curve."""
    terms = {
        name: np.broadcast_to(part, curve.value.shape)[place] for name, part in curve.terms.items()
    }
    return replace(curve, value=curve.value[place], terms=MappingProxyType(terms))
