"""How many clients to hold out for a certificate that is good enough.

A plan starts from a guess of the clients' scores, made before the first score: from a pilot, whose
own losses are resampled, or from elsewhere.  It promises nothing about the certificate: the
certificate will hold however good the guess was; only its value may disappoint.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds.certificate import Array
from latecomer.bounds.checks import failure_probability
from latecomer.bounds.held_out.betting import BET_WEIGHTS, fixed_bets, fixed_products
from latecomer.bounds.held_out.blend import blend_refuses
from latecomer.bounds.held_out.grid import STEPS
from latecomer.bounds.held_out.losses import chernoff_kl, product
from latecomer.bounds.held_out.orders import orders_for, seeded_orders
from latecomer.checks import checked, fraction, number_in, one_of, whole
from latecomer.errors import InputError

DEFAULT_PLAN_RULE = "blend"
# Samples simulated for so many clients; more clients vary less, and take longer.
_SIMULATED = ((256, 1000), (1000, 500))
_SIMULATED_ABOVE = 200
# More orders move the probabilities by less than the simulation does.
_ORDERS = 16
# Losses held at a time, along all orders.
_BLOCK = 2**22
_BETS_OF_MIXTURE = 10
_WIDEST = 0.999
_NARROWEST = 1e-6  # narrower laws are one number


def _blend(losses: Array, delta: float, target: float) -> NDArray[np.bool_]:
    n_samples, k = losses.shape
    point = math.floor(target * STEPS)
    # The last grid point that is no larger than the target, whatever the product was rounded to.
    risk = next(at / STEPS for at in (point + 1, point, point - 1) if at / STEPS <= target)
    orders = seeded_orders(k, min(_ORDERS, orders_for(k)), 0)
    size = max(1, _BLOCK // orders.size)
    parts = [losses[first : first + size] for first in range(0, n_samples, size)]
    return np.concatenate([blend_refuses(part, delta, risk, orders) for part in parts])


def _product(losses: Array, delta: float, target: float) -> NDArray[np.bool_]:
    return np.asarray(product(losses=losses, delta=delta).value <= target)


def _product_mixture(losses: Array, delta: float, target: float) -> NDArray[np.bool_]:
    won = fixed_products(losses, np.array(BET_WEIGHTS))
    return np.asarray(won(np.full(len(losses), target)) > -math.log(delta))


def _chernoff_kl(losses: Array, delta: float, target: float) -> NDArray[np.bool_]:
    mean, k = losses.mean(axis=-1), losses.shape[-1]
    return np.asarray(chernoff_kl(empirical_risk=mean, n_samples=k, delta=delta).value <= target)


def _betting_mixture(losses: Array, delta: float, target: float) -> NDArray[np.bool_]:
    won = fixed_bets(losses, _BETS_OF_MIXTURE)
    return np.asarray(won(np.full(len(losses), target)) > -math.log(delta))


PLAN_RULES: Mapping[str, Callable[[Array, float, float], NDArray[np.bool_]]] = MappingProxyType(
    {
        "blend": _blend,
        "product": _product,
        "product_mixture": _product_mixture,
        "chernoff_kl": _chernoff_kl,
        "betting_mixture": _betting_mixture,
    }
)
"""Rules for which a number of clients can be planned, with whether each of many samples of
independent clients is certified at most the target."""


@dataclass(frozen=True)
class HoldOutPlan:
    """How many clients to hold out.

    Attributes
    ----------
    target : float
        The certificate is to be at most this.
    expected, sd : float
        What clients are expected to score, the hopeless ones left out, or what a pilot's clients
        scored: mean and standard deviation.
    hopeless : float
        Share of clients expected to have the largest loss, 1, beside those.
    pilot_clients : int or None
        Clients of the pilot whose losses were resampled; None where Beta losses were simulated.
    clients : int
        Most clients that can be held out.
    delta : float
        Failure probability of the certificate.
    rule : str
        One of ``PLAN_RULES``.
    floor : int or None
        Fewest clients with which a deterministic rule could meet the target on equal scores of the
        mean of all; None if there are not so many.
    even_odds, likely : int or None
        Clients whose certificate is at most the target with probability 1/2, and with 9/10, where
        one client fewer is not enough; None if there are not so many.
    """

    target: float
    expected: float
    sd: float
    hopeless: float
    pilot_clients: int | None
    clients: int
    delta: float
    rule: str
    floor: int | None
    even_odds: int | None
    likely: int | None

    @property
    def mean(self) -> float:
        """Mean loss of all clients, the hopeless ones included."""
        return self.hopeless + (1.0 - self.hopeless) * self.expected


def clients_to_hold_out(
    *,
    target: float,
    expected: float | None = None,
    sd: float | None = None,
    pilot: Sequence[float] | None = None,
    hopeless: float = 0.0,
    delta: float = 0.05,
    clients: int = 500,
    rule: str = DEFAULT_PLAN_RULE,
    seed: int = 0,
) -> HoldOutPlan:
    """Plan how many clients to hold out, by simulating their scores.

    A client scores 1 with probability ``hopeless``.  Other scores are draws with replacement from a
    pilot's, or Beta draws of the expected mean and deviation.  The floor needs no simulation: on k
    equal scores e no deterministic rule certifies less than e + (1 - delta^(1/k)) (1 - e).

    Parameters
    ----------
    target, delta, clients, rule
        As in `HoldOutPlan`; target and delta in (0, 1).
    expected, sd : float, optional
        Mean, in (0, 1), and deviation, above 0 and below that of 0/1 scores of this mean.
    pilot : sequence of float, optional
        Scores in [0, 1] of two clients or more, not all equal, in place of both.
    hopeless : float
        In [0, 1).
    seed : int
        Seed of the simulated scores; the same seed gives the same plan.

    Raises
    ------
    InputError
        One line naming the argument, what is legal and what was given.

    Examples
    --------
    >>> plan = clients_to_hold_out(target=0.25, expected=0.17, sd=0.09)
    >>> plan.floor, plan.even_odds, plan.likely
    (30, 32, 44)
    >>> clients_to_hold_out(target=0.25, expected=0.17, sd=0.09, hopeless=0.02).likely
    144
    """
    fraction("target", target, above=True)
    checked(failure_probability, "delta", delta)
    one_of("rule", rule, tuple(PLAN_RULES))
    most, start = whole("clients", clients, 1), whole("seed", seed, 0)
    share = fraction("hopeless", hopeless)
    mean, deviation, draws = _law(expected, sd, pilot)
    resampled = None if pilot is None else len(pilot)
    asked = (target, mean, deviation, share, resampled, most, delta, rule)
    of_all = share + (1.0 - share) * mean
    if target <= of_all:
        # A certificate below the mean of all is wrong, which few certificates are.
        return HoldOutPlan(*asked, None, None, None)
    floor = _floor(target, of_all, delta)
    reached = _reached(rule, delta, target, lambda k: _simulated(draws, share, k, start))
    enough = [_fewest(lambda k, p=p: reached(k) >= p, most) for p in (0.5, 0.9)]  # type: ignore[misc]
    return HoldOutPlan(*asked, floor if floor <= most else None, *enough)


def _reached(
    rule: str, delta: float, target: float, samples: Callable[[int], Array]
) -> Callable[[int], float]:
    """Return k -> share of the samples of k clients that are certified at most the target."""

    @cache
    def reached(k: int) -> float:
        return float(PLAN_RULES[rule](samples(k), delta, target).mean())

    return reached


_Draws = Callable[[np.random.Generator, tuple[int, int]], Array]


def _law(
    expected: float | None, sd: float | None, pilot: Sequence[float] | None
) -> tuple[float, float, _Draws]:
    """Return mean, deviation and draws of what clients score, the hopeless ones left out."""
    if pilot is None:
        return _beta(expected, sd)
    if expected is not None or sd is not None:
        raise InputError("a pilot gives mean and deviation: leave expect and sd out")
    return _resampled(pilot)


def _simulated(draws: _Draws, hopeless: float, k: int, seed: int) -> Array:
    """Draw samples of k clients, [S, k]; the first clients stay the same for many another k."""
    shape = (k, next((n for most, n in _SIMULATED if k <= most), _SIMULATED_ABOVE))
    scores = draws(np.random.default_rng(seed), shape)
    lost = np.random.default_rng([seed, 1]).random(shape) < hopeless
    return np.where(lost, 1.0, scores).T


def _beta(expected: float | None, sd: float | None) -> tuple[float, float, _Draws]:
    """Return mean, deviation and draws of a Beta law."""
    if expected is None or sd is None:
        raise InputError("expect and sd are needed, or a pilot with losses of some clients")
    fraction("expect", expected, above=True)
    largest = math.sqrt(expected * (1 - expected))
    if not _NARROWEST < number_in("sd", sd, 0.0, 1.0) < largest:
        legal = f"sd must lie strictly between {_NARROWEST:g} and {largest:.4g}"
        raise InputError(f"{legal}, got {sd!r}")
    size = expected * (1 - expected) / sd**2 - 1
    law = (expected * size, (1 - expected) * size)
    return expected, sd, lambda generator, shape: generator.beta(*law, shape)


def _resampled(pilot: Sequence[float]) -> tuple[float, float, _Draws]:
    """Return mean and deviation of a pilot, and draws from its losses."""
    losses = np.array([number_in("pilot", float(loss), 0.0, 1.0) for loss in pilot])
    if losses.size < 2:
        raise InputError(f"a pilot needs at least 2 clients, got {losses.size}")
    if losses.min() == losses.max():
        raise InputError(f"a pilot's losses must differ, got {losses[0]:g} of every client")
    mean = float(losses.mean())
    # Losses of 0 and 1 alone are spread wider than any law in [0, 1] by this estimate.
    spread = min(float(losses.std(ddof=1)), _WIDEST * math.sqrt(mean * (1 - mean)))
    return mean, spread, lambda generator, shape: generator.choice(losses, shape)


def _floor(target: float, expected: float, delta: float) -> int:
    """Fewest k with (1 - delta^(1/k)) (1 - e) <= target - e."""
    shrunk = math.log1p(-(target - expected) / (1 - expected))
    return max(1, math.ceil(math.log(delta) / shrunk - 1e-12))


def _fewest(enough: Callable[[int], bool], most: int) -> int | None:
    """Return a number that is enough, where one fewer is not: a quarter more each, then bisection.

    Where hopeless clients end a rule, more of them can be worse: steps are short so as not to pass
    over the numbers that are enough.
    """
    low, high = 0, 1
    while not enough(high):
        if high == most:
            return None
        low, high = high, min(high + 1 + high // 4, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
