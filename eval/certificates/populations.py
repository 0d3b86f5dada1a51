"""Certificates for populations other than the one that the held-out clients were drawn from.

Future clients need not be drawn as the certified ones were.  One certificate bounds the mean error
over every population within a radius of the scored one, for all radii at once.  It is therefore a
curve, and a target has a breaking radius.  :mod:`latecomer.bounds.shift.duals` has the proofs.  The
bets are those of the product rule: the scores Z of a grid point are convex in the error, so that a
bound that covers the mean of Z as measured covers the clients' expected errors as well.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.shift.ball_mixture import ball_mixture, breaking_radius
from latecomer.bounds.shift.duals import DUALS
from latecomer.eval.certificates.held_out import Scored
from latecomer.eval.certificates.rules import RULES

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
        Largest radius (smallest share) at which the target holds; NaN where it does not hold even
        without a shift, None without a target.
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
) -> Populations:
    """Bound the mean error over every population within each radius, all with probability 1-delta.

    Parameters
    ----------
    scored : Scored
    rule : {"tv_ball", "kl_ball", "chi2_ball", "subgroup"}
    radii : tuple of float
        Radii of the ball; for ``subgroup``, shares of clients.
    delta : float
        Failure probability of the whole curve and of every breaking radius.
    target : float, optional
        Mean error to stay below.

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
    ([0.25, 0.357], 0.04)
    """
    scored.check(RULES[rule])
    ball = ball_of(rule)
    asked: dict[str, Any] = {"losses": scored.losses, "ball": ball, "delta": delta}
    grid = np.union1d(DUALS[ball].radius_at(_PLACES), radii)
    whole = ball_mixture(radius=grid, **asked)
    outwards = np.argsort(-grid if ball == "subgroup" else grid)
    values = whole.value[outwards].tolist()
    curve = [
        {"radius": radius, "value": value}
        for i, (radius, value) in enumerate(zip(grid[outwards].tolist(), values, strict=True))
        if radius in radii or not i or values[i - 1] < 1
    ]
    breaking = None if target is None else float(breaking_radius(target=target, **asked))
    at = {radius: _one(whole, int(np.flatnonzero(grid == radius)[0])) for radius in radii}
    tagged = {radius: scored.tagged(one, RULES[rule]) for radius, one in at.items()}
    return Populations(tagged, curve, breaking)


def _one(curve: Certificate, place: int) -> Certificate:
    """Return a curve's certificate at one radius; its delta is that of the whole curve."""
    terms = {
        name: np.broadcast_to(part, curve.value.shape)[place] for name, part in curve.terms.items()
    }
    return replace(curve, value=curve.value[place], terms=MappingProxyType(terms))
