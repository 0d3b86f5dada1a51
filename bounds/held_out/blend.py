"""Half the product rule, half bets that survive scores of 1, averaged over orders.

A mean of wealths, each of mean at most 1 under a null, is such a wealth again.  The product is as
good as any known rule for even scores and worthless once a score is 1; the bets of
:mod:`latecomer.bounds.held_out.star` lose little anywhere.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, Orders, priced
from latecomer.bounds.held_out.betting import (
    REALISED,
    RISK_STEPS,
    allowance,
    deviation_of_average,
    draw,
    each_sample,
    mean_catalogued,
)
from latecomer.bounds.held_out.star import (
    Ordered,
    along,
    highest_unsure,
    kept_risk,
    limits,
    product_wealth,
    star_ends,
    star_wealth,
)

__all__ = ["blend", "blend_refuses"]

# The slope of the wealth is taken over so many grid points.
_SLOPE = 2


@mean_catalogued(
    claim="Mean client score by half a product rule and half bets that aim, averaged over random "
    "orders.",
    source="this project; bets after Voracek and Orabona 2025 (arXiv 2505.22422)",
    sampling="iid or finite-pool",
    assumptions=(
        "the model, the rule, the number of clients and of orders were fixed before the first "
        "score was seen",
        "one score in [0, 1] per held-out client; clients i.i.d., in any order where the orders "
        "are drawn afresh, by a seed that no earlier sample used, else in the random order in "
        "which they were drawn",
        "with pool_size the clients are a uniform sample without replacement from a pool of so "
        f"many, whose mean is bounded, and then {REALISED}",
        "not for scores whose conditional means drift (use product_mixture)",
    ),
    vacuous_when="never for more than a few clients, unless their scores are near 1",
)
def blend(
    *,
    losses: ArrayLike,
    delta: ArrayLike,
    pool_size: ArrayLike | None = None,
    orders: ArrayLike | None = None,
    n_orders: int | None = None,
    seed: int | None = None,
    in_order: bool = False,
) -> Certificate:
    r"""One grid step above the largest g = i/10000 with (P + S) / 2 below 1/delta.

    For independent clients P is the product :math:`\prod_t (1 - L_t) / (1 - g)` and S the average
    over the orders of the wealth of :func:`latecomer.bounds.held_out.star.star` aiming at
    :math:`\ln(4/\delta)`: bets stop at their aim, so one order of an average must aim higher than
    one that stands alone, and a half at twice its share.  With ``pool_size`` P is the average over
    the same orders of the product of :func:`latecomer.bounds.held_out.finite_pool.product_wor` at
    the end of the sample, S that of ``star_wor``, and the bound lies between sum L / N and
    (sum L + N - k) / N.

    Each order's wealth has mean at most 1 if the risk is at least g, and so has the average
    (Markov's inequality, over clients and orders).

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, 1]
    delta : array_like, in (0, 1)
        Over the choice of clients and orders.
    pool_size : array_like of int, at least k, optional
        Clients N in the finite pool they were sampled from; independent clients unless given.
    orders : array_like of int, shape [M, k], optional
        Orders as lists of places, each a permutation of 0 ... k-1, drawn without looking at the
        scores.  If given, the next three must be left out.
    n_orders, seed, in_order
        As for :func:`latecomer.bounds.held_out.finite_pool.product_wor_averaged`.

    Examples
    --------
    >>> scores = [0.1, 0.05, 0.2, 0.15, 0.1] * 8
    >>> orders = [list(range(40)), list(range(39, -1, -1))]
    >>> float(blend(losses=scores, delta=0.05, orders=orders))
    0.185
    >>> hopeless = blend(losses=[*scores, 1.0], delta=0.05, seed=3)
    >>> round(float(hopeless), 4), round(float(hopeless.orders.sd), 3)
    (0.2402, 0.001)
    """
    scores, failure, _ = checks.scored(losses, delta)
    least = scores.shape[-1]
    pool = () if pool_size is None else (1.0 * checks.count("pool_size", pool_size, minimum=least),)
    ordered, told = _ordered(scores, orders, n_orders, seed, in_order)
    both = each_sample(_bound_and_deviation, ordered, failure, *pool, found=(2,))
    made = priced("blend", both[..., 0], scores.mean(axis=-1), {"clients and orders": failure})
    sampling = "finite-pool" if pool else "iid"
    return replace(made, sampling=sampling, orders=told and replace(told, sd=both[..., 1]))


def blend_refuses(
    losses: Array, delta: float, risk: float, orders: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether `blend` refuses one risk, for many samples of independent clients at once.

    Every sample is bet on along the same orders: a column each of the wealths of one array.  The
    bound is at most a grid point g where g and every grid point above are refused.

    Parameters
    ----------
    losses : ndarray, shape [S, k], in [0, 1]
    delta : float, in (0, 1)
    risk : float, in [0, 1)
    orders : ndarray of int, shape [M, k]
        Each a permutation of 0 ... k-1, drawn without looking at the losses.

    Returns
    -------
    ndarray of bool, shape [S]

    Examples
    --------
    >>> samples = np.array([[0.1] * 40, [0.2] * 40])
    >>> blend_refuses(samples, 0.05, 0.18, np.arange(40)[None]).tolist()
    [True, False]
    """
    n_samples, k = losses.shape
    columns = along(losses[:, orders].reshape(-1, k))
    won = star_ends(columns, np.array([risk]), float(np.log(4.0 / delta)))
    averages = np.logaddexp.reduce(won.reshape(n_samples, -1), axis=1) - np.log(len(orders))
    with np.errstate(divide="ignore"):
        product = np.log1p(-losses).sum(axis=1) - k * np.log1p(-risk)
    enough = np.log(2.0 / delta) + allowance(k)
    return np.asarray(np.logaddexp(averages, product) >= enough)


