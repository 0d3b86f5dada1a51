"""Rules for a mean as bets: the wealth each wins against a hypothetical mean, in any order.

A rule that bets refuses a mean once its wealth against that mean passes 1/delta.  Its bound is the
smallest refused mean.  Its wealth against other means is needed where several bets, on functions of
the same scores, are combined before any mean is refused.

``wsr`` needs an order that has nothing to do with the scores.  Where no such order is known
(an id, or a hash of it, may be related to the score: late clients may be the hard ones) orders are
drawn by a generator, anew for every sample, and the last wealths of all orders are averaged.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, Sampling, priced
from latecomer.bounds.held_out.betting import (
    Draw,
    adaptive_bets,
    averaged,
    bet_weights,
    draw,
    first_refused,
    fixed_bets,
    fixed_products,
    mean_catalogued,
)
from latecomer.bounds.held_out.finite_pool import (
    bets_of_orders,
    bets_path,
    product_of_orders,
    product_path,
)

__all__ = [
    "Bets",
    "betting_mixture_bets",
    "betting_wor_averaged_bets",
    "betting_wor_bets",
    "product_bets",
    "product_mixture_bets",
    "product_wor_averaged_bets",
    "product_wor_bets",
    "wsr_averaged",
    "wsr_averaged_bets",
]


def adaptive_bets_of_orders(
    scores: Array, failure: Array, orders: Draw
) -> Callable[[Array], Array]:
    """Return R -> logs of the last wealths of adaptive bets along each order, [..., n_orders]."""
    ordered = orders.along(scores)
    bets = adaptive_bets(ordered, failure[..., None])
    return lambda risk: np.log1p(bets * (risk[..., None, None] - ordered)).sum(axis=-1)


@mean_catalogued(
    claim="Mean client score by adaptive bets averaged over random orders.",
    source="this project; bets of Waudby-Smith and Ramdas 2024",
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
        As for :func:`latecomer.bounds.held_out.finite_pool.product_wor_averaged`.

    Examples
    --------
    >>> losses = [0.1, 0.05, 0.2, 0.15, 0.1] * 8
    >>> round(float(wsr_averaged(losses=losses, delta=0.05, seed=1)), 6)
    0.199438
    """
    scores, failure, _ = checks.scored(losses, delta)
    how = draw(n_orders, seed, in_order)
    each = adaptive_bets_of_orders(scores, failure, how)
    zero = np.zeros(np.broadcast_shapes(scores.shape[:-1], failure.shape))
    value = first_refused(averaged(each), zero, zero + 1.0, failure, scores.shape[-1])
    made = priced("wsr_averaged", value, scores.mean(axis=-1), {"clients and orders": failure})
    return replace(made, orders=how.told(each, value, zero, zero + 1.0))


LogWealth = Callable[[Array], Array]


@dataclass(frozen=True)
class Bets:
    """A way to bet on scores in [0, 1], fixed before the first of them is seen.

    Attributes
    ----------
    sampling : str
        How clients must have been drawn: a tag of certificates.
    realised : bool
        Whether the bound is about a pool's scores as measured, not about expected scores.
    wealth : callable
        ``(scores [..., k], delta) -> (mean [...] -> log wealth [..., looks])``.  At the true mean
        the wealth is a supermartingale along its looks that starts at or below 1 on average, and
        so is a mean of wealths on functions of the same scores.  It never falls as the mean rises.
    """

    sampling: Sampling
    realised: bool
    wealth: Callable[[Array, Array], LogWealth]


def _once(log_wealth: LogWealth) -> LogWealth:
    """Add an axis with one look to a wealth that counts only at its end."""
    return lambda mean: log_wealth(mean)[..., None]


def product_bets() -> Bets:
    """Bets of ``product``: prod (1 - L_i) / (1 - R).

    Examples
    --------
    >>> won = product_bets().wealth(np.array([0.1, 0.1]), np.array(0.05))
    >>> round(float(np.exp(won(np.array(0.55)))[0]), 6)
    4.0
    """

    def wealth(scores: Array, delta: Array) -> LogWealth:
        with np.errstate(divide="ignore"):
            own = np.log1p(-scores).sum(axis=-1)
        return _once(lambda mean: own - scores.shape[-1] * np.log1p(-mean))

    return Bets("iid or finite-pool", False, wealth)


