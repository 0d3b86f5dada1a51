"""Bets that aim at the wealth that refuses a risk, sized by what is left of the sample to win it.

Under "the risk is at least g", a score x = 1 - L has a mean of at most p given those before it:
p = 1 - g for independent clients, for a finite pool what it must still hold.  A bet of l in
[0, 1/p], chosen before x is seen, multiplies the wealth by 1 + l (x - p), whose mean is at most 1.
With w the log wealth so far and a the aim, the bets here are

    l_t = min( sqrt( 2 max(a - w, 0) / ((k - t + 1) v_t) ), 1/p ),
    v_t = min( p (1 - p), sum_{s<t} (x_s - p_s)^2 / (t - 1) + p k / (t - 1)^2 ),  v_1 = p (1 - p).

At the aim nothing is bet any more; at l = 1/p the factor is x/p, and 0 ends the bets.  The wealth
is not monotone in g, so that risks are refused on a fixed grid.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, priced
from latecomer.bounds.held_out.betting import (
    REALISED,
    RISK_STEPS,
    allowance,
    each_sample,
    last_kept,
    mean_catalogued,
)

__all__ = ["star", "star_wor"]

_EPS = float(np.finfo(np.float64).eps)
# So many clients are bet on between two looks at which risks are settled.
_STRIDE = 8
# For so many clients, and scores, it is reckoned at once what bets take from the scores before.
_AHEAD, _SCORES_AHEAD = 32, 2**13
# Blocks of so few wealths cost their steps, whatever they hold.
_SMALL = 2**12
# Part of the orders that goes first, over the least that can be enough.
_MARGIN = 1.125
# A span of risks is at most that part of its distance from the mean loss; once so few wealths are
# left at the bottom, a step costs as much as with one.
_NARROWING, _FEW = 8, 2**10
# Single precision settles a risk whose average wealth is so much above what is enough, over so many
# orders: two of them may then be wrong.  A mean below the last would be too near to its error.
_TO_SPARE, _MANY, _LEAST_MEAN = float(np.log(1.02)), 64, 0.02


@dataclass(frozen=True)
class Ordered:
    """A sample along M orders, and the mean that "the risk is at least g" allows at each place.

    That mean is (1 - g) scale_t - shift_t: scale 1 and shift 0 for independent clients; for a pool
    of N, N / (N - t + 1) and what the clients before took of its sum, divided by N - t + 1.
    """

    good: Array  # one minus the scores, [k, M]
    scale: Array  # [k]
    shift: Array  # [k, M], for independent clients [k, 1]
    floor: float = 0.0  # what the sample alone says of the risk: at least
    top: float = 1.0  # and at most

    @cached_property
    def drained(self) -> bool:
        """Whether clients take from what the next may have: a pool that has a sum."""
        return self.shift.shape[1] == self.good.shape[1] and bool(self.shift.any())

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


def _nothing(k: int) -> float:
    return 4.0 * (k + 8) * _EPS


def _betted(mean: Array, k: int) -> tuple[Array, NDArray[np.bool_] | None]:
    """Means that nulls allow, and where they are 0 but for rounding; 1 stands there in their place.

    There nothing is bet, which is always fair: a score of 1e-16 must not be a fortune.
    """
    if mean.min() > _nothing(k):
        return mean, None
    idle = mean <= _nothing(k)
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
        self.powers = _powers(self.one_minus_risk - self.near)
        self.sums = np.zeros((1, 3, sample.good.shape[1]), kind)
        self.stride = max(_AHEAD, _SCORES_AHEAD // sample.good.shape[1])
        self.ahead = self.sums
        self.memory = np.empty((3, len(risks), sample.good.shape[1]), kind)

    def keep(self, rows: NDArray[np.bool_]) -> None:
        """Go on with some of the risks."""
        self.one_minus_risk, self.powers = self.one_minus_risk[rows], self.powers[rows]
        self.memory = self.memory[:, : len(self.powers)]

    def spread(self, place: int) -> Array:
        """Return what the powers of e are multiplied by to give v_t before its limit, [3, M]."""
        if place % self.stride == 0:
            self.ahead = self._spreads(slice(place, min(place + self.stride, self.k)))
        return np.asarray(self.ahead[place % self.stride])

    def _spreads(self, places: slice) -> Array:
        """Return the same for places that follow each other, [places, 3, M]."""
        good, scale = self.sample.good[places], self.sample.scale[places, None]
        near = self.near * scale - self.sample.shift[places]
        off = good - near
        steps = np.stack(
            [off * off, (-2.0 * scale) * off, np.broadcast_to(scale * scale, off.shape)], axis=1
        )
        before = np.cumsum(np.concatenate([self.sums, steps]), axis=0, dtype=good.dtype)
        self.sums = before[-1:]
        rank = np.arange(places.start, places.stop, dtype=np.float64)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            now = before[:-1] / rank[:, None].astype(good.dtype)
            more = (self.k / rank**2).astype(good.dtype)
            now[:, 0] += more * near
            now[:, 1] += more * scale
        if places.start == 0:
            # Nothing was seen yet: the limit alone counts, at most 1/4, and 1 more on a span.
            # Infinity times the zeros that a product of matrices pads with would be invalid.
            now[0] = np.array([4.0, 0.0, 0.0])[:, None]
        return np.asarray(now)

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


class _BetsBetween(_Bets):
    """An upper limit of what is missing for every risk of a span at once, whatever the risk.

    Let U be such a limit before a client, p the mean allowed under the least risk g of the span,
    the largest of all, and [v, v'] the variances that the risks of the span bet with.  With m
    missing a bet of l <= 1/p leaves m - ln(1 + l (x - p)).  Where x < p that grows with m, with l
    and with p: at most what the largest bet against g leaves of U, sized by v.  Where x >= p it
    falls with l and grows with p, and falls before it grows with m, from 0 at m = 0: at most 0, or
    what the smallest bet against g leaves of U, sized by v'.  At 0 nothing more is bet, under no
    risk of the span.  Sums of squares are parabolas in the risk: at most the larger of those at its
    ends, and below the lesser by at most a quarter of the squared width times the clients;
    p (1 - p) moves by no more than p does.
    """

    def __init__(self, sample: Ordered, lows: Array, tops: Array) -> None:
        super().__init__(sample, lows)
        self.widths = (tops - lows)[:, None].astype(sample.good.dtype)
        self.ends = _powers(self.one_minus_risk - self.widths - self.near)
        self.largest = np.empty_like(self.memory[0])
        self.limits = None if sample.drained else self._limits(0)

    def keep(self, rows: NDArray[np.bool_]) -> None:
        super().keep(rows)
        self.widths, self.ends = self.widths[rows], self.ends[rows]
        self.largest = self.largest[: len(self.powers)]
        self.limits = None if self.sample.drained else self._limits(0)

    def _limits(self, place: int) -> tuple[Array, Array, Array, NDArray[np.bool_] | None]:
        """Return p against g, limits of p (1 - p) on the span, and where it may bet nothing."""
        scale = self.sample.scale[place]
        mean, width = self.one_minus_risk * scale - self.sample.shift[place], self.widths * scale
        nothing, idle = _nothing(self.k), None
        if mean.min() - width.max() <= nothing:
            idle = mean - width <= nothing
            mean = _betted(mean, self.k)[0]
        limit = mean * (1.0 - mean)
        return mean, limit - width, limit + width, idle

    def win(self, place: int, missing: Array) -> None:
        (share, other, factor), largest = self.memory, self.largest
        mean, lower, upper, idle = self.limits or self._limits(place)
        spread = self.spread(place)
        np.matmul(self.powers, spread, out=share)
        np.matmul(self.ends, spread, out=other)
        np.minimum(np.maximum(share, other, out=largest), upper, out=largest)
        np.minimum(share, other, out=share)
        share -= spread[2, 0] * (0.5 * self.widths) ** 2
        np.minimum(share, lower, out=share)
        np.divide(self.sample.good[place], mean, out=factor)
        factor -= 1.0
        np.copyto(share, largest, where=factor >= 0.0)
        np.maximum(share, self.least, out=share)
        np.divide(missing, share, out=share)
        share *= mean * mean * (2.0 / (self.k - place))
        _share_of_largest(share)
        may_idle = None if idle is None else np.where(idle, missing, 0.0)
        _settle(missing, share, factor)
        np.maximum(missing, 0.0 if may_idle is None else may_idle, out=missing)


def _powers(away: Array) -> Array:
    return np.concatenate([np.ones_like(away), away, away * away], axis=1)


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
    return (_Bets if sample.drained else _IndependentBets)(sample, risks)


def star_wealth(sample: Ordered, risks: Array, aim: float, enough: float) -> Array:
    """Log wealth at the end, averaged over orders; shape [G].

    A risk is let go once orders that reached their aim, and bet no more, bring the average to
    e^``enough`` by themselves; what is returned for it is their part.  Orders at their aim have
    e^(aim - enough) times what is enough, so that in a large block a part of the orders goes first.
    """
    n_orders = sample.good.shape[1]
    first = n_orders
    if len(risks) * n_orders > _SMALL:
        first = _first_orders(n_orders, aim, enough)
    won, goal = np.zeros(len(risks)), n_orders * np.exp(enough)
    for orders in (slice(0, first), slice(first, n_orders)):
        below = np.flatnonzero(won < goal)
        if below.size and orders.start < n_orders:
            part = sample.part(orders)
            won[below] += _wealth(_bets(part, risks[below]), aim, goal - won[below])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(won / n_orders))


def _first_orders(n_orders: int, aim: float, enough: float) -> int:
    """Return how many orders go first: those at their aim should bring what is enough."""
    return min(n_orders, int(np.ceil(_MARGIN * n_orders * np.exp(enough - aim))))


def star_ends(sample: Ordered, risks: Array, aim: float) -> Array:
    """Log wealth at the end along every order, [G, M]."""
    missing = np.full((len(risks), sample.good.shape[1]), aim)
    bets = _bets(sample, risks)
    with np.errstate(divide="ignore", over="ignore"):
        for place in range(bets.k):
            bets.win(place, missing)
    return np.asarray(aim - missing)


def highest_unsure(sample: Ordered, aim: float, enough: float, highest: int = RISK_STEPS) -> int:
    """Grid point above which every risk's average wealth is surely above e^``enough``.

    The wealth is not monotone in the risk, but a lower limit for all risks of a span costs little
    more than the wealth against one.  Spans narrow towards the mean loss, and to it; of those that
    are not settled the highest is cut until few risks are left, which are for
    :func:`star_wealth`.  Grid points above ``highest`` need no proof.
    """
    (largest, floor), n_orders = limits(sample), sample.good.shape[1]
    top, few = min(highest, largest), max(1, _FEW // n_orders)
    near = max(int(RISK_STEPS * (1.0 - sample.good[:, 0].mean())), floor + 1)
    taken = float((sample.shift / sample.scale[:, None]).max())
    first = slice(0, _first_orders(n_orders, aim, enough))
    goal = n_orders * np.exp(enough + _TO_SPARE)

    tops = _cut(near, top, RISK_STEPS * (1.0 - taken))
    lows = np.append(tops[1:] + 1, near)[: tops.size]
    won = _won_between(sample, first, lows, tops, aim, goal)
    # As far as the orders tell that went first, all of them together settle spans above the end.
    end = int(np.append(won * n_orders < goal * first.stop, True).argmax()) + 1
    while (won < goal).any():
        at = int((won < goal).argmax())
        width = int(tops[at] - lows[at]) + 1
        if width <= few:
            return int(tops[at])
        end = min(max(end, at + 1), len(tops))
        cut = np.arange(tops[at], lows[end - 1] - 1, -max(1, width // _NARROWING))
        down = np.append(cut[1:] + 1, lows[end - 1])
        pieces = _won_between(sample, slice(None), down, cut, aim, goal)
        lows, tops = np.append(down, lows[end:]), np.append(cut, tops[end:])
        won, end = np.append(pieces, won[end:]), 0
    return int(lows[-1]) - 1 if lows.size else top


def _cut(near: int, top: int, end: float) -> NDArray[np.int64]:
    """Highest points of spans from ``top`` down to ``near``, narrow near there and near ``end``."""
    tops = []
    while top >= near:
        tops.append(top)
        top -= 1 + int(min((top - near) // _NARROWING, max(end - top, 0.0) // 2.0))
    return np.array(tops, np.int64)


def _won_between(
    sample: Ordered,
    orders: slice,
    lows: NDArray[np.int64],
    tops: NDArray[np.int64],
    aim: float,
    goal: float,
) -> Array:
    """Lower limit of some orders' wealth in sum, for spans of grid points, as far as ``goal``."""
    won, many = np.zeros(len(tops)), sample.good.shape[1] >= _MANY
    taken = float((sample.shift / sample.scale[:, None]).max())
    single = tops <= RISK_STEPS * (1.0 - taken - _LEAST_MEAN) if many else np.zeros(len(tops), bool)
    part = sample.part(orders)
    for kind, these in ((part, ~single), (part.in_single(), single)):
        if these.any():
            bets = _BetsBetween(kind, lows[these] / RISK_STEPS, tops[these] / RISK_STEPS)
            won[these] = _wealth(bets, aim, np.full(len(bets.powers), goal))
    return won


def _wealth(bets: _Bets, aim: float, goal: Array) -> Array:
    """Sum over the orders of the wealth at the end, or of those at their aim if that is enough."""
    good, n_risks = bets.sample.good, len(bets.powers)
    result, alive = np.empty(n_risks), np.arange(n_risks)
    missing = np.full((n_risks, good.shape[1]), aim, good.dtype)
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
                if not alive.size:
                    return result
                bets.keep(~ended)
    with np.errstate(over="ignore"):
        result[alive] = np.exp(aim - missing).sum(axis=1)
    return result


def limits(sample: Ordered) -> tuple[int, int]:
    """Largest grid point that the sample alone leaves possible, and the largest it leaves certain.

    Neither needs a bet: a mean that no pool of this sample can have is refused for that, with room
    for rounding, and no wealth is ever infinite.  Without a pool the second is -1, off the grid.
    """
    top = sample.top * (1.0 + (len(sample.scale) + 8) * _EPS)
    floor = -1 if sample.floor == 0.0 else int(np.floor(sample.floor * RISK_STEPS))
    return min(int(np.floor(top * RISK_STEPS)), RISK_STEPS - 1), floor


def kept_risk(
    sample: Ordered, refused: Callable[[Array], NDArray[np.bool_]], highest: int = RISK_STEPS
) -> float:
    """One grid step above the largest risk that is not refused, within what the sample alone says.

    Grid points above ``highest`` are known to be refused.
    """
    k, n_orders = sample.good.shape
    largest, floor = limits(sample)
    top = min(sample.top * (1.0 + (k + 8) * _EPS), 1.0)
    last = last_kept(refused, top=min(largest, highest), floor=floor, width=n_orders)
    sure = min(sample.floor * (1.0 + (k + 8) * _EPS), 1.0)
    return float(np.clip((last + 1) / RISK_STEPS, sure, top))


_ORDER = (
    "the model, the rule and the number of clients were fixed before the first score was seen",
    "the scores stand in a random order: that in which the clients were drawn, never that of their "
    "names, of their arrival or of the scores",
)


@mean_catalogued(
    claim="Mean client score by bets along one random order that aim at what refuses a risk.",
    source="bets after Voracek and Orabona 2025 (arXiv 2505.22422), without their randomised "
    "threshold; inversion on a grid: this project",
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
    scores, failure, _ = checks.scored(losses, delta)
    value = each_sample(_along_one_order, scores[..., None, :], failure)
    return priced("star", value, scores.mean(axis=-1), {"clients": failure})


@mean_catalogued(
    claim="Mean of a finite pool's realised scores by bets along the order of sampling that aim at "
    "what refuses a risk.",
    source="this project; bets after Voracek and Orabona 2025 (arXiv 2505.22422)",
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
    losses
        As for :func:`star`, in the order of sampling.
    delta : array_like, in (0, 1)
    pool_size : array_like of int, at least k
        Clients N in the pool.

    Examples
    --------
    >>> float(star_wor(losses=[0.1, 0.25] * 14 + [1.0, 0.1], delta=0.05, pool_size=40))
    0.2277
    """
    scores, failure, _ = checks.scored(losses, delta)
    pool = checks.count("pool_size", pool_size, minimum=scores.shape[-1]).astype(np.float64)
    value = each_sample(_along_one_order, scores[..., None, :], failure, pool)
    return priced("star_wor", value, scores.mean(axis=-1), {"clients": failure})


def _along_one_order(losses: Array, delta: float, pool: float | None = None) -> float:
    sample = along(losses, pool)
    aim = -float(np.log(delta))
    needed = aim + allowance(losses.size)
    return kept_risk(sample, lambda risks: star_wealth(sample, risks, aim, needed) >= needed)
