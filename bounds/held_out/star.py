"""Bets that aim at the wealth that refuses a risk, sized by what is left of the sample to win it.

Under "the risk is at least g", a score x = 1 - L has a mean of at most p given those before it:
p = 1 - g for independent clients, for a finite pool what it must still hold.  A bet of l in
[0, 1/p], chosen before x is seen, multiplies the wealth by 1 + l (x - p), whose mean is at most 1.
With w the log wealth so far and a the aim, the bets here are

    l_t = min( sqrt( 2 max(a - w, 0) / ((k - t + 1) v_t) ), 1/p ),
    v_t = min( p (1 - p), sum_{s<t} (x_s - p_s)^2 / (t - 1) + p k / (t - 1)^2 ),  v_1 = p (1 - p).

At the aim nothing is bet any more; at l = 1/p the factor is x/p, and 0 ends the bets.  The wealth
is not monotone in g, so that risks are refused on a grid (:mod:`latecomer.bounds.held_out.grid`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, catalogued, priced
from latecomer.bounds.held_out.betting import REALISED
from latecomer.bounds.held_out.grid import STEPS, allowance, each_sample, last_kept

__all__ = ["star", "star_wor"]

_EPS = float(np.finfo(np.float64).eps)
# So many clients are bet on between two looks at which risks are settled.
_STRIDE = 8
# Blocks of so few wealths cost their steps, whatever they hold.
_SMALL = 2**12
# Part of the orders that goes first, over the least that can be enough.
_MARGIN = 1.125
# Single precision settles a risk whose average wealth is so much above what is enough, over so many
# orders: two of them may then be wrong.  A mean below the last would be too near to its error.
_TO_SPARE, _MANY, _LEAST_MEAN = float(np.log(1.02)), 64, 0.02


@dataclass(frozen=True)
class Ordered:
    """A sample along M orders, and the mean that "the risk is at least g" allows at each place.

    That mean is (1 - g) scale_t - shift_t: scale 1 and shift 0 for independent clients; for a pool
    of N, N / (N - t + 1) and what the clients before took of its sum, divided by N - t + 1.

    Attributes
    ----------
    good : ndarray, shape [k, M]
        One minus the scores.
    scale : ndarray, shape [k]
    shift : ndarray, shape [k, M], for independent clients [k, 1]
    floor, top : float
        What the sample alone says of the risk: at least, at most.
    """

    good: Array
    scale: Array
    shift: Array
    floor: float = 0.0
    top: float = 1.0

    def part(self, orders: slice) -> "Ordered":
        """Return the sample along some of the orders."""
        shift = self.shift if self.shift.shape[1] == 1 else self.shift[:, orders]
        return replace(self, good=self.good[:, orders], shift=shift)

    def in_single(self) -> "Ordered":
        """Return the sample in single precision, in which a step costs a third."""
        given: dict[str, Any] = {"good": self.good, "scale": self.scale, "shift": self.shift}
        return replace(self, **{name: one.astype(np.float32) for name, one in given.items()})


def along(ordered: Array, pool: float | None = None) -> Ordered:
    """Make a sample of losses along every order, [M, k]; ``pool`` is the size of a finite one."""
    good = np.ascontiguousarray(1.0 - ordered.T)
    k = len(good)
    if pool is None:
        return Ordered(good, np.ones(k), np.zeros((k, 1)))
    left = pool - np.arange(k)
    taken = np.cumsum(good, axis=0) - good
    sure = float(ordered[0].sum()) / pool
    return Ordered(
        good, np.asarray(pool / left), taken / left[:, None], sure, sure + (pool - k) / pool
    )


def _betted(mean: Array, k: int) -> tuple[Array, NDArray[np.bool_] | None]:
    """Means that nulls allow, and where they are 0 but for rounding; 1 stands there in their place.

    There nothing is bet, which is always fair: a score of 1e-16 must not be a fortune.
    """
    nothing = 4.0 * (k + 8) * _EPS
    if mean.min() > nothing:
        return mean, None
    idle = mean <= nothing
    return np.where(idle, 1.0, mean), idle


def product_wealth(sample: Ordered, risk: float) -> Array:
    """Log wealth, for every order, of the bets 1/p, those of the product rule."""
    means = (1.0 - risk) * sample.scale[:, None] - sample.shift
    means, idle = _betted(means, len(means))
    with np.errstate(divide="ignore"):
        logs = np.log(sample.good[:, : means.shape[1]] / means)
    return np.asarray((logs if idle is None else np.where(idle, 0.0, logs)).sum(axis=0))


class _Bets:
    """Bets of one block of risks along some orders, one client after another.

    Let m be the mean allowed under a risk near by, and e how far one minus a risk is from one minus
    that: p = m + e scale, and the sum of (x - p)^2 over the clients before is that of (x - m)^2
    - 2 e scale (x - m) + e^2 scale^2, a product of small matrices for all risks and orders.
    """

    def __init__(self, sample: Ordered, risks: Array) -> None:
        self.sample, self.k = sample, len(sample.scale)
        kind = sample.good.dtype
        self.least = float(np.finfo(kind).tiny)
        self.one_minus_risk = (1.0 - risks[:, None]).astype(kind)
        self.near = float(self.one_minus_risk.mean())
        away = self.one_minus_risk - self.near
        self.powers = np.concatenate([np.ones_like(away), away, away * away], axis=1)
        self.sums = np.zeros((3, sample.good.shape[1]), kind)
        self.memory = np.empty((3, len(risks), sample.good.shape[1]), kind)

    def keep(self, rows: NDArray[np.bool_]) -> None:
        """Go on with some of the risks."""
        self.one_minus_risk, self.powers = self.one_minus_risk[rows], self.powers[rows]
        self.memory = self.memory[:, : len(self.powers)]

    def spread(self, place: int) -> Array:
        """Return what the powers of e are multiplied by to give v_t before its limit, [3, M]."""
        scale = self.sample.scale[place]
        near = self.near * scale - self.sample.shift[place]
        if place:
            now = self.sums / place
            more = self.k / place**2
            now[0] += more * near
            now[1] += more * scale
        else:
            now = np.zeros_like(self.sums)
            now[0] = np.inf
        off = self.sample.good[place] - near
        self.sums[0] += off * off
        self.sums[1] -= (2.0 * scale) * off
        self.sums[2] += scale * scale
        return now

    def win(self, place: int, missing: Array) -> None:
        """Take what the bets at a place win off what is missing, [G, M], in place."""
        share, limit, factor = self.memory
        mean = self.one_minus_risk * self.sample.scale[place] - self.sample.shift[place]
        mean, idle = _betted(mean, self.k)
        np.subtract(1.0, mean, out=limit)
        limit *= mean
        np.maximum(limit, self.least, out=limit)
        np.matmul(self.powers, self.spread(place), out=share)
        np.minimum(share, limit, out=share)
        np.divide(missing, share, out=share)
        mean_squared = np.multiply(mean, mean, out=limit)
        mean_squared *= 2.0 / (self.k - place)
        share *= mean_squared
        _share_of_largest(share)
        if idle is not None:
            share[idle] = 0.0
        np.divide(self.sample.good[place], mean, out=factor)
        factor -= 1.0
        _settle(missing, share, factor)


class _IndependentBets(_Bets):
    """The same where the mean allowed is the same at every place."""

    def __init__(self, sample: Ordered, risks: Array) -> None:
        super().__init__(sample, risks)
        mean = self.one_minus_risk
        squared = 0.5 / (mean * mean)
        self.powers = self.powers * squared
        self.limit = np.maximum(mean * (1.0 - mean), self.least) * squared
        self.excess = np.concatenate([1.0 / mean, np.full_like(mean, -1.0)], axis=1)
        self.good = np.stack([sample.good, np.ones_like(sample.good)], axis=1)

    def keep(self, rows: NDArray[np.bool_]) -> None:
        super().keep(rows)
        self.limit, self.excess = self.limit[rows], self.excess[rows]

    def win(self, place: int, missing: Array) -> None:
        share, _, factor = self.memory
        left = self.k - place
        np.matmul(self.powers, self.spread(place) * left, out=share)
        np.minimum(share, self.limit * left, out=share)
        np.divide(missing, share, out=share)
        _share_of_largest(share)
        np.matmul(self.excess, self.good[place], out=factor)
        _settle(missing, share, factor)


def _share_of_largest(share: Array) -> None:
    """Turn 2 (a - w) p^2 / ((k - t + 1) v) into l p, in place: the bet's share of the largest."""
    np.maximum(share, 0.0, out=share)
    np.minimum(share, 1.0, out=share)
    np.sqrt(share, out=share)


