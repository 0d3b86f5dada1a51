"""Speed of the calculators that are called on whole arrays: ``make bench``."""

import math
from time import perf_counter

import numpy as np
import pytest
from scipy.optimize import brentq

from latecomer.bounds import betting_mixture, kl_inverse_upper, wsr, wsr_wor
from latecomer.bounds.certificate import Array

MILLION = 10**6
CLIENTS = 4000


def _one_by_one(q: float, budget: float) -> float:
    def excess(p: float) -> float:
        first = q * math.log(q / p) if q > 0 else 0.0
        return first + (1 - q) * math.log((1 - q) / (1 - p)) - budget

    top = 1.0 - 1e-16
    return float(brentq(excess, q, top)) if excess(top) > 0 else 1.0


@pytest.fixture(scope="module")
def means_and_budgets() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.random(MILLION), rng.random(MILLION)


def test_a_million_upper_inverses(benchmark, means_and_budgets):
    """One call is at least 50 times faster than scipy's brentq, one by one, in this very run."""
    q, budget = means_and_budgets
    values = benchmark.pedantic(kl_inverse_upper, args=(q, budget), rounds=5, warmup_rounds=1)
    few = 5000
    pairs = list(zip(q[:few].tolist(), budget[:few].tolist(), strict=True))
    started = perf_counter()
    slow = [_one_by_one(a, b) for a, b in pairs]
    brentq_seconds = (perf_counter() - started) * MILLION / few
    np.testing.assert_allclose(values[:few], slow, rtol=1e-9)
    if benchmark.stats is not None:
        benchmark.extra_info["times_faster_than_brentq"] = brentq_seconds / benchmark.stats["min"]
        assert benchmark.stats["min"] * 50 <= brentq_seconds


@pytest.mark.parametrize("rule", ["wsr", "wsr_wor", "betting_mixture"])
def test_bets_on_4000_clients(benchmark, rule):
    """A certificate for 4,000 clients takes less than 50 ms."""
    losses = np.random.default_rng(1).beta(1, 9, CLIENTS)
    calls = {
        "wsr": lambda: wsr(losses=losses, delta=0.05),
        "wsr_wor": lambda: wsr_wor(losses=losses, delta=0.05, pool_size=2 * CLIENTS),
        "betting_mixture": lambda: betting_mixture(losses=losses, delta=0.05),
    }
    made = benchmark(calls[rule])
    assert losses.mean() < float(made) < losses.mean() + 0.02
    if benchmark.stats is not None:
        assert benchmark.stats["median"] < 0.05
