"""Rules for a mean as bets: the wealth that each wins against a hypothetical mean.

A rule that bets refuses a mean once its wealth against that mean passes 1/delta.  Its bound is the
smallest refused mean.  Its wealth against other means is needed where several bets, on functions of
the same scores, are combined before any mean is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Sampling
from latecomer.bounds.held_out.betting import bet_weights, fixed_bets, fixed_products
from latecomer.bounds.held_out.betting_orders import bets_of_orders as adaptive_bets_of_orders
from latecomer.bounds.held_out.orders import averaged, draw
from latecomer.bounds.held_out.pool_betting import (
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
    "wsr_averaged_bets",
]

LogWealth = Callable[[Array], Array]


@dataclass(frozen=True)
class Bets:
    """A way to bet on scores in [0, 1], fixed before the first of them is seen.

    Attributes
    ----------
    rule : str
        The calculator that bets in this way.
    sampling : str
        How clients must have been drawn: a tag of certificates.
    realised : bool
        Whether the bound is about a pool's scores as measured, not about expected scores.
    wealth : callable
        ``(scores [..., k], delta) -> (mean [...] -> log wealth [..., looks])``.  At the true mean
        the wealth is a supermartingale along its looks that starts at or below 1 on average, and
        so is a mean of wealths on functions of the same scores.  It never falls as the mean rises.
    """

    rule: str
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

    return Bets("product", "iid or finite-pool", False, wealth)


def betting_mixture_bets(n_bets: int = 10) -> Bets:
    """Bets of ``betting_mixture``: the average of prod (1 - l (L_i - R)) over l = 1, 1/2, ..."""
    fixed = checks.at_once("n_bets", n_bets)
    return Bets(
        "betting_mixture",
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
        "product_mixture",
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
        "wsr_averaged",
        "iid",
        False,
        lambda scores, delta: _once(averaged(adaptive_bets_of_orders(scores, delta, how))),
    )


def product_wor_bets(pool_size: ArrayLike) -> Bets:
    """Bets of ``product_wor``, along the order of sampling."""
    pool = checks.count("pool_size", pool_size).astype(np.float64)
    return Bets(
        "product_wor",
        "finite-pool",
        True,
        lambda scores, delta: _in_pool(product_path(scores, pool), scores, pool),
    )


def betting_wor_bets(pool_size: ArrayLike, n_bets: int = 5) -> Bets:
    """Bets of ``betting_wor``, along the order of sampling."""
    pool = checks.count("pool_size", pool_size).astype(np.float64)
    fixed = checks.at_once("n_bets", n_bets)
    return Bets(
        "betting_wor",
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
        "product_wor_averaged",
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
        "betting_wor_averaged",
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