def _settle(missing: Array, share: Array, factor: Array) -> None:
    """Take the log of 1 + l (x - p) off what is missing; ``factor`` holds x/p - 1.

    Of the largest bet nothing is left at x = 0, exactly.
    """
    factor *= share
    factor += 1.0
    np.log(factor, out=factor)
    missing -= factor


def _bets(sample: Ordered, risks: Array) -> _Bets:
    independent = sample.shift.shape[1] == 1 < sample.good.shape[1] or not sample.shift.any()
    return (_IndependentBets if independent else _Bets)(sample, risks)


def star_wealth(sample: Ordered, risks: Array, aim: float, enough: float) -> Array:
    """Log wealth at the end, averaged over orders; shape [G].

    A risk is let go once orders that reached their aim, and bet no more, bring the average to
    e^``enough`` by themselves; what is returned for it is their part.  Orders at their aim have
    e^(aim - enough) times what is enough, so that in a large block a part of the orders goes first.
    """
    n_orders = sample.good.shape[1]
    first = n_orders
    if len(risks) * n_orders > _SMALL:
        first = min(n_orders, int(np.ceil(_MARGIN * n_orders * np.exp(enough - aim))))
    won, goal = np.zeros(len(risks)), n_orders * np.exp(enough)
    for orders in (slice(0, first), slice(first, n_orders)):
        below = np.flatnonzero(won < goal)
        if below.size and orders.start < n_orders:
            won[below] += _wealth(sample.part(orders), risks[below], aim, goal - won[below])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(won / n_orders))


