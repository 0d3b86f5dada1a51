"""How many clients to hold out for a certificate that is good enough.

A plan starts from a guess of the clients' scores, made before the first score, from a pilot or from
elsewhere.  It promises nothing about the certificate: the certificate will hold however good the
guess was; only its value may disappoint.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from latecomer.bounds.certificate import Array
from latecomer.bounds.held_out.betting import betting_mixture
from latecomer.bounds.held_out.losses import chernoff_kl, product
from latecomer.eval.checks import fraction, number_in, one_of, whole
from latecomer.eval.errors import InputError

_SIMULATED = 500


def _product(losses: Array, delta: float) -> Array:
    return product(losses=losses, delta=delta).value


def _chernoff_kl(losses: Array, delta: float) -> Array:
    mean = losses.mean(axis=-1)
    return chernoff_kl(empirical_risk=mean, n_samples=losses.shape[-1], delta=delta).value


def _betting_mixture(losses: Array, delta: float) -> Array:
    return betting_mixture(losses=losses, delta=delta).value


PLAN_RULES: Mapping[str, Callable[[Array, float], Array]] = MappingProxyType(
    {"product": _product, "chernoff_kl": _chernoff_kl, "betting_mixture": _betting_mixture}
)
"""Rules for which a number of clients can be planned: for independent clients, in any order."""


@dataclass(frozen=True)
class HoldOutPlan:
    """How many clients to hold out.

    Attributes
    ----------
    target : float
        The certificate is to be at most this.
    expected, sd : float
        What clients are expected to score: mean and standard deviation.
    clients : int
        Most clients that can be held out.
    delta : float
        Failure probability of the certificate.
    rule : str
        One of ``PLAN_RULES``.
    floor : int or None
        Fewest clients with which a deterministic rule could meet the target on equal scores of that
        mean; None if there are not so many.
    even_odds, likely : int or None
        Fewest clients whose certificate is at most the target with probability 1/2, and with 9/10;
        None if there are not so many.
    """

    target: float
    expected: float
    sd: float
    clients: int
    delta: float
    rule: str
    floor: int | None
    even_odds: int | None
    likely: int | None


def clients_to_hold_out(
    *,
    target: float,
    expected: float,
    sd: float,
    delta: float = 0.05,
    clients: int = 500,
    rule: str = "product",
    seed: int = 0,
) -> HoldOutPlan:
    """Plan how many clients to hold out, by simulating Beta scores of that mean and spread.

    The floor needs no simulation: on k equal scores e no deterministic rule certifies less than
    e + (1 - delta^(1/k)) (1 - e).

    Parameters
    ----------
    target, expected, sd, delta, clients, rule
        As in `HoldOutPlan`; target, expected and delta in (0, 1), and sd above 0 and below that of
        0/1 scores of the expected mean.
    seed : int
        Seed of the simulated scores; the same seed gives the same plan.

    Returns
    -------
    HoldOutPlan

    Raises
    ------
    InputError
        One line naming the argument, what is legal and what was given.

    Examples
    --------
    >>> plan = clients_to_hold_out(target=0.25, expected=0.17, sd=0.09)
    >>> plan.floor, plan.even_odds, plan.likely
    (30, 32, 44)
    """
    fraction("target", target, above=True)
    fraction("delta", delta, above=True)
    one_of("rule", rule, tuple(PLAN_RULES))
    scores = _drawn(expected, sd, whole("clients", clients, 1), whole("seed", seed, 0))

    def least(probability: float) -> int | None:
        # No certificate is below the mean of its scores.
        if target <= expected:
            return None
        return _fewest(
            lambda k: (PLAN_RULES[rule](scores[:, :k], delta) <= target).mean() >= probability,
            clients,
        )

    floor = _floor(target, expected, delta)
    reached = floor if floor is not None and floor <= clients else None
    return HoldOutPlan(target, expected, sd, clients, delta, rule, reached, least(0.5), least(0.9))


def _drawn(expected: float, sd: float, clients: int, seed: int) -> Array:
    """Draw Beta scores of many samples of that many clients."""
    fraction("expected", expected, above=True)
    largest = math.sqrt(expected * (1 - expected))
    if not 0 < number_in("sd", sd, 0.0, 1.0) < largest:
        raise InputError(f"sd must lie strictly between 0 and {largest:.4g}, got {sd!r}")
    size = expected * (1 - expected) / sd**2 - 1
    law = (expected * size, (1 - expected) * size)
    # One row per client: the first clients stay the same, however many more are drawn.
    return np.random.default_rng(seed).beta(*law, (clients, _SIMULATED)).T


def _floor(target: float, expected: float, delta: float) -> int | None:
    """Fewest k with (1 - delta^(1/k)) (1 - e) <= target - e."""
    if target <= expected:
        return None
    return math.ceil(math.log(delta) / math.log((1 - target) / (1 - expected)) - 1e-12)


def _fewest(enough: Callable[[int], bool], most: int) -> int | None:
    """Return the fewest clients that are enough, if more are better: doubling, then bisection."""
    high = 1
    while not enough(high):
        if high == most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
