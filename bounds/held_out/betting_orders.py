"""Adaptive bets whose result does not depend on the order of the clients.

``wsr`` needs an order that has nothing to do with the scores.  Where no such order is known
(an id, or a hash of it, may be related to the score: late clients may be the hard ones) orders are
drawn by a generator, and the last wealths of all orders are averaged.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, catalogued, priced
from latecomer.bounds.held_out.betting import adaptive_bets, first_refused
from latecomer.bounds.held_out.pool_betting import seeded_orders

__all__ = ["wsr_averaged"]


def averaged_bets(
    scores: Array, failure: Array, n_orders: int, seed: int
) -> Callable[[Array], Array]:
    """Return R -> log of the last wealth of adaptive bets, averaged over drawn orders."""
    ordered = np.sort(scores, axis=-1)[..., seeded_orders(scores.shape[-1], n_orders, seed)]
    bets = adaptive_bets(ordered, failure[..., None])

    def log_wealth(risk: Array) -> Array:
        each = np.log1p(bets * (risk[..., None, None] - ordered)).sum(axis=-1)
        return np.asarray(np.logaddexp.reduce(each, axis=-1) - np.log(n_orders))

    return log_wealth


@catalogued(
    family="hold-out",
    claim="Mean client score by adaptive bets averaged over orders drawn beforehand.",
    source="this project; bets of Waudby-Smith and Ramdas 2024",
    population="unseen-client",
    predictor="any",
    sampling="iid",
    assumptions=(
        "the model, the rule, the number of clients, n_orders and the seed were fixed before the "
        "first score was seen",
        "one score in [0, 1] per held-out client, clients i.i.d., in any order",
        "not for a finite pool (use product_wor_averaged) nor for scores whose conditional means "
        "drift",
    ),
    vacuous_when="too few clients to win 1/delta: below about 5 at delta .05",
)
def wsr_averaged(
    *, losses: ArrayLike, delta: ArrayLike, n_orders: int = 64, seed: int = 0
) -> Certificate:
    """Smallest risk R at which the orders' average of prod_j (1 - nu_j (L_j - R)) is 1/delta, or 1.

    nu_j are the bets of :func:`latecomer.bounds.held_out.betting.wsr`, from the scores that stand
    before j in an order.  A uniform order, drawn without looking at the scores, makes the sample
    i.i.d. again, whatever the clients' names: each order's last wealth has mean at most 1 at the
    true R, so has the average, and Markov's inequality holds over the choice of clients *and of
    the orders*.  No maximum over prefixes is taken: it would not hold for an average.  Bets are
    at least 0 and do not depend on R, so that the wealth grows with R.

    Parameters
    ----------
    losses : array_like
        Scores in [0, 1], shape [..., k], clients last, in any order: they are sorted first.
    delta : array_like
        Failure probability over clients and orders, strictly between 0 and 1.
    n_orders : int
        Orders drawn, at least 1.
    seed : int
        Seed of the generator of orders, at least 0.

    Examples
    --------
    >>> round(float(wsr_averaged(losses=[0.1, 0.05, 0.2, 0.15, 0.1] * 8, delta=0.05)), 6)
    0.19946
    """
    scores = checks.losses_in("losses", losses)
    failure = checks.failure_probability("delta", delta)
    drawn = int(checks.count("n_orders", n_orders))
    start = int(checks.count("seed", seed, minimum=0))
    log_wealth = averaged_bets(scores, failure, drawn, start)
    zero = np.zeros(np.broadcast_shapes(scores.shape[:-1], failure.shape))
    value = first_refused(log_wealth, zero, zero + 1.0, failure, scores.shape[-1])
    risk = scores.mean(axis=-1)
    return priced("wsr_averaged", value, risk, {"clients and orders": failure})
