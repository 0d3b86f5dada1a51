"""Bounds of the mean over every population Q of clients near the one that was scored, P.

A rule has the name of its calculator in :mod:`latecomer.bounds.shift.balls`.  Its bounds hold at
all radii at once at one delta, with the bets of the product rule: these cover independent clients
and pools, errors as measured and expected ones.
"""

from latecomer.certify.rules.declaration import Rule


def _rule(name: str, words: str) -> Rule:
    return Rule(name=name, words=words, doors=("r0",), states="populations")


RULES = (
    _rule("tv_ball", "populations Q by TV(Q, P)"),
    _rule("kl_ball", "populations Q by KL(Q || P)"),
    _rule("chi2_ball", "populations Q by chi2(Q || P)"),
    _rule("subgroup", "every group of clients of at least a share"),
)
