"""Thresholds of sets: definitions in fractions, crossings, simulated coverage, pooling."""

from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator
from simulated import limit

from latecomer.bounds import (
    blend,
    client_threshold,
    confident_threshold,
    conformal,
    covered_threshold,
    second_moment_threshold,
)

Clients = list[list[float]]
SCORES = st.lists(
    st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.9, 1.5]), min_size=1, max_size=4),
    min_size=1,
    max_size=12,
)


def missed(client: list[float], t: float) -> Fraction:
    return Fraction(sum(score > t for score in client), len(client))


def pairs(client: list[float], t: float) -> Fraction:
    c, n = sum(score > t for score in client), len(client)
    return Fraction(c) if n == 1 else Fraction(c * (c - 1), n * (n - 1))


def smallest(scores: Clients, holds: object) -> float:
    fitting = [t for t in sorted({s for c in scores for s in c}) if holds(t)]  # type: ignore[operator]
    return fitting[0] if fitting else inf


@given(SCORES, st.sampled_from([0.1, 0.2, 0.25, 0.5]))
def test_thresholds_are_those_of_the_definitions(scores: Clients, alpha: float) -> None:
    k, exact = len(scores), Fraction(repr(alpha))
    assert float(client_threshold(scores=scores, alpha=alpha)) == smallest(
        scores, lambda t: sum(missed(c, t) for c in scores) + 1 <= exact * (k + 1)
    )
    assert float(second_moment_threshold(scores=scores, alpha=alpha)) == smallest(
        scores, lambda t: sum(pairs(c, t) for c in scores) + 1 <= exact**2 * (k + 1)
    )


def test_fractions_meet_a_tie_that_floats_miss() -> None:
    """Nine clients of three points, three of them with one miss of three: exactly alpha."""
    scores = [[0.1, 0.2, 0.9]] * 3 + [[0.1, 0.1, 0.2]] * 16
    assert float(client_threshold(scores=scores, alpha=0.1)) == 0.2
    assert float(client_threshold(scores=scores, alpha=0.0999)) == 0.9


def test_clients_of_one_point_give_split_conformals_quantile() -> None:
    rng = np.random.default_rng(1)
    for k in (9, 20, 57):
        scores = rng.random(k)
        made = client_threshold(scores=scores[:, None].tolist(), alpha=0.1)
        assert float(made) == float(conformal(losses=scores, alpha=0.1))
    few = client_threshold(scores=[[0.1]] * 8, alpha=0.1)
    assert float(few) == inf
    assert bool(few.vacuous)
    assert (few.population, float(few.delta_total)) == ("next-client", 0.1)


@pytest.mark.slow
def test_a_rule_that_is_not_monotone_is_asked_from_the_top() -> None:
    """A rule with a hole: below the first failure nothing counts, however well it does there."""
    scores = [[i / 10 for i in range(10)]] * 5
    asked = []

    def holed(losses: np.ndarray) -> float:
        asked.append(float(losses[0]))
        return 1.0 if losses[0] == pytest.approx(0.3) else 0.0

    assert float(confident_threshold(scores=scores, alpha=0.5, delta=0.05, rule=holed)) == 0.7
    assert asked == pytest.approx([0.0, 0.1, 0.2, 0.3])
    orders = [np.random.default_rng(2).permutation(40).tolist() for _ in range(8)]
    clients = np.random.default_rng(3).random((40, 10)).tolist()
    ours = confident_threshold(
        scores=clients,
        alpha=0.3,
        delta=0.05,
        rule=lambda losses: blend(losses=losses, delta=0.05, orders=orders),
    )
    plain = confident_threshold(scores=clients, alpha=0.3, delta=0.05)
    assert 0.6 < float(ours) < float(plain) < 1.0


