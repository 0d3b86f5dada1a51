"""Simulations of clients of known types: certified values of all populations hold at once.

A trial draws held-out clients by the weights of their types, certifies, and fails if any of
many other populations, each at its exactly known distance, has a mean error above what is certified
at that distance.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from latecomer.eval.routes.scored_clients import Scored, ball_of, certify_populations
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.splits.kinds.independent import distances

pytestmark = pytest.mark.theory
DELTA, TRIALS = 0.1, 120
RULES = ("tv_ball", "kl_ball", "chi2_ball", "subgroup")
# Weight and mean error of each type, and held-out clients: a type that goes unseen about as
# often as delta allows spends nearly all of it; many types; alike ones.
UNSEEN = ([1 - 0.1 ** (1 / 30), 0.1 ** (1 / 30)], [0.95, 0.1], 30)
MANY = ([0.25, 0.25, 0.15, 0.15, 0.1, 0.1], [0.02, 0.05, 0.1, 0.15, 0.4, 0.6], 40)
ALIKE = ([0.5, 0.5], [0.2, 0.25], 20)
Measure = Callable[[Sequence[float], Sequence[float]], Mapping[str, float]]


def others(weights: list[float], errors: list[float]) -> list[list[float]]:
    """Tilt the weights towards the worse types, which is the worst that a ball allows, and mix."""
    p, e = np.array(weights), np.array(errors)
    tilted = [p * np.exp(t * e) / (p * np.exp(t * e)).sum() for t in (0, 0.5, 1, 2, 4, 8, 16)]
    rng = np.random.default_rng(0)
    return [q.tolist() for q in [*tilted, *rng.dirichlet(10 * p, 10)]]


def failures(rule: str, world: tuple[list[float], list[float], int], measured: Measure) -> float:
    """Share of trials in which any population's mean error is above its certificate."""
    weights, errors, k = world
    laws = others(weights, errors)
    ball = ball_of(rule)
    far = [measured(weights, law)[ball] for law in laws]
    truth = [float(np.dot(law, errors)) for law in laws]
    radii = tuple(dict.fromkeys(far))
    rng = np.random.default_rng(1)
    failed = 0
    for _ in range(TRIALS):
        kinds = rng.choice(len(weights), k, p=weights)
        wrong = rng.binomial(40, np.array(errors)[kinds])
        scores = [ClientScore(i, 20, 40, int(n), 0.3) for i, n in enumerate(wrong)]
        scored = Scored(scores, "iid", None, "deterministic")
        found = certify_populations(scored, rule=rule, radii=radii, delta=DELTA)
        certified = {radius: float(one) for radius, one in found.at.items()}
        failed += any(t > certified[r] + 1e-12 for t, r in zip(truth, far, strict=True))
    return failed / TRIALS


@pytest.mark.nightly
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("world", [UNSEEN, MANY, ALIKE], ids=["unseen", "many", "alike"])
def test_all_populations_are_certified_at_once(rule, world) -> None:
    # Three standard deviations of a share of delta above it.
    assert failures(rule, world, distances) <= DELTA + 3 * (DELTA * (1 - DELTA) / TRIALS) ** 0.5


def reversed_distances(weights: Sequence[float], others: Sequence[float]) -> Mapping[str, float]:
    """Measure today's clients from tomorrow's: the wrong side."""
    return distances(others, weights)


@pytest.mark.nightly
@pytest.mark.parametrize("rule", ["kl_ball", "chi2_ball"])
def test_a_radius_measured_from_the_wrong_side_fails(rule) -> None:
    """A rare hopeless type that becomes common: KL and chi-squared the other way are small."""
    world = ([0.003, 0.997], [0.95, 0.05], 200)
    assert failures(rule, world, reversed_distances) > 2 * DELTA
    assert failures(rule, world, distances) <= DELTA


def test_a_radius_that_is_too_small_fails() -> None:
    def quartered(weights: Sequence[float], others: Sequence[float]) -> Mapping[str, float]:
        return {name: value / 4 for name, value in distances(weights, others).items()}

    world = ([0.5, 0.5], [0.0, 0.9], 200)
    assert failures("tv_ball", world, quartered) > 2 * DELTA
