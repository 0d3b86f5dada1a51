"""Exact worst cases of rules for scores whose means react to the scores before them.

An opponent chooses the mean of every score, 0 or 1, having seen all scores before it.  The bounds
tested do not depend on the order of scores, so that the number of ones and the sum of the means so
far are all that the opponent has to remember: the largest probability that the average of the
means exceeds the bound is found by going backwards, with means that are multiples of 1/20.
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.held_out.betting import betting_mixture
from latecomer.certify.rule import RULES, Asked, rules_for

STEPS, GRID, DELTA = 50, 20, 0.05


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


def failures(bound: Callable[[Asked], Certificate] | None) -> float:
    """Probability that the average of the means exceeds the bound, at the worst."""
    assert bound is not None
    scores = (np.arange(STEPS) < np.arange(STEPS + 1)[:, None]).astype(float)
    values = np.array([float(bound(Asked(row.tolist(), DELTA))) for row in scores])
    return best_of_the_opponent((averages() > values[:, None] + 1e-12).astype(float))


@pytest.mark.parametrize("rule", rules_for("r4"))
def test_no_opponent_breaks_a_rule_of_progressive_certificates(rule: str) -> None:
    assert failures(RULES[rule].bound) <= DELTA


def test_the_opponent_uses_up_what_the_product_rule_allows() -> None:
    """With all means at 1 - delta^(1/k), no score is 1 with probability delta."""
    assert failures(RULES["product"].bound) > 0.8 * DELTA


def test_fixed_bets_fail() -> None:
    """A known wrong way: one bet against the average, which is known only in the end."""

    def one_bet(asked: Asked) -> Certificate:
        return betting_mixture(losses=asked.losses, delta=asked.level, n_bets=1)

    assert failures(one_bet) == pytest.approx(0.0551, abs=1e-4)
    assert failures(RULES["betting_mixture"].bound) == pytest.approx(0.0064, abs=1e-4)


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
    """Means that do not react reach 1."""
    ones = np.arange(STEPS + 1)[:, None]
    average = averages()[:-1]
    wealth = [(1 - bet) ** ones / (1 - bet * average) ** STEPS for bet in (0.2, 0.4, 0.6, 0.8)]
    largest = np.concatenate([np.mean(wealth, axis=0), np.zeros((STEPS + 1, 1))], axis=1)
    assert best_of_the_opponent(largest) == pytest.approx(1, abs=1e-9)