def test_badly_covered_clients_move_the_threshold_up_and_never_down() -> None:
    clients = np.random.default_rng(4).random((60, 10)).tolist()
    asked = {"scores": clients, "alpha": 0.2, "delta": 0.05}
    mean = float(confident_threshold(**asked))
    loose = float(covered_threshold(**asked, beta=0.9, gamma=0.5))
    tight = float(covered_threshold(**asked, beta=0.1, gamma=0.1))
    pool = float(covered_threshold(**asked, beta=0.1, gamma=0.1, pool_size=70))
    assert mean == loose < tight
    assert mean <= pool <= tight
    single = float(covered_threshold(**asked, beta=0.1, gamma=0.04))
    assert single == inf, "sixty clients prove no share below .049"


def world(rng: Generator, kind: str, k: int) -> Clients:
    """Clients' scores: alike, different, or one in twenty hopeless; 2 to 50 points each."""
    clients = []
    for size in rng.integers(2, 51, k):
        if kind == "alike":
            clients.append(rng.random(size).tolist())
        elif kind == "different":
            clients.append((rng.random() + 0.05 * rng.random(size)).tolist())
        else:
            hopeless = rng.random() < 0.05
            clients.append((2.0 + rng.random(size) if hopeless else rng.random(size)).tolist())
    return clients


@pytest.mark.parametrize("kind", ["alike", "different", "hopeless"])
@pytest.mark.parametrize("k", [10, 20])
def test_a_random_point_of_a_new_client_is_covered(kind: str, k: int) -> None:
    rng, trials, misses = np.random.default_rng(5), 300, 0
    for _ in range(trials):
        *clients, new = world(rng, kind, k + 1)
        threshold = float(client_threshold(scores=clients, alpha=0.2))
        misses += bool(rng.choice(new) > threshold)
    assert misses <= limit(trials, 0.2)


def test_pooled_points_promise_what_they_do_not_keep() -> None:
    """All points of a client alike, twenty each: clients are the units, points are not."""
    rng, trials = np.random.default_rng(6), 60_000
    levels = rng.random((trials, 26))
    ranks = levels[:, :25]
    # Of 500 pooled points the ceil(.9 * 501)-th smallest: that of the 23rd of 25 clients.
    pooled = np.sort(ranks, axis=1)[:, 22]
    by_client = np.array(
        [float(client_threshold(scores=row[:, None].tolist(), alpha=0.1)) for row in ranks[:400]]
    )
    assert (levels[:, 25] > pooled).sum() > limit(trials, 0.1)
    assert (levels[:400, 25] > by_client).sum() <= limit(400, 0.1)


@pytest.mark.slow
def test_the_second_moment_speaks_of_true_rates() -> None:
    """A twentieth of the clients is always missed: the mean hides them, the second moment does not.

    P(true miss rate > .7) may be at most (.35 / .7)^2.
    """
    rng, trials, mean_missed, bad = np.random.default_rng(7), 150, 0, 0
    for _ in range(trials):
        *clients, _ = world(rng, "hopeless", 41)
        first = float(client_threshold(scores=clients, alpha=0.1))
        second = float(second_moment_threshold(scores=clients, alpha=0.18))
        mean_missed += first < 2.0
        bad += second < 2.0
    assert mean_missed > 0.5 * trials
    assert bad < 0.25 * trials


@pytest.mark.thinned
@pytest.mark.theory
@pytest.mark.parametrize("kind", ["alike", "different", "hopeless"])
@pytest.mark.parametrize("k", [20, 50])
def test_confident_thresholds_fail_no_more_often_than_delta(kind: str, k: int) -> None:
    """150 repetitions a world; the miss rate of the population is exact at the threshold."""
    rng, trials, failed = np.random.default_rng(8), 150, 0
    for _ in range(trials):
        t = float(confident_threshold(scores=world(rng, kind, k), alpha=0.3, delta=0.05))
        if kind == "different":
            # A uniform place and a twentieth of a uniform number.
            fresh = rng.random(20_000) + 0.05 * rng.random(20_000)
            risk = float((fresh > t).mean())
        else:
            share = 0.05 if kind == "hopeless" else 0.0
            risk = share * float(np.clip(3.0 - t, 0, 1)) + (1 - share) * float(np.clip(1 - t, 0, 1))
        failed += risk > 0.3 + (0.005 if kind == "different" else 1e-12)
    assert failed <= limit(trials, 0.05)
