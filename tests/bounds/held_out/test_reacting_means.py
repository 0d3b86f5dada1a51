"""Exact worst cases of rules for scores whose means react to the scores before them.

An opponent chooses the mean of every score, 0 or 1, having seen all scores before it.  The bounds
tested do not depend on the order of scores, so that the number of ones and the sum of the means so
far are all that the opponent has to remember: the largest probability that the average of the
means exceeds the bound is found by going backwards, with means that are multiples of 1/20.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.held_out.betting import betting_mixture, product_mixture
from latecomer.bounds.held_out.losses import product
from latecomer.bounds.unseen_clients.single_level import progressive
from latecomer.eval.certificates.rules import Asked, rules_for

STEPS, GRID, DELTA = 50, 20, 0.05
Rule = Callable[..., Certificate]


def best_of_the_opponent(reward: NDArray[np.float64]) -> float:
    """Largest mean of ``reward [ones, sum of means in units of 1/GRID]`` after all scores."""
    for step in range(STEPS - 1, -1, -1):
        ones, sums = step + 1, step * GRID + 1
        chosen = [
            (1 - mean / GRID) * reward[:ones, mean : mean + sums]
            + mean / GRID * reward[1 : ones + 1, mean : mean + sums]
            for mean in range(GRID + 1)
        ]
        reward = np.max(chosen, axis=0)
    return float(reward[0, 0])


def averages() -> NDArray[np.float64]:
    return np.arange(STEPS * GRID + 1) / (STEPS * GRID)


def failures(rule: Rule) -> float:
    """Probability that the average of the means exceeds the bound, at the worst."""
    scores = (np.arange(STEPS) < np.arange(STEPS + 1)[:, None]).astype(float)
    bound = np.array([float(rule(losses=row, delta=DELTA)) for row in scores])
    return best_of_the_opponent((averages() > bound[:, None] + 1e-12).astype(float))


def by_grid(*, losses: NDArray[np.float64], delta: float) -> Certificate:
    grid = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
    return progressive(empirical_risk=losses.mean(), n_steps=losses.size, delta=delta, grid=grid)


@pytest.mark.parametrize(
    "rule",
    [product, product_mixture, partial(product_mixture, n_bets=1), by_grid],
    ids=["product", "product_mixture", "one bet", "progressive"],
)
def test_no_opponent_breaks_it(rule: Rule) -> None:
    assert failures(rule) <= DELTA


def test_every_rule_of_a_progressive_certificate_is_tested() -> None:
    assert set(rules_for("r4")) == {"product", "product_mixture", "progressive"}
    for name, rule in rules_for("r4").items():
        assert rule.bound is not None
        assert rule.bound(Asked([0.1] * 9, DELTA)).name == name


def test_the_opponent_uses_up_what_the_product_rule_allows() -> None:
    """Where means are fixed at 1 - delta^(1/k), no score is 1 with probability delta."""
    assert failures(product) > 0.8 * DELTA


def test_fixed_bets_fail() -> None:
    """A known wrong way: one bet against the average, which is known only in the end."""
    assert failures(partial(betting_mixture, n_bets=1)) == pytest.approx(0.0551, abs=1e-4)
    assert failures(betting_mixture) < DELTA


@pytest.mark.parametrize(("n_bets", "most"), [(1, 1.46), (10, 1.05)])
def test_the_wealth_of_fixed_bets_has_a_mean_above_one(n_bets: int, most: float) -> None:
    """The inequality that a proof for ``betting_mixture`` would rest on is false."""
    ones = np.arange(STEPS + 1)[:, None]
    bets = 0.5 ** np.arange(n_bets)
    average = averages()
    wealth = [
        (1 + bet * average) ** (STEPS - ones) * (1 - bet * (1 - average)) ** ones for bet in bets
    ]
    assert best_of_the_opponent(np.mean(wealth, axis=0)) == pytest.approx(most, abs=1e-3)


def test_the_wealth_of_the_mixture_of_products_has_a_mean_of_at_most_one() -> None:
    ones = np.arange(STEPS + 1)[:, None]
    average = averages()[:-1]
    wealth = [(1 - bet) ** ones / (1 - bet * average) ** STEPS for bet in (0.2, 0.4, 0.6, 0.8)]
    largest = np.concatenate([np.mean(wealth, axis=0), np.zeros((STEPS + 1, 1))], axis=1)
    assert best_of_the_opponent(largest) <= 1 + 1e-9