def surely_enough(
    sample: Ordered, aim: float, enough: float
) -> Callable[[Array], NDArray[np.bool_]]:
    """Return risks -> whether their average wealth is above e^``enough`` beyond any rounding.

    Far above the bound single precision settles that, at a third of the price of
    :func:`star_wealth`; it never says that a wealth is not enough.
    """
    many = sample.good.shape[1] >= _MANY
    single = sample.in_single() if many else sample
    taken = float((sample.shift / sample.scale[:, None]).max())

    def sure(risks: Array) -> NDArray[np.bool_]:
        result: NDArray[np.bool_] = np.full(len(risks), many) & (1.0 - risks - taken >= _LEAST_MEAN)
        if result.any():
            won = star_wealth(single, risks[result], aim, enough + _TO_SPARE)
            result[result] = won >= enough + _TO_SPARE
        return result

    return sure


def star_ends(sample: Ordered, risks: Array, aim: float) -> Array:
    """Log wealth at the end along every order, [G, M]."""
    missing = np.full((len(risks), sample.good.shape[1]), aim)
    bets = _bets(sample, risks)
    with np.errstate(divide="ignore", over="ignore"):
        for place in range(bets.k):
            bets.win(place, missing)
    return np.asarray(aim - missing)


def _wealth(sample: Ordered, risks: Array, aim: float, goal: Array) -> Array:
    """Sum over the orders of the wealth at the end, or of those at their aim if that is enough."""
    result, alive = np.empty(len(risks)), np.arange(len(risks))
    bets = _bets(sample, risks)
    missing = np.full((len(risks), sample.good.shape[1]), aim, sample.good.dtype)
    with np.errstate(divide="ignore", over="ignore"):
        for place in range(bets.k):
            bets.win(place, missing)
            if (place + 1) % _STRIDE and place + 1 < bets.k:
                continue
            done = missing <= 0.0
            won = np.exp(aim - missing, out=np.zeros_like(missing), where=done).sum(axis=1)
            ended = (won >= goal[alive]) | (done | (missing == np.inf)).all(axis=1)
            if ended.any():
                result[alive[ended]] = won[ended]
                alive, missing = alive[~ended], missing[~ended]
                bets.keep(~ended)
            if not alive.size:
                return result
    result[alive] = np.exp(aim - missing).sum(axis=1)
    return result


def limits(sample: Ordered) -> tuple[int, int]:
    """Largest grid point that the sample alone leaves possible, and the largest it leaves certain.

    Neither needs a bet: a mean that no pool of this sample can have is refused for that, with room
    for rounding, and no wealth is ever infinite.  Without a pool the second is -1, off the grid.
    """
    top = sample.top * (1.0 + (len(sample.scale) + 8) * _EPS)
    floor = -1 if sample.floor == 0.0 else int(np.floor(sample.floor * STEPS))
    return min(int(np.floor(top * STEPS)), STEPS - 1), floor


