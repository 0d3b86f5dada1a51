"""Grids whose weight lies near planned radii: prices, validity at every radius, refusals."""

from typing import Any

import numpy as np
import pytest
from simulated import limit

from latecomer.bounds import ball_mixture, breaking_radius
from latecomer.bounds.held_out.bets import product_mixture_bets
from latecomer.bounds.held_out.betting import BET_WEIGHTS
from latecomer.bounds.shift.duals import DUALS, planned_grid

DELTA, K = 0.05, 30
LEANING = product_mixture_bets(weights=BET_WEIGHTS)
PLANS = {"tv": [0.1], "kl": [0.1], "chi2": [0.3], "subgroup": [0.5]}
RADII = {
    "tv": [0.0, 0.02, 0.1, 0.4],
    "kl": [0.0, 0.02, 0.1, 0.5],
    "chi2": [0.0, 0.05, 0.3, 2.0],
    "subgroup": [1.0, 0.8, 0.5, 0.15],
}


def near(ball: str, k: int = K, **more: Any) -> dict[str, Any]:
    grid = planned_grid(ball=ball, radii=PLANS[ball], n_clients=k, delta=DELTA, **more)
    return {"points": grid.points, "weights": grid.weights}


def test_thirty_equal_scores_come_near_the_floor() -> None:
    """At loss .17 and KL .1 no rule goes below .377, and equal weights stay at .403 or more."""
    asked: dict[str, Any] = {"losses": [0.17] * K, "radius": 0.1, "delta": DELTA}
    planned = near("kl", expected=[0.17])
    assert 0.377 < float(ball_mixture(**asked, **planned)) < 0.383
    assert float(ball_mixture(**asked, **near("kl"))) < 0.383
    assert float(ball_mixture(**asked)) > 0.4
    leaning = float(ball_mixture(**asked, **near("kl"), bets=LEANING))
    assert leaning < 0.389
    assert float(ball_mixture(**asked, bets=LEANING)) > leaning + 0.02


@pytest.mark.parametrize("ball", DUALS)
def test_no_radius_gives_the_own_grid_and_all_weights_sum_to_one(ball: str) -> None:
    none = float(DUALS[ball].radius_at(np.array(0.0)))
    spread = planned_grid(ball=ball, radii=[none], n_clients=K, delta=DELTA)
    assert spread.points == DUALS[ball].points
    assert len(set(spread.weights)) == 1
    for k in (1, 5, 1000):
        grid = planned_grid(ball=ball, radii=RADII[ball], n_clients=k, delta=DELTA)
        assert sum(grid.weights) == pytest.approx(1, abs=1e-12)
        assert min(grid.weights) > 0
        assert DUALS[ball].points_in(np.array(grid.points)).all()
        assert grid.points[-len(spread.points) :] == spread.points


def test_many_radii_get_points_from_the_smallest_to_the_largest() -> None:
    radii = np.linspace(0.01, 1.0, 40)
    asked: dict[str, Any] = {"ball": "kl", "n_clients": K, "delta": DELTA, "expected": [0.2]}
    grid = planned_grid(radii=radii, **asked)
    assert len(grid.points) == 4 + len(DUALS["kl"].points)
    for end, place in ((0, 0), (-1, 3)):
        alone = planned_grid(radii=[radii[end]], **asked)
        assert grid.points[place] == alone.points[0]


@pytest.mark.parametrize("ball", DUALS)
def test_equal_weights_are_the_default_and_a_share_of_the_weight_costs_its_log(ball: str) -> None:
    losses = np.linspace(0.05, 0.4, K)
    points = DUALS[ball].points
    asked: dict[str, Any] = {"losses": losses, "radius": RADII[ball], "delta": DELTA, "ball": ball}
    equal = ball_mixture(**asked, weights=[1 / len(points)] * len(points))
    assert equal.value == pytest.approx(ball_mixture(**asked).value, abs=1e-12)
    planned = ball_mixture(**asked, **near(ball))
    assert (np.diff(planned.value) > 0).all()
    # The own grid holds a fifth of the weight: never worse than it alone at a fifth of delta.
    fifth = ball_mixture(**{**asked, "delta": 0.2 * DELTA})
    assert (planned.value <= fifth.value + 1e-9).all()
    radius = breaking_radius(
        losses=losses, target=planned.value[2], delta=DELTA, ball=ball, **near(ball)
    )
    assert float(radius) == pytest.approx(RADII[ball][2], abs=1e-6)


WORLDS = {
    # As many hopeless clients as go unseen about as often as delta allows, some, and many.
    "unseen": ([0.155, 1.0], [DELTA ** (1 / K) - 1e-4, 1 - DELTA ** (1 / K) + 1e-4]),
    "some hopeless": ([0.05, 0.2, 1.0], [0.5, 0.46, 0.04]),
    "often unseen": ([0.155, 1.0], [0.2 ** (1 / K), 1 - 0.2 ** (1 / K)]),
    "many hopeless": ([0.0, 0.1, 1.0], [0.4, 0.4, 0.2]),
}


def failures(worst_mean: Any, ball: str, name: str, delta: float) -> tuple[int, int]:
    """Samples of which any radius fails, and how many a rule at DELTA exceeds once in a million."""
    trials = 400
    losses, weights = np.array(WORLDS[name][0]), np.array(WORLDS[name][1])
    sampled = np.random.default_rng(7).choice(losses, (trials, K), p=weights)
    true = np.array([[worst_mean(ball, losses, weights, radius)] for radius in RADII[ball]])
    asked: dict[str, Any] = {"losses": sampled, "radius": np.array(RADII[ball])[:, None]}
    value = ball_mixture(**asked, delta=delta, ball=ball, **near(ball), bets=LEANING).value
    failed = int((value < true - 1e-9).any(axis=0).sum())
    return failed, limit(trials)


@pytest.mark.parametrize("ball", DUALS)
@pytest.mark.parametrize("name", WORLDS)
def test_all_radii_hold_at_once_where_some_clients_are_hopeless(
    ball: str, name: str, worst_mean: Any
) -> None:
    """Weights near one radius leave every other one valid."""
    failed, most = failures(worst_mean, ball, name, DELTA)
    assert failed <= most


@pytest.mark.parametrize("ball", DUALS)
def test_who_gives_each_point_the_whole_delta_fails(ball: str, worst_mean: Any) -> None:
    unpaid = min(0.9, DELTA * len(near(ball)["points"]))
    failed, most = failures(worst_mean, ball, "often unseen", unpaid)
    assert failed > most


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"weights": [0.5, 0.5]}, "weights must be one a point (13), got 2"),
        ({"points": [1.0, 2.0], "weights": [0.5, 0.6]}, "numbers in [0, 1] that sum to 1"),
        ({"points": [1.0, 2.0], "weights": [0.0, 1.0]}, "weights must be above 0, got 0"),
    ],
)
def test_weights_that_are_none_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="weights") as caught:
        ball_mixture(losses=[0.1] * 9, radius=0.1, delta=DELTA, **wrong)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ball": "hellinger"}, "ball must be one of"),
        ({"radii": [-0.1]}, "radii must be at least 0"),
        ({"n_clients": 0}, "n_clients must be"),
        ({"delta": 1.0}, "delta must"),
        ({"expected": [0.0]}, "expected must lie strictly between 0 and 1"),
    ],
)
def test_plans_that_are_none_are_refused(wrong: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"ball": "kl", "radii": [0.1], "n_clients": K, "delta": DELTA}
    with pytest.raises(ValueError, match=said):
        planned_grid(**{**asked, **wrong})
