"""Rules of other statements than a mean by itself: populations, sequences, clients served badly.

A rule of populations has the name of its calculator in :mod:`latecomer.bounds.shift.balls`.  Its
bounds hold at all radii at once at one delta, with the bets of the product rule: these cover
independent clients and pools, errors as measured and expected ones.  ``progressive`` bounds the
mean over systems that score clients one after another.
"""

import numpy as np

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.held_out.counting import conformal
from latecomer.certify.rules.declaration import Asked, Rule

GRID = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Temperatures of the rule ``progressive``, fixed here; the bound pays for their union."""


def _progressive(a: Asked) -> Certificate:
    from latecomer.bounds.unseen_clients.single_level import progressive

    mean = float(np.mean(a.losses))
    return progressive(empirical_risk=mean, n_steps=len(a.losses), delta=a.level, grid=GRID)


def _rule(name: str, words: str) -> Rule:
    return Rule(name=name, words=words, doors=("r0",), states="populations")


def _conformal(a: Asked) -> Certificate:
    return conformal(losses=a.losses, alpha=a.level)


RULES = (
    _rule("tv_ball", "populations Q by TV(Q, P)"),
    _rule("kl_ball", "populations Q by KL(Q || P)"),
    _rule("chi2_ball", "populations Q by chi2(Q || P)"),
    _rule("subgroup", "every group of clients of at least a share"),
    Rule(name="progressive", words="kl grid", doors=("r4",), bound=_progressive),
    Rule(
        name="conformal",
        words="conformal quantile",
        states="next",
        level="alpha",
        bound=_conformal,
        population="next-client",
    ),
    Rule(
        name="fraction_above",
        words="share above a threshold",
        doors=("r0",),
        states="share",
        realised=True,
    ),
    Rule(
        name="error_curve",
        words="share above every threshold",
        doors=("r0",),
        states="curve",
        realised=True,
    ),
)