def _ordered(
    scores: Array,
    orders: ArrayLike | None,
    n_orders: int | None,
    seed: int | None,
    in_order: bool,
) -> tuple[Array, Orders | None]:
    """Lay scores out along all orders, [..., M, k], and tell of those that are drawn here."""
    if orders is None:
        how = draw(n_orders, seed, in_order)
        ordered = how.along(scores)
        return ordered, Orders(ordered.shape[-2], how.seed, how.in_order, np.zeros(()))
    if n_orders is not None or seed is not None or in_order:
        raise ValueError("n_orders, seed and in_order must be left out where orders are given")
    return scores[..., _places(orders, scores.shape[-1])], None


def _places(orders: ArrayLike, k: int) -> NDArray[np.int64]:
    legal = f"must be lists of the places 0 to {k - 1}, each once a list"
    places = checks.real("orders", orders, legal=legal)
    if places.ndim != 2 or 0 in places.shape or places.shape[-1] != k:
        raise ValueError(f"orders {legal}, got shape {places.shape}")
    wrong = (np.sort(places, axis=-1) != np.arange(k)).any(axis=-1)
    if wrong.any():
        raise ValueError(f"orders {legal}, got orders[{wrong.argmax()}] with others")
    return places.astype(np.int64)


def _bound_and_deviation(ordered: Array, delta: float, pool: float | None = None) -> Array:
    """Return the bound and its standard deviation over draws of as many orders, [2]."""
    sample = along(ordered, pool)
    # The average aims as high as its half's share asks, and at twice that: it has no single order.
    alone = float(np.log(2.0 / delta)) + allowance(ordered.shape[-1])
    aim = float(np.log(4.0 / delta))

    def refused(risks: Array) -> NDArray[np.bool_]:
        won = star_wealth(sample, risks, aim, alone)
        result = won >= alone
        for place in np.flatnonzero(~result).tolist():
            result[place] = np.logaddexp(won[place], _product(sample, risks[place])) >= alone
            if not result[place]:
                break
        return result

    highest = highest_unsure(sample, aim, alone, _kept_by_product(sample, alone))
    value = kept_risk(sample, refused, highest)
    return np.array([value, _deviation(sample, value, aim)])


def _product(sample: Ordered, risk: float) -> float:
    logs = product_wealth(sample, risk)
    return float(np.logaddexp.reduce(logs) - np.log(logs.size))


def _kept_by_product(sample: Ordered, alone: float) -> int:
    """Largest grid point that the product does not refuse alone: its wealth grows with the risk."""
    high, low = limits(sample)
    while low < high:
        middle = (low + high + 1) // 2
        if _product(sample, middle / RISK_STEPS) >= alone:
            high = middle - 1
        else:
            low = middle
    return high


def _deviation(sample: Ordered, value: float, aim: float) -> float:
    """Deviation of the average wealth at the bound, divided by the slope of its logarithm."""
    n_orders = sample.good.shape[1]
    if value >= sample.top or value <= sample.floor or n_orders == 1:
        # No order moves a bound that no order proved, and one order tells nothing of others.
        return 0.0 if n_orders > 1 else np.nan
    risks = np.array([value, max(value - _SLOPE / RISK_STEPS, 0.0)])
    product = np.stack([product_wealth(sample, float(risk)) for risk in risks])
    logs = np.logaddexp(product, star_ends(sample, risks, aim))
    deviation = float(deviation_of_average(logs[0]))
    rise = np.subtract(*np.logaddexp.reduce(logs, axis=1)) / (risks[0] - risks[1])
    return deviation / float(abs(rise)) if deviation else 0.0