def kept_risk(
    sample: Ordered, refused: Callable[[Array], NDArray[np.bool_]], highest: int = STEPS
) -> float:
    """One grid step above the largest risk that is not refused, within what the sample alone says.

    Grid points above ``highest`` are known to be refused.
    """
    k, n_orders = sample.good.shape
    largest, floor = limits(sample)
    top = min(sample.top * (1.0 + (k + 8) * _EPS), 1.0)
    last = last_kept(
        refused,
        top=min(largest, highest),
        floor=floor,
        near=1.0 - float(sample.good[:, 0].mean()),
        width=n_orders,
    )
    sure = min(sample.floor * (1.0 + (k + 8) * _EPS), 1.0)
    return float(np.clip((last + 1) / STEPS, sure, top))


_ORDER = (
    "the model, the rule and the number of clients were fixed before the first score was seen",
    "the scores stand in a random order: that in which the clients were drawn, never that of their "
    "names, of their arrival or of the scores",
)


@catalogued(
    family="hold-out",
    claim="Mean client score by bets along one random order that aim at what refuses a risk.",
    source="bets after Voracek and Orabona 2025 (arXiv 2505.22422), without their randomised "
    "threshold; inversion on a grid: this project",
    population="unseen-client",
    predictor="any",
    sampling="iid",
    assumptions=(
        *_ORDER,
        "one score in [0, 1] per held-out client, clients i.i.d.",
        "not for a finite pool (use star_wor)",
    ),
    vacuous_when="never for more than a few clients, unless their scores are near 1",
)
def star(*, losses: ArrayLike, delta: ArrayLike) -> Certificate:
    r"""One grid step above the largest risk g = i/10000 whose wealth stays below 1/delta.

    The wealth of the head of this module at the end of the sample, for p = 1 - g and the aim
    :math:`\ln(1/\delta)`: the bets use scores of earlier clients alone, so that it has mean at most
    1 if the risk is at least g.  Survives scores of 1, and is close to the best known bounds for
    even and uneven scores alike; its value hangs on the order (:func:`blend` averages over many).

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, 1]
        In a random order.
    delta : array_like, in (0, 1)

    Examples
    --------
    >>> float(star(losses=[0.1, 0.05, 0.2, 0.15, 0.1] * 8, delta=0.05))
    0.1901
    """
    scores = checks.losses_in("losses", losses)
    failure = checks.failure_probability("delta", delta)
    value = each_sample(_along_one_order, scores[..., None, :], failure)
    return priced("star", value, scores.mean(axis=-1), {"clients": failure})


@catalogued(
    family="hold-out",
    claim="Mean of a finite pool's realised scores by bets along the order of sampling that aim at "
    "what refuses a risk.",
    source="this project; bets after Voracek and Orabona 2025 (arXiv 2505.22422)",
    population="unseen-client",
    predictor="any",
    sampling="finite-pool",
    assumptions=(
        *_ORDER,
        "the clients are a uniform sample without replacement from a pool of pool_size clients, "
        "the sampled ones included",
        "scores lie in [0, 1]",
        REALISED,
    ),
    vacuous_when="never once most of the pool was scored; survives scores of 1",
)
def star_wor(*, losses: ArrayLike, delta: ArrayLike, pool_size: ArrayLike) -> Certificate:
    r"""Bound of :func:`star` with p replaced by the mean that the rest of the pool must have.

    :math:`p_t = (N (1-g) - \sum_{s<t} x_s) / (N - t + 1)` for a pool of N.  The bound is at most
    (sum L + N - k) / N, the largest mean possible, and at least sum L / N.

    Parameters
    ----------
    losses, delta
        As for :func:`star`, in the order of sampling.
    pool_size : array_like of int, at least k
        Clients N in the pool.

    Examples
    --------
    >>> float(star_wor(losses=[0.1, 0.25] * 14 + [1.0, 0.1], delta=0.05, pool_size=40))
    0.2277
    """
    scores = checks.losses_in("losses", losses)
    failure = checks.failure_probability("delta", delta)
    pool = checks.count("pool_size", pool_size, minimum=scores.shape[-1]).astype(np.float64)
    value = each_sample(_along_one_order, scores[..., None, :], failure, pool)
    return priced("star_wor", value, scores.mean(axis=-1), {"clients": failure})


def _along_one_order(losses: Array, delta: float, pool: float | None = None) -> float:
    sample = along(losses, pool)
    aim = -float(np.log(delta))
    needed = aim + allowance(losses.size)
    return kept_risk(sample, lambda risks: star_wealth(sample, risks, aim, needed) >= needed)
