"""Certificates of held-out clients for populations that differ from theirs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.bounds.held_out.bets import product_mixture_bets
from latecomer.bounds.held_out.betting import BET_WEIGHTS, product_mixture
from latecomer.bounds.held_out.losses import product
from latecomer.bounds.shift.balls import apart, ball_mixture
from latecomer.bounds.shift.duals import planned_grid
from latecomer.errors import InputError
from latecomer.eval.routes.scored_clients import Scored, ball_of, certify_populations
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.splits.kinds.independent import distances

RULES = ("tv_ball", "kl_ball", "chi2_ball", "subgroup")


def scored(wrong, *, sampling="iid", pool=None) -> Scored:
    scores = [ClientScore(i, 20, 20, n, 0.3) for i, n in enumerate(wrong)]
    return Scored(scores, sampling, pool, "deterministic")


def certified(wrong, rule, *radii, **asked):
    return certify_populations(scored(wrong), rule=rule, radii=radii, delta=0.05, **asked)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=20, deadline=None)
@given(wrong=st.lists(st.integers(0, 20), min_size=3, max_size=40))
def test_the_certificate_rises_outwards_and_is_above_the_mean(rule: str, wrong: list) -> None:
    found = certified(wrong, rule, 0.2, 0.7)
    told = apart(ball_of(rule))
    assert all(one.assumptions.count(told) == 1 for one in found.at.values())
    radii = [step["radius"] for step in found.curve]
    assert radii == sorted(radii, reverse=rule == "subgroup")
    assert radii[0] == (1.0 if rule == "subgroup" else 0.0)
    values = [step["value"] for step in found.curve]
    assert np.diff(values).min(initial=0) >= 0
    assert values[0] >= np.mean(wrong) / 20
    near, far = (found.at[r] for r in ((0.7, 0.2) if rule == "subgroup" else (0.2, 0.7)))
    assert float(near) <= float(far)
    at = {step["radius"]: step["value"] for step in found.curve}
    assert {r: float(one) for r, one in found.at.items()} == {r: at[r] for r in (0.2, 0.7)}
    assert all(float(one) == pytest.approx(sum(one.terms.values())) for one in found.at.values())
    assert all(float(one.delta_total) == 0.05 for one in found.at.values())


@given(wrong=st.lists(st.integers(0, 20), min_size=3, max_size=40))
@pytest.mark.parametrize("ball", ["tv", "subgroup"])
def test_without_a_shift_a_grid_of_one_point_is_the_plain_rule(ball: str, wrong: list) -> None:
    losses = np.array(wrong) / 20
    none = 1.0 if ball == "subgroup" else 0.0
    found = ball_mixture(losses=losses, radius=none, delta=0.05, ball=ball, points=[0.0])
    assert float(found) == pytest.approx(min(1.0, float(product(losses=losses, delta=0.05))))


@pytest.mark.parametrize("rule", RULES)
def test_the_curve_starts_from_the_means_own_certificate(rule: str) -> None:
    for wrong in ([2, 3, 4, 5, 6] * 10, [20, 3, 4, 5, 6] + [2, 3, 4, 5, 6] * 9):
        losses = np.array(wrong) / 20
        own = float(product_mixture(losses=losses, delta=0.05, weights=BET_WEIGHTS))
        found = certified(wrong, rule, 0.5)
        assert found.curve[0]["value"] == own
        # One client at 1 leaves the product nothing to say, and the default something.
        plain = certified(wrong, rule, 0.5, bets="product")
        assert (plain.curve[0]["value"] == 1) == (20 in wrong)
        assert float(found.at[0.5]) < 1
        kept = ball_mixture(losses=losses, radius=0.5, delta=0.05, ball=ball_of(rule))
        assert float(plain.at[0.5]) == pytest.approx(float(kept), abs=1e-15)


def test_radii_that_are_declared_get_lower_values() -> None:
    wrong = [2, 3, 4, 5, 6] * 8
    near = certified(wrong, "kl_ball", 0.1)
    away = certified(wrong, "kl_ball", 0.1, 2.0)
    assert float(near.at[0.1]) < float(away.at[0.1])
    assert any("bets, the grid" in text for text in near.at[0.1].assumptions)


@pytest.mark.parametrize("rule", RULES)
def test_the_target_breaks_where_the_curve_meets_it(rule: str) -> None:
    wrong = [1, 2, 3, 2] * 15
    found = certified(wrong, rule, 0.5, target=0.3, bets="product")
    at = certified(wrong, rule, found.breaking, bets="product")
    assert float(at.at[found.breaking]) == pytest.approx(0.3, abs=1e-6)
    planned = certified(wrong, rule, 0.5, target=0.3)
    grid = planned_grid(ball=ball_of(rule), radii=[0.5], n_clients=60, delta=0.05)
    value = ball_mixture(
        losses=np.array(wrong) / 20,
        radius=planned.breaking,
        delta=0.05,
        ball=ball_of(rule),
        points=grid.points,
        weights=grid.weights,
        bets=product_mixture_bets(weights=BET_WEIGHTS),
    )
    assert float(value) == pytest.approx(0.3, abs=1e-6)
    never = certified(wrong, rule, 0.5, target=0.05)
    assert np.isnan(never.breaking)


def test_a_pool_and_independent_clients_pay_the_same_and_say_what_they_are() -> None:
    wrong = [1, 2, 3, 2] * 10
    free = certified(wrong, "kl_ball", 0.1)
    pool = certify_populations(
        scored(wrong, sampling="finite-pool", pool=60), rule="kl_ball", radii=(0.1,), delta=0.05
    )
    assert float(free.at[0.1]) == float(pool.at[0.1])
    assert (free.at[0.1].sampling, pool.at[0.1].sampling) == ("iid", "finite-pool")
    for found in (free, pool):
        assert found.at[0.1].population == "unseen-client"
        assert any(
            "KL(Q || P) of the other population Q from this one, P" in a
            for a in found.at[0.1].assumptions
        )
    assert any("60 clients not trained on" in text for text in pool.at[0.1].assumptions)
    few = scored(wrong, sampling="finite-pool", pool=45)
    with pytest.raises(InputError, match="at least 10 clients"):
        certify_populations(few, rule="kl_ball", radii=(0.1,), delta=0.05)


# ---- simulations of clients of known types: certified values of all populations hold at once
# A trial draws held-out clients by the weights of their types, certifies, and fails if any of many
# other populations, each at its exactly known distance, has a mean error above what is certified.

DELTA, TRIALS = 0.1, 120
# Weight and mean error of each type, and held-out clients: a type that goes unseen about as
# often as delta allows spends nearly all of it; many types; alike ones.
UNSEEN = ([1 - 0.1 ** (1 / 30), 0.1 ** (1 / 30)], [0.95, 0.1], 30)
MANY = ([0.25, 0.25, 0.15, 0.15, 0.1, 0.1], [0.02, 0.05, 0.1, 0.15, 0.4, 0.6], 40)
ALIKE = ([0.5, 0.5], [0.2, 0.25], 20)


def others(weights: list[float], errors: list[float]) -> list[list[float]]:
    """Tilt the weights towards the worse types, which is the worst that a ball allows, and mix."""
    p, e = np.array(weights), np.array(errors)
    tilted = [p * np.exp(t * e) / (p * np.exp(t * e)).sum() for t in (0, 0.5, 1, 2, 4, 8, 16)]
    rng = np.random.default_rng(0)
    return [q.tolist() for q in [*tilted, *rng.dirichlet(10 * p, 10)]]


def failures(rule, world, measured) -> float:
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
        held_out = Scored(scores, "iid", None, "deterministic")
        found = certify_populations(held_out, rule=rule, radii=radii, delta=DELTA)
        most = {radius: float(one) + 1e-12 for radius, one in found.at.items()}
        failed += any(t > most[r] for t, r in zip(truth, far, strict=True))
    return failed / TRIALS


@pytest.mark.theory
@pytest.mark.nightly
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("world", [UNSEEN, MANY, ALIKE], ids=["unseen", "many", "alike"])
def test_all_populations_are_certified_at_once(rule, world) -> None:
    # Three standard deviations of a share of delta above it.
    assert failures(rule, world, distances) <= DELTA + 3 * (DELTA * (1 - DELTA) / TRIALS) ** 0.5


def reversed_distances(weights, others):
    """Measure today's clients from tomorrow's: the wrong side."""
    return distances(others, weights)


@pytest.mark.theory
@pytest.mark.nightly
@pytest.mark.parametrize("rule", ["kl_ball", "chi2_ball"])
def test_a_radius_measured_from_the_wrong_side_fails(rule) -> None:
    """A rare hopeless type that becomes common: KL and chi-squared the other way are small."""
    world = ([0.003, 0.997], [0.95, 0.05], 200)
    assert failures(rule, world, reversed_distances) > 2 * DELTA
    assert failures(rule, world, distances) <= DELTA


@pytest.mark.theory
def test_a_radius_that_is_too_small_fails() -> None:
    def quartered(weights, others):
        return {name: value / 4 for name, value in distances(weights, others).items()}

    world = ([0.5, 0.5], [0.0, 0.9], 200)
    assert failures("tv_ball", world, quartered) > 2 * DELTA
