"""Orders of clients along which bets are made: the order of sampling, or orders drawn afresh.

A bet along an order is a martingale only if the order is random given the scores.  Two orders are:
that in which the clients were sampled, with every fixed permutation of it; and one drawn afresh, by
a seed that was not used before.  Sorted scores permuted by a seed that is the same for every sample
are in no random order: each rank then stands at the same place for everybody.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Orders

# Fixed by the number of clients, so that nobody chooses it after looking at a bound.
_MOST_CLIENTS = ((1_000, 256), (10_000, 64))
_ORDERS_ABOVE = 8
_SEEDS = 2**32
# Wealths that differ by less, relatively, differ by the order in which their logarithms are added.
_ROUNDING = 1e-10


def fresh_seed() -> int:
    """Return a seed from the operating system's entropy, in [0, 2**32)."""
    return secrets.randbelow(_SEEDS)


def orders_for(n_clients: int) -> int:
    """Return over how many orders a rule averages: 256 up to 1,000 clients, 64 to 10,000, then 8.

    Examples
    --------
    >>> orders_for(30), orders_for(1_001), orders_for(10_001)
    (256, 64, 8)
    """
    fitting = (n for most, n in _MOST_CLIENTS if n_clients <= most)
    return next(fitting, _ORDERS_ABOVE)


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
    """How a rule gets the orders that it averages over.

    Attributes
    ----------
    n_orders : int or None
        How many; by `orders_for` if None.
    seed : int
        Seed of their generator.
    in_order : bool
        Whether scores stand in the random order of sampling, which the orders permute; otherwise
        they are sorted first, and the seed must be fresh.
    """

    n_orders: int | None
    seed: int
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
    >>> deviation_of_average(np.log([[1.0, 3.0], [2.0, 2.0 + 1e-14]])).tolist()
    [0.5, 0.0]
    """
    share = np.exp(logs - logs.max(axis=-1, keepdims=True))
    spread = share.std(axis=-1, ddof=1) / share.mean(axis=-1)
    return np.asarray(np.where(spread < _ROUNDING, 0.0, spread) / np.sqrt(logs.shape[-1]))


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
