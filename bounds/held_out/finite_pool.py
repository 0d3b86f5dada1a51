"""Finite pools of clients: bounds of their mean, and of the whole curve of their scores.

If the pool of N clients has mean R, the clients not yet sampled must average
m_j(R) = (N R - sum_{i<j} L_i) / (N - j + 1), and client j's factor (1 - L_j) / (1 - m_j(R)) has
mean 1 given the clients before it.  The product of the factors f is a martingale, and so is any
average of products of 1 - l + l f.  A mean R under which the martingale passes 1/delta is refused
(Ville's inequality).  The factors grow with R, so that the means not refused form a half-line.

The bound is on the pool's mean of the scores *as they were measured*, on these points with these
draws: the sampled scores are subtracted from the pool's sum.  It does not bound clients' expected
scores over fresh points or fresh draws (``product``, ``chernoff_kl`` and ``betting_mixture`` do).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import (
    Array,
    Certificate,
    catalogued,
    halved,
    priced,
    rounded_up,
)
from latecomer.bounds.held_out.betting import REALISED, Draw, averaged, draw, mean_catalogued

__all__ = [
    "LARGEST_POOL",
    "betting_wor",
    "betting_wor_averaged",
    "pool_band",
    "product_wor",
    "product_wor_averaged",
]

_EPS = float(np.finfo(np.float64).eps)
_SAMPLED = (
    "the clients are a uniform sample without replacement from a pool of pool_size clients, the "
    "sampled ones included"
)
_IN_ORDER = "the scores stand in the random order in which their clients were sampled"


def _log_factors(scores: Array, pool: Array) -> Callable[[Array], Array]:
    """Return R -> logs of the factors (1 - L_j) / (1 - m_j(R)), shape [..., k].

    With T = N (1 - R), the pool's sum of one minus the scores, 1 - m_j is
    (T - sum_{i<j} (1 - L_i)) / (N - j + 1).
    """
    good = 1.0 - scores
    taken = np.cumsum(good, axis=-1) - good
    with np.errstate(divide="ignore"):
        logs_taken = np.log(good) + np.log(pool[..., None] - np.arange(scores.shape[-1]))

    def logs(risk: Array) -> Array:
        # Below the largest mean that a pool can have, only rounding can make this 0.
        left = np.asarray((pool * (1.0 - risk))[..., None] - taken)
        np.maximum(left, np.finfo(np.float64).tiny, out=left)
        # In place: new arrays of every order would take longer than their logarithms.
        return np.asarray(np.subtract(logs_taken, np.log(left, out=left), out=left))

    return logs


def product_path(scores: Array, pool: Array) -> Callable[[Array], Array]:
    """Return R -> logs of the products of the factors after each client, shape [..., k]."""
    logs = _log_factors(scores, pool)
    return lambda risk: np.cumsum(logs(risk), axis=-1)


def bets_path(scores: Array, pool: Array, n_bets: int) -> Callable[[Array], Array]:
    """Return R -> logs of the average wealth of bets 1, 1/2, ... after each client, [..., k]."""
    logs = _log_factors(scores, pool)
    return lambda risk: _mixed(logs(risk), n_bets, partial(np.cumsum, axis=-1))


def _mixed(of_one: Array, n_bets: int, collected: Callable[[Array], Array]) -> Array:
    """Log of the average over bets 1, 1/2, ... of the wealth that logs of the factors collect."""
    # A factor is infinite at the largest possible mean alone, where less wealth is no harm.
    gains = np.minimum(of_one, 700.0)
    np.expm1(gains, out=gains)
    bet_on = np.empty_like(gains)
    with np.errstate(divide="ignore"):
        each = [
            collected(np.log1p(np.multiply(gains, bet, out=bet_on), out=bet_on))
            for bet in 0.5 ** np.arange(n_bets)
        ]
    return np.asarray(np.logaddexp.reduce(np.stack(each), axis=0) - np.log(n_bets))


def product_of_orders(scores: Array, pool: Array, orders: Draw) -> Callable[[Array], Array]:
    """Return R -> logs of the last products of the factors along each order, [..., n_orders]."""
    logs = _log_factors(orders.along(scores), pool[..., None])
    return lambda risk: np.asarray(logs(risk[..., None]).sum(axis=-1))


def bets_of_orders(
    scores: Array, pool: Array, n_bets: int, orders: Draw
) -> Callable[[Array], Array]:
    """Return R -> logs of the last average wealth of bets 1, 1/2, ... along each order."""
    logs = _log_factors(orders.along(scores), pool[..., None])
    return lambda risk: _mixed(logs(risk[..., None]), n_bets, partial(np.sum, axis=-1))


def _pool_root(
    log_wealth: Callable[[Array], Array], scores: Array, pool: Array, failure: Array
) -> Array:
    """Smallest refused mean of the pool, rounded up; the largest possible mean if there is none."""
    k = scores.shape[-1]
    target = -np.log(failure)
    low = np.asarray(scores.sum(axis=-1) / pool + np.zeros(failure.shape))
    top = low + (pool - k) / pool
    high = halved(low, top, 54, lambda risk: log_wealth(risk) > target)[1]
    # An error e in the differences T - sum moves the root by e / N; an error e in the logarithms by
    # e over the slope, which is at least the number of factors, or what a small bet has won.
    rounding = 16.0 * (k + 8) * _EPS / np.minimum(target, 1.0)
    return np.asarray(np.minimum(np.minimum(high + rounding, top * (1.0 + k * _EPS)), 1.0))


def _checked(
    losses: ArrayLike, delta: ArrayLike, pool_size: ArrayLike
) -> tuple[Array, Array, Array]:
    scores, failure, _ = checks.scored(losses, delta)
    pool = checks.count("pool_size", pool_size, minimum=scores.shape[-1]).astype(np.float64)
    return scores, failure, pool


@mean_catalogued(
    claim="Mean of a finite pool's realised scores by the product of what they leave of the rest.",
    source="this project; betting without replacement of Waudby-Smith and Ramdas 2020",
    sampling="finite-pool",
    assumptions=(
        "the model, the rule and the order of the clients were fixed before the first score",
        f"{_SAMPLED}; {_IN_ORDER}",
        "scores lie in [0, 1]",
        REALISED,
    ),
    vacuous_when="never once most of the pool was scored; a score of 1 ends the bets",
)
def product_wor(*, losses: ArrayLike, delta: ArrayLike, pool_size: ArrayLike) -> Certificate:
    """Smallest mean R of the pool with max_t prod_{j<=t} (1 - L_j) / (1 - m_j(R)) >= 1/delta.

    m_j(R) = (N R - sum_{i<j} L_i) / (N - j + 1) for a pool of N, and R is at most
    (sum L + N - k) / N, the largest mean possible: the mean itself when the whole pool was scored.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, 1]
        In the order they were sampled.
    delta : array_like, in (0, 1)
        Over the random order.
    pool_size : array_like of int, at least k
        Clients N in the pool.

    Examples
    --------
    >>> round(float(product_wor(losses=[0.1, 0.25] * 15, delta=0.05, pool_size=40)), 6)
    0.218918
    """
    scores, failure, pool = _checked(losses, delta, pool_size)
    won = product_path(scores, pool)
    value = _pool_root(lambda risk: won(risk).max(axis=-1), scores, pool, failure)
    return priced("product_wor", value, scores.mean(axis=-1), {"clients": failure})


@mean_catalogued(
    claim="Mean of a finite pool's realised scores by a mixture of bets on what is left of it.",
    source="this project; betting without replacement of Waudby-Smith and Ramdas 2020",
    sampling="finite-pool",
    assumptions=(
        "the model, the rule, n_bets and the order of the clients were fixed before the first "
        "score",
        f"{_SAMPLED}; {_IN_ORDER}",
        "scores lie in [0, 1]",
        REALISED,
    ),
    vacuous_when="never once most of the pool was scored; survives scores of 1",
)
def betting_wor(
    *, losses: ArrayLike, delta: ArrayLike, pool_size: ArrayLike, n_bets: int = 5
) -> Certificate:
    """Smallest mean R of the pool at which the average wealth of bets l reaches 1/delta.

    The wealth of l is prod_{j<=t} (1 + l (m_j(R) - L_j) / (1 - m_j(R))), averaged over
    l = 1, 1/2, 1/4, ... and then maximised over t; l = 1 alone gives :func:`product_wor`.

    Parameters
    ----------
    losses, delta, pool_size
        As for :func:`product_wor`.
    n_bets : int
        Number of bets, at least 1.

    Examples
    --------
    >>> scores = [0.1, 0.25] * 14 + [1.0, 0.1]
    >>> round(float(betting_wor(losses=scores, delta=0.05, pool_size=40)), 6)
    0.24674
    """
    scores, failure, pool = _checked(losses, delta, pool_size)
    n_fixed = checks.at_once("n_bets", n_bets)
    won = bets_path(scores, pool, n_fixed)
    value = _pool_root(lambda risk: won(risk).max(axis=-1), scores, pool, failure)
    return priced("betting_wor", value, scores.mean(axis=-1), {"clients": failure})


_OVER_ORDERS = (
    "the clients' own order does not matter where the orders are drawn afresh, by a seed that no "
    "earlier sample used; with in_order they permute the random order in which clients were sampled"
)


def _over_orders(
    name: str, each: Callable[[Array], Array], scores: Array, pool: Array, failure: Array, how: Draw
) -> Certificate:
    """Refuse every mean against which the average over orders wins 1/delta."""
    value = _pool_root(averaged(each), scores, pool, failure)
    low = scores.sum(axis=-1) / pool
    told = how.told(each, value, low, low + (pool - scores.shape[-1]) / pool)
    made = priced(name, value, scores.mean(axis=-1), {"clients and orders": failure})
    return replace(made, orders=told)


@mean_catalogued(
    claim="As product_wor, the last wealth averaged over random orders: no order need be known.",
    source="this project",
    sampling="finite-pool",
    assumptions=(
        "the model, the rule, the number of clients and n_orders were fixed before the first score "
        "was seen",
        f"{_SAMPLED}; {_OVER_ORDERS}",
        "scores lie in [0, 1]",
        REALISED,
    ),
    vacuous_when="never once most of the pool was scored; a score of 1 leaves what is certain",
)
def product_wor_averaged(
    *,
    losses: ArrayLike,
    delta: ArrayLike,
    pool_size: ArrayLike,
    n_orders: int | None = None,
    seed: int | None = None,
    in_order: bool = False,
) -> Certificate:
    """Smallest mean R at which the orders' average of prod_j (1 - L_j) / (1 - m_j(R)) is 1/delta.

    An order drawn without looking at the scores, anew for this sample, is as good as the order in
    which its clients were sampled: each order's last wealth has mean 1 at the true R, and so has
    the average.  Markov's inequality then holds over the choice of clients *and of the orders*.
    A fixed permutation of the order of sampling is such an order too; of sorted scores it is none.
    An average over orders has no such bound along prefixes: only the last wealth counts.

    Parameters
    ----------
    losses : array_like
        Scores in [0, 1], shape [..., k], clients last; sorted first unless ``in_order``.
    delta : array_like
        Failure probability over clients and orders, strictly between 0 and 1.
    pool_size : array_like of int, at least k
        Clients N in the pool.
    n_orders : int, optional
        Orders, at least 1; 256 for up to 1,000 clients, 64 for up to 10,000, 8 above unless given.
    seed : int, optional
        Seed of the orders, at least 0, to repeat a certificate; drawn afresh unless given, and
        stated in ``orders``.  Where it is the same for every sample there is no proof.
    in_order : bool
        Whether scores stand in the random order of sampling, of which fixed permutations are taken.

    Examples
    --------
    >>> bound = product_wor_averaged(losses=[0.1, 0.25] * 15, delta=0.05, pool_size=40, seed=1)
    >>> round(float(bound), 6), round(float(bound.orders.sd), 4)
    (0.219597, 0.0002)
    """
    scores, failure, pool = _checked(losses, delta, pool_size)
    how = draw(n_orders, seed, in_order)
    each = product_of_orders(scores, pool, how)
    return _over_orders("product_wor_averaged", each, scores, pool, failure, how)


@mean_catalogued(
    claim="As betting_wor, the last wealth averaged over random orders: no order need be known.",
    source="this project; betting without replacement of Waudby-Smith and Ramdas 2020",
    sampling="finite-pool",
    assumptions=(
        "the model, the rule, the number of clients, n_bets and n_orders were fixed before the "
        "first score was seen",
        f"{_SAMPLED}; {_OVER_ORDERS}",
        "scores lie in [0, 1]",
        REALISED,
    ),
    vacuous_when="never once most of the pool was scored; survives scores of 1",
)
def betting_wor_averaged(
    *,
    losses: ArrayLike,
    delta: ArrayLike,
    pool_size: ArrayLike,
    n_bets: int = 5,
    n_orders: int | None = None,
    seed: int | None = None,
    in_order: bool = False,
) -> Certificate:
    """Smallest mean R at which the average over bets l and orders of the last wealth is 1/delta.

    The wealth of l along an order is prod_j (1 + l (m_j(R) - L_j) / (1 - m_j(R))), the bets are
    those of :func:`betting_wor` and the orders those of :func:`product_wor_averaged`, whose proof
    holds here: every bet's last wealth along every order has mean 1 at the true R.

    Parameters
    ----------
    losses, delta, pool_size, n_orders, seed, in_order
        As for :func:`product_wor_averaged`.
    n_bets : int
        Number of bets, at least 1.

    Examples
    --------
    >>> scores = [0.1, 0.25] * 14 + [1.0, 0.1]
    >>> bound = betting_wor_averaged(losses=scores, delta=0.05, pool_size=40, seed=1)
    >>> round(float(bound), 6)
    0.308871
    """
    scores, failure, pool = _checked(losses, delta, pool_size)
    how = draw(n_orders, seed, in_order)
    each = bets_of_orders(scores, pool, checks.at_once("n_bets", n_bets), how)
    return _over_orders("betting_wor_averaged", each, scores, pool, failure, how)


LARGEST_POOL = 100_000
"""Clients of a pool that is walked down one by one, a few times."""


@catalogued(
    family="hold-out",
    claim="Half-width that makes the share of a pool's clients above every threshold right at "
    "once.",
    source="this project: exact law of the largest deviation, by counting lattice paths",
    assumptions=(
        "the model and the number of clients were fixed before the first score was seen",
        "the sampled clients are a uniform sample without replacement from the pool",
        "shares are of the scores as they were measured, on these points with these draws, not of "
        "expected scores over fresh ones",
    ),
    vacuous_when="a handful of clients: the width is .9 for one of ten at delta .05",
)
def pool_band(*, n_sampled: ArrayLike, pool_size: ArrayLike, delta: ArrayLike) -> Array:
    r"""Width to add to the sampled share of clients above a threshold, for all thresholds at once.

    With H_b sampled clients among the b worst of the pool's N, the width is the smallest w with
    :math:`P(\max_b (b/N - H_b/n) > w) \le \delta`; equal scores only make the maximum smaller.

    Parameters
    ----------
    n_sampled, pool_size, delta
        As for :func:`latecomer.bounds.held_out.counting.pool_fraction`; at most 100,000 clients.

    Examples
    --------
    >>> round(float(pool_band(n_sampled=30, pool_size=40, delta=0.05)), 4)
    0.1083
    """
    n = checks.count("n_sampled", n_sampled)
    pool = checks.count("pool_size", pool_size, most=LARGEST_POOL)
    failure = checks.failure_probability("delta", delta)
    checks.at_most("n_sampled", n, "pool_size", pool)
    return rounded_up(np.vectorize(_width, otypes=[np.float64])(n, pool, failure))


def _width(n: int, pool: int, delta: float) -> float:
    """Smallest j/(n N) that the deviation exceeds with probability at most delta.

    Deviations are multiples of the greatest common divisor of n and N.  Their tail is near that of
    a normal one, so that the root of -ln P grows about linearly: that finds the least in few walks.
    """
    step = math.gcd(n, pool)
    # Slightly below delta, so that rounding in the sum can only widen the band.
    most = delta * (1.0 - 1e-10)
    wanted = math.sqrt(-math.log(most))
    low, high = -1, n * pool // step
    # As far from the mean, in those roots; nothing is further than the whole.
    at_low, at_high = 0.0, math.inf
    tried = math.sqrt(n * pool * (pool - n) / 2.0) * wanted / step
    while high - low > 1:
        middle = min(max(int(tried), low + 1), high - 1)
        chance = _exceeds(middle * step, n, pool)
        if chance <= most:
            high, at_high = middle, math.sqrt(-math.log(chance)) if chance else math.inf
        else:
            low, at_low = middle, math.sqrt(-math.log(min(chance, 1.0)))
        far = (wanted - at_low) / (at_high - at_low) if at_high < math.inf else 0.5
        # Beside the nearer end, which leaves the other where it is only once.
        tried = low + far * (high - low) + (0 if far > 0.5 else 1)
    return high * step / (n * pool)


# Chances that are let go, and count as exceeding, which is safe.
_NEGLIGIBLE = 1e-40


def _exceeds(limit: int, n: int, pool: int) -> float:
    """P(some b has b n - H_b N > limit), walking down the pool from its worst client."""
    # Chances of H_b sampled clients that were never too few: only those that are worth a number.
    first, weight, lost = 0, np.ones(1), 0.0
    for worst in range(1, pool + 1):
        held = np.arange(first, first + len(weight))
        # The share first: where all that are left must be sampled, it is 1 and leaves exactly 0.
        taken = weight * ((n - held) / (pool - worst + 1))
        weight = np.append(weight - taken, 0.0)
        weight[1:] += taken
        too_few = max(-((limit - worst * n) // pool) - first, 0)
        gone = max(too_few, int((weight > _NEGLIGIBLE).argmax()))
        lost += float(weight[:gone].sum())
        if lost >= 1.0 or gone >= len(weight):
            return 1.0
        first, weight = first + gone, weight[gone:]
        if weight[-1] <= _NEGLIGIBLE:
            lost += float(weight[-1])
            weight = weight[:-1]
    return lost
