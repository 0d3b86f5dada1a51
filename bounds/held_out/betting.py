"""Upper confidence limits by betting against a hypothetical mean, along orders of the clients.

A gambler's wealth prod(1 - nu_i (L_i - R)) has mean at most 1 when the risk is at least R, so a
risk R under which the wealth exceeds 1/delta is refused. The wealth increases with R: the bound is
the smallest refused R, found by bisection and rounded up.

Nulls are one-sided, "the risk is at least g", for g on the grid 0, 1/10000, ..., 1, and the bound
is one step above the largest g that is not refused.  Proof: if the risk were above the bound, let
g' be the largest grid point at or below the risk.  Then g' is at least the bound, so it is refused;
but its null is true, and a true null is refused with probability at most delta.  One null counts,
so no union is paid.  The smallest refused point is proved at 2 delta only: so points are looked at
from the top, all of them, down to the first that is not refused; of a span of points it may be
proved at once that none is kept (:func:`latecomer.bounds.held_out.star.highest_unsure`).

A bet along an order is a martingale only if the order is random given the scores.  Two orders are:
that in which the clients were sampled, with every fixed permutation of it; and one drawn afresh, by
a seed that was not used before.  Sorted scores permuted by a seed that is the same for every sample
are in no random order: each rank then stands at the same place for everybody.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, Orders, catalogued, halved, priced
from latecomer.bounds.unit_scale import outward

__all__ = [
    "BET_WEIGHTS",
    "RISK_STEPS",
    "allowance",
    "betting_mixture",
    "each_sample",
    "last_kept",
    "product_mixture",
    "wsr",
    "wsr_wor",
]

RISK_STEPS = 10_000
mean_catalogued = partial(
    catalogued, family="hold-out", population="unseen-client", predictor="any"
)
_EPS = float(np.finfo(np.float64).eps)
# Wealths that a block of grid points holds at most, and at least: a step through a smaller block
# costs as much as through this one.
_LARGEST_BLOCK, _LEAST_BLOCK = 2**16, 2**10


def allowance(n: int) -> float:
    """Return what rounding can add to the log wealth of ``n`` bets; no risk is refused by less."""
    return 16.0 * (n + 8) * _EPS


def last_kept(
    refused: Callable[[Array], NDArray[np.bool_]],
    *,
    top: int,
    floor: int = -1,
    width: int = 1,
) -> int:
    """Index of the largest grid point from ``top`` downwards that is not refused.

    ``refused`` says it of falling risks [G], holding ``width`` wealths for each.  Grid points above
    ``top`` are refused, ``floor`` is not; -1 stands for "none is kept".
    """
    most, size = max(1, _LARGEST_BLOCK // width), max(1, _LEAST_BLOCK // width)
    while top > floor:
        points = np.arange(top, max(top - size, floor), -1)
        kept = ~refused(points / RISK_STEPS)
        if kept.any():
            return int(points[kept.argmax()])
        top, size = int(points[-1]) - 1, min(2 * size, most)
    return floor


def each_sample(
    bound: Callable[..., float | Array],
    ordered: Array,
    *settings: Array,
    found: tuple[int, ...] = (),
) -> Array:
    """``bound(scores [M, k], setting, ...)`` for all leading axes, broadcast against each other.

    ``found`` is the shape of what it returns.
    """
    shape = np.broadcast_shapes(ordered.shape[:-2], *(one.shape for one in settings))
    samples = np.broadcast_to(ordered, (*shape, *ordered.shape[-2:]))
    given = [np.broadcast_to(one, shape) for one in settings]
    values = np.array(
        [bound(samples[at], *(float(one[at]) for one in given)) for at in np.ndindex(*shape)]
    )
    return np.asarray(values.reshape((*shape, *found)))


BET_WEIGHTS = (0.05, 0.05, 0.05, 0.05, 0.8)
"""Weights of ``product_mixture`` on the bets 1/5, ..., 1 that lean on the product rule."""


def first_refused(
    log_wealth: Callable[[Array], Array],
    low: Array,
    high: Array,
    failure: Array,
    n: int | NDArray[np.int64],
) -> Array:
    """Smallest R in [low, high] whose log wealth exceeds ln(1/delta), ``high`` if there is none."""
    target = -np.log(failure)
    low, top, target = np.broadcast_arrays(low, high, target)
    with np.errstate(divide="ignore"):
        # 53 halvings of an interval within [0, 1] leave one unit in the last place of 1.
        root = halved(low, top, 53, lambda risk: log_wealth(risk) > target)[1]
    # Each summand is at most 2 / slope, so a running sum's rounding moves the root by at most this.
    return np.asarray(np.minimum(root + 2.0 * (n + 8) * _EPS, top))


def adaptive_bets(scores: Array, failure: Array) -> Array:
    """Predictable bets of Waudby-Smith and Ramdas from the scores before each client, at most 1."""
    return np.minimum(1.0, wanted_bets(scores, failure))


def wanted_bets(scores: Array, failure: Array) -> Array:
    """Return the bets of ``adaptive_bets`` without their limit."""
    k = scores.shape[-1]
    rank = np.arange(1, k + 1)
    mean = (0.5 + np.cumsum(scores, axis=-1)) / (rank + 1)
    variance = (0.25 + np.cumsum((scores - mean) ** 2, axis=-1)) / (rank + 1)
    before = np.concatenate([np.full_like(variance[..., :1], 0.25), variance[..., :-1]], axis=-1)
    return np.asarray(np.sqrt(-2.0 * np.log(failure)[..., None] / (k * before)))


def capped_gains(scores: Array, wanted: Array, cap: float, risks: Array) -> Array:
    """Return logs of 1 - nu (L - R) for bets of at most max(1, cap / (1 - R)), [G, ..., k]."""
    left = 1.0 - risks.reshape(-1, *[1] * scores.ndim)
    # As a share of the largest legal bet 1 / (1 - R), so that a loss of 1 leaves exactly nothing.
    share = np.minimum(wanted * left, np.maximum(left, cap))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(1.0 + share * ((1.0 - scores) / left - 1.0)))


def fixed_bets(scores: Array, n_bets: int) -> Callable[[Array], Array]:
    """Return R -> log of the average wealth of the bets 1, 1/2, 1/4, ... against R."""
    bets = 0.5 ** np.arange(n_bets)

    def log_wealth(risk: Array) -> Array:
        edge = risk[..., None] - scores
        each = [np.log1p(bet * edge).sum(axis=-1) for bet in bets]
        return np.asarray(np.logaddexp.reduce(np.stack(each), axis=0) - np.log(n_bets))

    return log_wealth


def bet_weights(n_bets: int | None, weights: ArrayLike | None) -> Array:
    """Weights of the bets 1/J, ..., 1: those given, or equal ones of ``n_bets`` (5 unless given).

    Raises
    ------
    ValueError
        The weights are no list of numbers in [0, 1] that sum to 1, or not as many as ``n_bets``.
    """
    if weights is None:
        number = 5 if n_bets is None else checks.at_once("n_bets", n_bets)
        return np.full(number, 1.0 / number)
    given = checks.interval("weights", weights, 0.0, 1.0)
    legal = "weights must be a list of numbers in [0, 1] that sum to 1"
    if given.ndim != 1 or not given.size:
        raise ValueError(f"{legal}, got shape {given.shape}")
    total = float(given.sum())
    if abs(total - 1.0) > 1e-9:
        raise ValueError(f"{legal}, got sum={total:.12g}")
    if n_bets is not None and checks.at_once("n_bets", n_bets) != given.size:
        raise ValueError(
            f"n_bets must be left out beside {given.size} weights, got n_bets={n_bets}"
        )
    return np.asarray(given / max(total, 1.0))


def fixed_products(scores: Array, weights: Array) -> Callable[[Array], Array]:
    """Return R -> log of the weighted mean of prod (1 - b L) / (1 - b R) for b = 1/J, ..., 1."""
    return _products(scores, weights, lambda logs: logs.sum(axis=-1), np.array(scores.shape[-1]))


def fixed_products_path(scores: Array, weights: Array, known: int) -> Callable[[Array], Array]:
    """Return the same after every client beyond the first ``known``, [..., k - known], like R."""
    seen = np.arange(known + 1, scores.shape[-1] + 1)
    return _products(scores, weights, lambda logs: np.cumsum(logs, axis=-1)[..., known:], seen)


def _products(
    scores: Array, weights: Array, total: Callable[[Array], Array], n: NDArray[np.int64]
) -> Callable[[Array], Array]:
    """Bet on ``n`` clients, over whom ``total`` adds up."""
    of_use = weights > 0.0
    bets, shares = (np.arange(1, weights.size + 1) / weights.size)[of_use], weights[of_use]
    with np.errstate(divide="ignore"):
        # Wealth is rounded down.  A sum of n terms of one sign is off by at most n roundings.
        staked = [np.minimum(bet * scores * (1.0 + 2.0 * _EPS), 1.0) for bet in bets]
        kept = np.stack([total(np.log1p(-each)) * (1.0 + (n + 8) * _EPS) for each in staked])
    stakes, parts = -bets, np.log(shares)

    def log_wealth(risk: Array) -> Array:
        # All bets at once, along the first axis: searches ask for few risks at a time.
        axes = max(risk.ndim, kept.ndim - 1)
        one_a_bet = (-1, *[1] * axes)
        logs = kept.reshape(len(bets), *[1] * (axes + 1 - kept.ndim), *kept.shape[1:])
        paid = np.log1p(stakes.reshape(one_a_bet) * risk * (1.0 - 2.0 * _EPS))
        each = logs - n * paid * (1.0 - 4.0 * _EPS) + parts.reshape(one_a_bet)
        mixed = np.logaddexp.reduce(each, axis=0)
        return np.asarray(mixed - 16.0 * _EPS * (1.0 + np.abs(mixed)))

    return log_wealth


_ORDER = (
    "the model, the rule, the number of clients and their order were fixed before the first score "
    "was seen"
)
_BETS_FIXED = (
    "the model, the rule, the number of clients and n_bets were fixed before the first score was "
    "seen"
)
REALISED = (
    "the pool's mean is of the scores as they were measured, on these points with these draws, "
    "not of expected scores over fresh ones"
)


@mean_catalogued(
    claim="Mean client score by bets that adapt to the scores seen so far.",
    source="Waudby-Smith and Ramdas 2024; upper-bound form of Bates et al. 2021",
    sampling="iid",
    assumptions=(
        _ORDER,
        "the order has nothing to do with the scores: an order by ids, or by a hash of them, may "
        "(wsr_averaged needs none)",
        "one score in [0, loss_max] per held-out client, clients i.i.d.",
        "not for a finite pool (use product_wor) nor for scores whose conditional means drift",
    ),
    vacuous_when="too few clients to win 1/delta: below about 5 at delta .05",
)
def wsr(
    *, losses: ArrayLike, delta: ArrayLike, cap: ArrayLike = 0.0, loss_max: float = 1.0
) -> Certificate:
    """Smallest risk R with max_i prod_{j<=i} (1 - nu_j (L_j - R)) > 1/delta, or ``loss_max``.

    For sequences whose order is known to have nothing to do with the scores; where only ids
    are known use :func:`latecomer.bounds.held_out.bets.wsr_averaged`.

    nu_i = min(1, sqrt(2 ln(1/delta) / (k s_{i-1}))), where s_{i-1} is the shrunken variance of the
    scores before client i (1/4 at first). Losses are divided by ``loss_max`` first.

    With a ``cap`` above 0 the first 1 becomes max(1, cap / (1 - R)): bets of up to 1 / (1 - R) are
    legal.  That gains .005 to .025 on even scores and costs up to .1 where some clients score 1.
    The wealth is then not monotone in R, and the bound is one step above the largest R = i/10000
    that is not refused (:mod:`latecomer.bounds.held_out.betting`).

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, loss_max]
        In an order fixed beforehand.
    delta : array_like, in (0, 1)
    cap : float, in [0, 1]
        How far bets may go beyond 1, fixed beforehand.
    loss_max : float, positive

    Examples
    --------
    >>> round(float(wsr(losses=[0.1, 0.05, 0.2, 0.15, 0.1] * 8, delta=0.05)), 10)
    0.1995426893
    """
    scores, failure, top = checks.scored(losses, delta, loss_max)
    unit = scores / top
    beyond = checks.one_in("cap", cap, 0.0, 1.0)
    if beyond > 0.0:
        unit_value = each_sample(partial(_capped, beyond), unit[..., None, :], failure)
        value = np.minimum(outward(unit_value, top), top)
        return priced("wsr", value, scores.mean(axis=-1), {"clients": failure}, top)
    bets = adaptive_bets(unit, failure)

    def log_wealth(risk: Array) -> Array:
        gains = np.log1p(bets * (risk[..., None] - unit))
        return np.asarray(np.cumsum(gains, axis=-1).max(axis=-1))

    zero = np.zeros(np.broadcast_shapes(unit.shape[:-1], failure.shape))
    value = top * first_refused(log_wealth, zero, zero + 1.0, failure, unit.shape[-1])
    return priced("wsr", value, scores.mean(axis=-1), {"clients": failure}, top)


def _capped(cap: float, ordered: Array, delta: float) -> float:
    """Bound of ``wsr`` with bets beyond 1, for scores [1, k]."""
    wanted = wanted_bets(ordered, np.array([delta]))
    needed = allowance(ordered.size) - np.log(delta)

    def refused(risks: Array) -> NDArray[np.bool_]:
        gains = capped_gains(ordered, wanted, cap, risks)
        return np.asarray(np.cumsum(gains, axis=-1).max(axis=-1)[:, 0] >= needed)

    last = last_kept(refused, top=RISK_STEPS - 1, width=ordered.size)
    return (last + 1) / RISK_STEPS


@mean_catalogued(
    claim="Mean score of a finite pool's clients by adaptive bets, sampled without replacement.",
    source="Waudby-Smith and Ramdas 2020 (idea); this form and its cap are this project's",
    sampling="finite-pool",
    assumptions=(
        _ORDER,
        "the clients are a uniform sample without replacement, in uniform order, from a pool of "
        "pool_size clients whose mean score is bounded (the sampled ones included)",
        "scores lie in [0, loss_max]",
        REALISED,
    ),
    vacuous_when="too few clients to win 1/delta: below about 5 at delta .05 in a large pool",
)
def wsr_wor(
    *, losses: ArrayLike, delta: ArrayLike, pool_size: ArrayLike, loss_max: float = 1.0
) -> Certificate:
    """Bound of :func:`wsr` with R replaced at client j by the mean the rest of the pool must have.

    m_j = (N R - sum_{i<j} L_i) / (N - j + 1) for a pool of N. The bound is never above
    (sum L + N - k) / N, which no pool's mean can exceed.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, loss_max]
        In the order they were sampled.
    delta : array_like, in (0, 1)
    pool_size : array_like of int, at least k
        Clients N in the pool.
    loss_max : float, positive

    Examples
    --------
    >>> cert = wsr_wor(losses=[0.1, 0.05, 0.2, 0.15, 0.1] * 8, delta=0.05, pool_size=60)
    >>> round(float(cert), 6) < 0.1995
    True
    """
    scores, failure, top = checks.scored(losses, delta, loss_max)
    k = scores.shape[-1]
    pool = checks.count("pool_size", pool_size, minimum=k).astype(np.float64)
    unit = scores / top
    bets = adaptive_bets(unit, failure)
    total = np.sum(unit, axis=-1)
    before = np.concatenate([np.zeros_like(unit[..., :1]), np.cumsum(unit, axis=-1)[..., :-1]], -1)
    left = pool[..., None] - np.arange(k)

    def log_wealth(risk: Array) -> Array:
        rest = ((pool * risk)[..., None] - before) / left
        return np.asarray(
            np.cumsum(np.log1p(np.maximum(bets * (rest - unit), -1.0)), axis=-1).max(axis=-1)
        )

    low = total / pool + np.zeros(failure.shape)
    high = low + (pool - k) / pool
    root = first_refused(log_wealth, low, high * (1.0 + 8.0 * _EPS), failure, k)
    value = top * np.minimum(root, 1.0)
    return priced("wsr_wor", value, scores.mean(axis=-1), {"clients": failure}, top)


@mean_catalogued(
    claim="Mean client score by a fixed mixture of constant bets, in any order.",
    source="this project: a mixture over fixed bets and Markov's inequality, negative association "
    "without replacement",
    sampling="iid or finite-pool",
    assumptions=(
        _BETS_FIXED,
        "one score in [0, loss_max] per held-out client",
        "clients i.i.d., or a uniform sample without replacement from a finite pool whose mean is "
        "then what is bounded, or independent scores with means of their own, whose average it is "
        "then",
        "not for scores whose conditional means react to earlier ones (use product_mixture)",
    ),
    vacuous_when="too few clients for any bet to win n_bets/delta",
)
def betting_mixture(
    *, losses: ArrayLike, delta: ArrayLike, n_bets: int = 10, loss_max: float = 1.0
) -> Certificate:
    """Smallest risk R with (1/J) sum_{j<J} prod_t (1 - 2^-j (L_t - R)) > 1/delta, or ``loss_max``.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, loss_max]
    delta : array_like, in (0, 1)
    n_bets : int
        Number J of bets 1, 1/2, 1/4, ..., at least 1.
    loss_max : float, positive

    Examples
    --------
    >>> round(float(betting_mixture(losses=[0.1, 0.05, 0.2, 0.15, 0.1] * 8, delta=0.05)), 10)
    0.2586384373
    """
    fixed = checks.at_once("n_bets", n_bets)
    return _mixture(
        "betting_mixture", lambda unit: fixed_bets(unit, fixed), losses, delta, loss_max
    )


@mean_catalogued(
    claim="Mean of scores whose means may react to earlier scores, by a mixture of products.",
    source="this project: prod (1 - b x_t) / (1 - b mu_t) is a martingale; Markov's inequality and "
    "that of arithmetic and geometric means",
    sampling="iid or finite-pool",
    assumptions=(
        _BETS_FIXED,
        "one score in [0, loss_max] per held-out client",
        "clients i.i.d., or a uniform sample without replacement from a finite pool whose mean is "
        "then what is bounded, or scores whose conditional means drift, whose average it is then",
    ),
    vacuous_when="too few clients for any bet to win 1/delta by its own weight",
)
def product_mixture(
    *,
    losses: ArrayLike,
    delta: ArrayLike,
    n_bets: int | None = None,
    weights: ArrayLike | None = None,
    loss_max: float = 1.0,
) -> Certificate:
    r"""Smallest R with sum_b w_b prod_t (1 - b L_t) / (1 - b R) > 1/delta, or ``loss_max``.

    The bets b are 1/J, 2/J, ..., 1 with weights w, equal ones unless given, and losses are divided
    by ``loss_max`` first.  The bet 1 alone is :func:`latecomer.bounds.held_out.losses.product`; the
    others survive a score of 1.  :data:`BET_WEIGHTS` loses little to the product on even scores.

    Let :math:`\mu_t` be the mean of score t given those before it.  Whatever it depends on,
    :math:`\prod_t (1 - b L_t) / (1 - b \mu_t)` has mean 1, and :math:`\prod_t (1 - b \mu_t)` is
    at most :math:`(1 - b \mu)^k` for the average :math:`\mu` of the :math:`\mu_t`: the mixture at
    :math:`R = \mu` has mean at most 1, although that average is itself random.  The bets of
    :func:`betting_mixture` are :math:`b / (1 + b R)` in this form and so depend on the average.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, loss_max]
    delta : array_like, in (0, 1)
    n_bets : int, optional
        Number J of bets, at least 1; 5 unless given.
    weights : array_like, shape [J], in [0, 1], optional
        Shares of the bets 1/J, ..., 1 in the wealth at the start, which sum to 1; equal ones unless
        given.  Fixed before the first score.
    loss_max : float, positive

    Examples
    --------
    >>> scores = [0.1, 0.05, 0.2, 0.15, 0.1] * 8
    >>> round(float(product_mixture(losses=scores, delta=0.05)), 10)
    0.2069763062
    >>> round(float(product_mixture(losses=scores, delta=0.05, weights=BET_WEIGHTS)), 10)
    0.1882490779
    """
    shares = bet_weights(n_bets, weights)
    return _mixture(
        "product_mixture", lambda unit: fixed_products(unit, shares), losses, delta, loss_max
    )


def _mixture(
    rule: str,
    wealth: Callable[[Array], Callable[[Array], Array]],
    losses: ArrayLike,
    delta: ArrayLike,
    loss_max: float,
) -> Certificate:
    """Refuse every risk against which a fixed number of fixed bets wins more than 1/delta."""
    scores, failure, top = checks.scored(losses, delta, loss_max)
    unit = scores / top
    won = wealth(unit)
    zero = np.zeros(np.broadcast_shapes(unit.shape[:-1], failure.shape))
    value = top * first_refused(won, zero, zero + 1.0, failure, unit.shape[-1])
    return priced(rule, value, scores.mean(axis=-1), {"clients": failure}, top)


# Fixed by the number of clients, so that nobody chooses it after looking at a bound.
_ORDERS_UP_TO = ((1_000, 256), (10_000, 64))
_ORDERS_OF_MORE = 8
_N_SEEDS = 2**32
# Wealths that differ by less, relatively, differ by the order in which their logarithms are added.
_ROUNDING_OF_SUMS = 1e-10


def fresh_seed() -> int:
    """Return a seed from the operating system's entropy, in [0, 2**32)."""
    return secrets.randbelow(_N_SEEDS)


