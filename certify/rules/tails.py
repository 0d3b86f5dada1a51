"""Statements about how badly a client may be served: the next one's error, shares of clients."""

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.held_out.counting import conformal
from latecomer.certify.rules.declaration import Asked, Rule


def _conformal(a: Asked) -> Certificate:
    return conformal(losses=a.losses, alpha=a.level)


RULES = (
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
