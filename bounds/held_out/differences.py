"""How much worse one model serves clients than another: matched clients, scored by both."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Certificate, catalogued, priced, rounded_up
from latecomer.bounds.held_out.betting import BET_WEIGHTS, product_mixture
from latecomer.bounds.held_out.losses import product

__all__ = ["mean_difference"]

_RULES: dict[str, Callable[..., Certificate]] = {
    "product_mixture": partial(product_mixture, weights=BET_WEIGHTS),
    "product": product,
}
_EPS = float(np.finfo(np.float64).eps)


@catalogued(
    family="hold-out",
    claim="Mean difference of two models' scores over clients, bounded from above.",
    source="this project: a rule of the mean for (1 + A - B) / 2",
    population="unseen-client",
    predictor="any",
    sampling="iid or finite-pool",
    assumptions=(
        "both models, the rule and the number of clients were fixed before the first score was "
        "seen",
        "every held-out client has one score in [0, loss_max] of each model",
        "clients i.i.d., or a uniform sample without replacement from a finite pool whose mean "
        "difference is then what is bounded, in any order",
        "a lower bound of the same difference is another statement, with a delta of its own",
    ),
    vacuous_when="too few clients: the difference is then at most loss_max",
)
def mean_difference(
    *,
    losses: ArrayLike,
    other: ArrayLike,
    delta: ArrayLike,
    rule: str = "product_mixture",
    loss_max: float = 1.0,
) -> Certificate:
    """Mean of A - B at most loss_max (2 U(D) - 1), where D = (1 + (A - B) / loss_max) / 2.

    U is the bound of ``rule``: :func:`latecomer.bounds.held_out.betting.product_mixture` with
    ``BET_WEIGHTS``, or :func:`latecomer.bounds.held_out.losses.product`, which a single client with
    A - B = loss_max makes vacuous.  Below 0 it says that the first model serves clients better.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, loss_max]
        Scores A of the first model.
    other : array_like, shape [..., k], in [0, loss_max]
        Scores B of the second, of the same clients in the same order.
    delta : array_like, in (0, 1)
    rule : str
        ``product_mixture`` or ``product``.
    loss_max : float, positive

    Examples
    --------
    >>> better, worse = [0.1, 0.05, 0.2, 0.15, 0.1] * 20, [0.25, 0.3, 0.3, 0.25, 0.2] * 20
    >>> round(float(mean_difference(losses=better, other=worse, delta=0.05)), 3)
    -0.103
    """
    top = checks.largest_loss("loss_max", loss_max)
    mine = checks.losses_in("losses", losses, loss_max=top)
    theirs = checks.losses_in("other", other, loss_max=top)
    checks.same_length(losses=mine, other=theirs)
    failure = checks.failure_probability("delta", delta)
    bound = _RULES[checks.one_of("rule", rule, tuple(_RULES))]
    gap = mine - theirs
    # A difference and its half are rounded once each.
    unit = np.clip(0.5 * (1.0 + gap / top) + 2.0 * _EPS, 0.0, 1.0)
    limit = bound(losses=unit, delta=failure).value
    value = np.minimum(top * (2.0 * rounded_up(limit) - 1.0), top)
    return priced("mean_difference", value, gap.mean(axis=-1), {"clients": failure}, top)