def orders_for(n_clients: int) -> int:
    """Return over how many orders a rule averages: 256 up to 1,000 clients, 64 to 10,000, then 8.

    Examples
    --------
    >>> orders_for(30), orders_for(1_001), orders_for(10_001)
    (256, 64, 8)
    """
    fitting = (n for most, n in _ORDERS_UP_TO if n_clients <= most)
    return next(fitting, _ORDERS_OF_MORE)


def seeded_orders(n_losses: int, n_orders: int, seed: int) -> NDArray[np.int64]:
    """Orders [n_orders, n_losses], independent and uniform, determined by the seed alone.

    Examples
    --------
    >>> seeded_orders(4, 2, 0).shape
    (2, 4)
    """
    generator = np.random.default_rng(seed)
    return generator.permuted(np.tile(np.arange(n_losses), (n_orders, 1)), axis=1)


@dataclass(frozen=True)
class Draw:
    """How a rule gets the orders that it averages over."""

    n_orders: int | None  # how many; by `orders_for` if None
    seed: int
    # Whether scores stand in the random order of sampling, which the orders permute; otherwise they
    # are sorted first, and the seed must be fresh.
    in_order: bool

    def along(self, scores: Array) -> Array:
        """Return scores [..., n_orders, k]: every order of the scores [..., k]."""
        k = scores.shape[-1]
        given = scores if self.in_order else np.sort(scores, axis=-1)
        return np.asarray(given[..., seeded_orders(k, self.n_orders or orders_for(k), self.seed)])

    def told(self, each: Callable[[Array], Array], value: Array, low: Array, top: Array) -> Orders:
        """Say which orders were drawn, and how far the bound would move with others.

        ``each`` maps a mean to log wealths [..., n_orders], the bound is the root ``value``.  The
        deviation is that of the average wealth there, divided by its slope.
        """
        step = 1e-4 * (value - low)
        at, below = each(value), each(value - step)
        n = at.shape[-1]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            deviation = deviation_of_average(at) if n > 1 else np.full(at.shape[:-1], np.nan)
            rise = np.logaddexp.reduce(at, axis=-1) - np.logaddexp.reduce(below, axis=-1)
            moved = deviation * step / rise
        # No order moves a bound that no order proved: what is certain stands there.
        still = (value >= top * (1.0 - 1e-12)) | (deviation == 0.0)
        return Orders(n, self.seed, self.in_order, np.where(still, 0.0, moved))