def betting_mixture_bets(n_bets: int = 10) -> Bets:
    """Bets of ``betting_mixture``: the average of prod (1 - l (L_i - R)) over l = 1, 1/2, ..."""
    fixed = checks.at_once("n_bets", n_bets)
    return Bets(
        "iid or finite-pool",
        False,
        lambda scores, delta: _once(fixed_bets(scores, fixed)),
    )


def product_mixture_bets(n_bets: int | None = None, weights: ArrayLike | None = None) -> Bets:
    """Bets of ``product_mixture``: the mean of prod (1 - b L_i) / (1 - b R) over b = 1/J ... 1.

    Examples
    --------
    >>> won = product_mixture_bets(2).wealth(np.array([0.5, 1.0]), np.array(0.05))
    >>> round(float(np.exp(won(np.array(0.8)))[0]), 6)
    0.520833
    """
    shares = bet_weights(n_bets, weights)
    return Bets(
        "iid or finite-pool",
        False,
        lambda scores, delta: _once(fixed_products(scores, shares)),
    )


def wsr_averaged_bets(
    n_orders: int | None = None, seed: int | None = None, in_order: bool = False
) -> Bets:
    """Bets of ``wsr_averaged``: adaptive bets, averaged over orders drawn once, here."""
    how = draw(n_orders, seed, in_order)
    return Bets(
        "iid",
        False,
        lambda scores, delta: _once(averaged(adaptive_bets_of_orders(scores, delta, how))),
    )


def product_wor_bets(pool_size: ArrayLike) -> Bets:
    """Bets of ``product_wor``, along the order of sampling."""
    pool = checks.count("pool_size", pool_size).astype(np.float64)
    return Bets(
        "finite-pool",
        True,
        lambda scores, delta: _in_pool(product_path(scores, pool), scores, pool),
    )


def betting_wor_bets(pool_size: ArrayLike, n_bets: int = 5) -> Bets:
    """Bets of ``betting_wor``, along the order of sampling."""
    pool = checks.count("pool_size", pool_size).astype(np.float64)
    fixed = checks.at_once("n_bets", n_bets)
    return Bets(
        "finite-pool",
        True,
        lambda scores, delta: _in_pool(bets_path(scores, pool, fixed), scores, pool),
    )


def product_wor_averaged_bets(
    pool_size: ArrayLike,
    n_orders: int | None = None,
    seed: int | None = None,
    in_order: bool = False,
) -> Bets:
    """Bets of ``product_wor_averaged``: last wealths averaged over orders drawn once, here."""
    pool = checks.count("pool_size", pool_size).astype(np.float64)
    how = draw(n_orders, seed, in_order)
    return Bets(
        "finite-pool",
        True,
        lambda scores, delta: _in_pool(
            _once(averaged(product_of_orders(scores, pool, how))), scores, pool
        ),
    )


def betting_wor_averaged_bets(
    pool_size: ArrayLike,
    n_bets: int = 5,
    n_orders: int | None = None,
    seed: int | None = None,
    in_order: bool = False,
) -> Bets:
    """Bets of ``betting_wor_averaged``: last wealths averaged over orders drawn once, here."""
    pool = checks.count("pool_size", pool_size).astype(np.float64)
    fixed = checks.at_once("n_bets", n_bets)
    how = draw(n_orders, seed, in_order)
    return Bets(
        "finite-pool",
        True,
        lambda scores, delta: _in_pool(
            _once(averaged(bets_of_orders(scores, pool, fixed, how))), scores, pool
        ),
    )


def _in_pool(log_wealth: LogWealth, scores: Array, pool: Array) -> LogWealth:
    """Refuse a mean that the pool cannot have: its other clients would have to score above 1."""
    k = scores.shape[-1]
    checks.at_most("the number of losses", np.asarray(k), "pool_size", pool)
    # A sum of k scores is off by at most k roundings.
    top = scores.sum(axis=-1) / pool * (1.0 + k * 2.3e-16) + (pool - k) / pool

    def with_top(mean: Array) -> Array:
        impossible = mean > top + 1e-15
        return np.where(impossible[..., None], np.inf, log_wealth(np.minimum(mean, top)))

    return with_top
