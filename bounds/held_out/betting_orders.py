"""Adaptive bets whose result does not depend on the order of the clients.

``wsr`` needs an order that has nothing to do with the scores.  Where no such order is known
(an id, or a hash of it, may be related to the score: late clients may be the hard ones) orders are
drawn by a generator, anew for every sample, and the last wealths of all orders are averaged.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, catalogued, priced
from latecomer.bounds.held_out.betting import adaptive_bets, first_refused
from latecomer.bounds.held_out.orders import Draw, averaged, draw

__all__ = ["wsr_averaged"]


def bets_of_orders(scores: Array, failure: Array, orders: Draw) -> Callable[[Array], Array]:
    """Return R -> logs of the last wealths of adaptive bets along each order, [..., n_orders]."""
    ordered = orders.along(scores)
    bets = adaptive_bets(ordered, failure[..., None])
    return lambda risk: np.log1p(bets * (risk[..., None, None] - ordered)).sum(axis=-1)


@catalogued(
    family="hold-out",
    claim="Mean client score by adaptive bets averaged over random orders.",
    source="this project; bets of Waudby-Smith and Ramdas 2024",
    population="unseen-client",
    predictor="any",
    sampling="iid",
    assumptions=(
        "the model, the rule, the number of clients and n_orders were fixed before the first score "
        "was seen",
        "one score in [0, 1] per held-out client, clients i.i.d., in any order where the orders "
        "are drawn afresh, by a seed that no earlier sample used; with in_order in one that has "
        "nothing to do with the scores",
        "not for a finite pool (use betting_wor_averaged) nor for scores whose conditional means "
        "drift",
    ),
    vacuous_when="too few clients to win 1/delta: below about 5 at delta .05",
)
def wsr_averaged(
    *,
    losses: ArrayLike,
    delta: ArrayLike,
    n_orders: int | None = None,
    seed: int | None = None,
    in_order: bool = False,
) -> Certificate:
    """Smallest risk R at which the orders' average of prod_j (1 - nu_j (L_j - R)) is 1/delta, or 1.

    nu_j are the bets of :func:`latecomer.bounds.held_out.betting.wsr`, from the scores that stand
    before j in an order.  A uniform order, drawn anew without looking at the scores, makes the
    sample i.i.d. again, whatever the clients' names: each order's last wealth has mean at most 1 at
    the true R, so has the average, and Markov's inequality holds over the choice of clients *and of
    the orders*.  A fixed permutation of i.i.d. scores is i.i.d. too; of sorted scores it is not.
    No maximum over prefixes is taken: it would not hold for an average.  Bets are at least 0 and do
    not depend on R, so that the wealth grows with R.  There is no ``cap`` as in ``wsr``: bets of up
    to 1 / (1 - R) over drawn orders are those of :func:`latecomer.bounds.held_out.blend.blend`,
    which also aims them at 1/delta.

    Parameters
    ----------
    losses : array_like
        Scores in [0, 1], shape [..., k], clients last; sorted first unless ``in_order``.
    delta : array_like
        Failure probability over clients and orders, strictly between 0 and 1.
    n_orders, seed, in_order
        As for :func:`latecomer.bounds.held_out.pool_betting.product_wor_averaged`.

    Examples
    --------
    >>> losses = [0.1, 0.05, 0.2, 0.15, 0.1] * 8
    >>> round(float(wsr_averaged(losses=losses, delta=0.05, seed=1)), 6)
    0.199438
    """
    scores = checks.losses_in("losses", losses)
    failure = checks.failure_probability("delta", delta)
    how = draw(n_orders, seed, in_order)
    each = bets_of_orders(scores, failure, how)
    zero = np.zeros(np.broadcast_shapes(scores.shape[:-1], failure.shape))
    value = first_refused(averaged(each), zero, zero + 1.0, failure, scores.shape[-1])
    made = priced("wsr_averaged", value, scores.mean(axis=-1), {"clients and orders": failure})
    return replace(made, orders=how.told(each, value, zero, zero + 1.0))