def deviation_of_average(logs: Array) -> Array:
    """Deviation of the average of wealths, logs [..., n_orders], over itself; 0 if mere rounding.

    Examples
    --------
    >>> deviation_of_average(np.log([[1.0, 3.0], [2.0, 2.0 + 1e-14]])).round(12).tolist()
    [0.5, 0.0]
    """
    share = np.exp(logs - logs.max(axis=-1, keepdims=True))
    spread = share.std(axis=-1, ddof=1) / share.mean(axis=-1)
    return np.asarray(np.where(spread < _ROUNDING_OF_SUMS, 0.0, spread) / np.sqrt(logs.shape[-1]))


def draw(n_orders: int | None, seed: int | None, in_order: bool) -> Draw:
    """Check what is asked of the orders; without a seed they are drawn afresh.

    Along the order of sampling any fixed permutations do, and those of seed 0 are taken.
    """
    number = None if n_orders is None else checks.at_once("n_orders", n_orders)
    stands = checks.flag("in_order", in_order)
    if seed is None:
        return Draw(number, 0 if stands else fresh_seed(), stands)
    return Draw(number, checks.one_count("seed", seed, minimum=0), stands)


def averaged(each: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return mean -> log of the average wealth, from mean -> log wealths [..., n_orders]."""

    def log_wealth(mean: Array) -> Array:
        logs = each(mean)
        return np.asarray(np.logaddexp.reduce(logs, axis=-1) - np.log(logs.shape[-1]))

    return log_wealth
