"""Balls of populations: duality against the worst law itself, prices, rounding, properties."""

from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from scipy.optimize import brentq, minimize

from latecomer.bounds import (
    ball_mixture,
    betting_mixture,
    breaking_radius,
    chi2_ball,
    kl,
    kl_ball,
    product,
    product_mixture,
    product_wor,
    reference_price,
    subgroup,
    tv_ball,
    wsr_averaged,
)
from latecomer.bounds.certificate import Array
from latecomer.bounds.held_out.bets import (
    Bets,
    betting_mixture_bets,
    betting_wor_bets,
    product_bets,
    product_mixture_bets,
    product_wor_averaged_bets,
    product_wor_bets,
    wsr_averaged_bets,
)
from latecomer.bounds.held_out.betting import REALISED
from latecomer.bounds.shift.duals import DUALS

mp: Any = mpmath
UNION: dict[str, Any] = {"tv": tv_ball, "kl": kl_ball, "chi2": chi2_ball, "subgroup": subgroup}
SCORES = np.array([0.17, 0.05, 0.33, 0.41, 0.1, 0.08, 0.22, 0.19, 0.0, 0.14] * 4)
RADII = {
    "tv": [0.0, 0.02, 0.1, 0.4],
    "kl": [0.0, 0.02, 0.1, 0.6],
    "chi2": [0.0, 0.1, 0.5, 2.0],
    "subgroup": [1.0, 0.7, 0.3, 0.1],
}


def union(ball: str, **given: Any) -> Array:
    """The union over the grid of ``ball_mixture``, at the same points."""
    dual = DUALS[ball]
    named = {dual.radius_name: given.pop("radius"), dual.points_name: dual.points}
    return np.asarray(UNION[ball](**named, **given).value)


@pytest.mark.parametrize("ball", DUALS)
@pytest.mark.parametrize(
    ("bets", "rule"),
    [
        (product_bets(), None),
        (product_mixture_bets(), product_mixture),
        (betting_mixture_bets(), betting_mixture),
        (wsr_averaged_bets(16, 3), partial(wsr_averaged, n_orders=16, seed=3)),
        (product_wor_bets(60), partial(product_wor, pool_size=60)),
    ],
    ids=("product", "product_mixture", "betting_mixture", "wsr_averaged", "product_wor"),
)
def test_the_mixture_never_costs_more_than_the_union(ball: str, bets: Bets, rule: Any) -> None:
    asked: dict[str, Any] = {"losses": SCORES, "radius": RADII[ball], "delta": 0.05}
    mixed = ball_mixture(ball=ball, bets=bets, **asked)
    split = union(ball, rule=rule, **asked)
    assert (mixed.value <= np.minimum(split, 1.0) + 1e-9).all()
    assert (mixed.value < split - 0.002)[split < 1].all(), "nothing was gained"
    assert mixed.sampling == bets.sampling


@pytest.mark.parametrize("ball", DUALS)
def test_values_rise_with_the_radius_and_terms_add_up(ball: str) -> None:
    for found in (
        ball_mixture(losses=SCORES, radius=RADII[ball], delta=0.05, ball=ball),
        kl_ball(losses=SCORES, radius=RADII["kl"], delta=0.05),
    ):
        assert (np.diff(found.value) > 0).all()
        assert sum(found.terms.values()) == pytest.approx(found.value)
        assert found.terms["shift"][0] == pytest.approx(0, abs=1e-12)
        assert (found.terms["price"] > 0).all()
        assert found.population == "unseen-client"
        assert float(found.delta_total) == 0.05


@pytest.mark.parametrize(
    ("ball", "radius"),
    [("tv", 0.1), ("kl", 0.05), ("kl", 0.3), ("chi2", 0.05), ("chi2", 3.0), ("subgroup", 0.3)],
)
def test_duality_is_exact_on_a_fine_grid(ball: str, radius: float, worst_mean: Any) -> None:
    """At the true means the best point's bound is the worst law's mean: nothing is lost there."""
    losses = np.array([0.05, 0.1, 0.12, 0.2, 0.22, 0.3, 0.35, 0.4, 0.6, 1.0])
    dual = DUALS[ball]
    grid = np.linspace(0.05, 20, 4000) if ball == "kl" else np.linspace(0, 0.99, 4000)
    if ball == "chi2":
        grid = np.linspace(-20, 0.99, 40000)
    means = dual.scores(losses, grid[:, None]).mean(axis=-1)
    least = float(dual.value(means, np.array(radius), grid).min())
    exact = worst_mean(ball, losses, np.full(10, 0.1), radius)
    assert least >= exact - 1e-12
    assert least <= exact + 2e-4


@pytest.mark.parametrize("ball", DUALS)
@given(
    point=st.floats(0.01, 0.95),
    mean=st.floats(0.001, 0.999),
    place=st.floats(0, 0.9),
)
def test_needed_inverts_value(ball: str, point: float, mean: float, place: float) -> None:
    dual = DUALS[ball]
    radius = dual.radius_at(np.array(place))
    value = dual.value(np.array(mean), radius, np.array(point))
    assert float(dual.needed(value, radius, np.array(point))) == pytest.approx(mean, abs=1e-9)


def test_equal_scores_cost_less_than_half_of_what_the_union_adds_to_the_floor() -> None:
    """A share 1 - delta^(1/k) of hopeless clients goes unseen, and Q may raise it to q."""
    k, e, radius, delta = 30, 0.155, 0.1, 0.05
    unseen = float(reference_price(mean_loss=0.0, n_clients=k, delta=delta))
    raised = brentq(lambda q: float(kl(q=q, p=unseen)) - radius, unseen, 1 - 1e-9)
    floor = e + (1 - e) * raised
    assert floor == pytest.approx(0.3656, abs=1e-4)
    losses = np.full(k, e)
    split = float(kl_ball(losses=losses, radius=radius, delta=delta))
    mixed = float(ball_mixture(losses=losses, radius=radius, delta=delta))
    assert floor < mixed < floor + 0.45 * (split - floor)
    assert [split, mixed] == pytest.approx([0.4281, 0.3919], abs=1e-4)
    # One temperature made for this radius reaches the floor there, and is worse elsewhere.
    best = minimize(
        lambda t: float(ball_mixture(losses=losses, radius=radius, delta=delta, points=[t[0]])),
        [1.4],
        method="Nelder-Mead",
        options={"xatol": 1e-4, "fatol": 1e-7},
    )
    assert best.fun == pytest.approx(floor, abs=1e-5)
    for other in (0.01, 0.6):
        only = float(ball_mixture(losses=losses, radius=other, delta=delta, points=best.x))
        assert only > float(ball_mixture(losses=losses, radius=other, delta=delta))


@pytest.mark.parametrize("ball", DUALS)
def test_the_breaking_radius_is_where_the_curve_meets_the_target(ball: str) -> None:
    target = 0.45
    radius = float(breaking_radius(losses=SCORES, target=target, delta=0.05, ball=ball))
    at = float(ball_mixture(losses=SCORES, radius=radius, delta=0.05, ball=ball))
    assert at == pytest.approx(target, abs=1e-9)
    wider = radius * (0.99 if ball == "subgroup" else 1.01)
    assert float(ball_mixture(losses=SCORES, radius=wider, delta=0.05, ball=ball)) > target
    assert np.isnan(breaking_radius(losses=SCORES, target=0.17, delta=0.05, ball=ball))


@pytest.mark.parametrize("ball", DUALS)
def test_certificates_say_how_far_the_populations_lie_apart(ball: str) -> None:
    given: dict[str, Any] = {"losses": [0.1, 0.3] * 10, "delta": 0.05}
    apart = DUALS[ball].radius_name
    made = [
        UNION[ball](**{apart: 0.5 if ball == "subgroup" else 0.1}, **given),
        ball_mixture(radius=0.5, ball=ball, **given),
        ball_mixture(radius=0.5, ball=ball, bets=product_wor_bets(60), **given),
    ]
    for one in made:
        assert len([text for text in one.assumptions if apart in text]) == 1
        assert len(set(one.assumptions)) == len(one.assumptions)
    assert REALISED in made[2].assumptions
    assert REALISED not in made[1].assumptions


def test_shapes_broadcast() -> None:
    losses = np.stack([SCORES, SCORES * 0.5, SCORES * 0.1])
    for found in (
        ball_mixture(losses=losses, radius=[[0.0], [0.1]], delta=0.05),
        kl_ball(losses=losses, radius=[[0.0], [0.1]], delta=0.05),
        ball_mixture(
            losses=losses, radius=[[0.0], [0.1]], delta=0.05, bets=wsr_averaged_bets(4, 1)
        ),
        ball_mixture(losses=losses, radius=[[0.0], [0.1]], delta=0.05, bets=product_wor_bets(50)),
    ):
        assert found.value.shape == (2, 3)
        alone = float(found.value[1, 2])
        bets = {"bets": wsr_averaged_bets(4, 1)} if found.sampling == "iid" else {}
        bets = {"bets": product_wor_bets(50)} if found.sampling == "finite-pool" else bets
        if found.name == "kl_ball":
            assert alone == float(kl_ball(losses=losses[2], radius=0.1, delta=0.05))
        else:
            one = ball_mixture(losses=losses[2], radius=0.1, delta=0.05, **bets)
            assert alone == pytest.approx(float(one), abs=1e-12)


@pytest.mark.parametrize(
    ("ball", "points"), [("chi2", -1000.0), ("kl", 1e-290), ("chi2", -(2.0**53)), ("kl", 5e-324)]
)
def test_points_far_out_are_refused_or_cost_what_they_should(ball: str, points: float) -> None:
    """At radius 0 every point's value is at least the bound on the mean."""
    dual, losses = DUALS[ball], [0.5] * 40
    given = {"losses": losses, "radius": 0.0, "delta": 0.05, dual.points_name: [points]}
    if not dual.points_in(np.array([points])).all():
        with pytest.raises(ValueError, match=dual.points_name):
            UNION[ball](**given)
        return
    assert float(UNION[ball](**given)) >= float(product(losses=losses, delta=0.05)) * (1 - 1e-9)


def test_a_score_of_1_and_hopeless_radii_say_nothing() -> None:
    hopeless = np.append(SCORES, 1.0)
    assert float(ball_mixture(losses=hopeless, radius=0.1, delta=0.05)) == 1.0
    assert float(ball_mixture(losses=SCORES, radius=50.0, delta=0.05)) == pytest.approx(1.0)
    asked: dict[str, Any] = {"losses": hopeless, "radius": 0.1, "delta": 0.05}
    products = ball_mixture(bets=product_mixture_bets(), **asked)
    assert float(products) < float(ball_mixture(bets=betting_mixture_bets(), **asked)) < 0.7


def test_a_pool_scored_whole_is_certified_by_itself(worst_mean: Any) -> None:
    """No price is left but the grid's: the worst reweighting of the pool, nearly."""
    for bets in (product_wor_bets(40), betting_wor_bets(40), product_wor_averaged_bets(40, 8)):
        found = ball_mixture(losses=SCORES, radius=[0.0, 0.05], delta=0.05, ball="tv", bets=bets)
        assert found.value[0] == pytest.approx(SCORES.mean(), abs=1e-3)
        exact = worst_mean("tv", SCORES, np.full(SCORES.size, 1 / SCORES.size), 0.05)
        assert exact <= found.value[1] <= exact + 0.05


def log_wealth(bets: str, losses: Any, value: Any, radius: Any) -> Any:
    """The average wealth over temperatures at 50 digits, from the definitions."""
    total = mpf(0)
    for temperature in map(mpf, DUALS["kl"].points):
        scores = [mp.expm1(temperature * x) / mp.expm1(temperature) for x in losses]
        mean = max(mpf(0), mp.expm1(temperature * value - radius) / mp.expm1(temperature))
        if bets == "product":
            total += mp.fprod((1 - z) / (1 - mean) for z in scores)
        elif bets == "product_mixture":
            for b in (mpf(j) / 5 for j in range(1, 6)):
                total += mp.fprod((1 - b * z) / (1 - b * mean) for z in scores) / 5
        else:
            levels = [mpf(2) ** -j for j in range(10)]
            total += mp.fsum(mp.fprod(1 - b * (z - mean) for z in scores) for b in levels) / 10
    return mp.log(total / len(DUALS["kl"].points))


@pytest.mark.thinned
@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "bets"),
    [
        *(("product", product_bets()), ("product_mixture", product_mixture_bets())),
        ("betting_mixture", betting_mixture_bets()),
    ],
)
def test_values_are_rounded_outward(rule: str, bets: Bets) -> None:
    """The exact wealth at the value passes 1/delta, a hair below the value it does not."""
    rng = np.random.default_rng(41)
    with mpmath.workdps(50):
        for _ in range(12):
            losses = rng.beta(1, 6, int(rng.integers(8, 60)))
            delta, radius = float(10 ** rng.uniform(-4, -0.3)), float(rng.exponential(0.1))
            value = float(ball_mixture(losses=losses, radius=radius, delta=delta, bets=bets))
            if value == 1:
                continue
            exact = [mpf(float(x)) for x in losses]
            mark = mp.log(1 / mpf(delta))
            assert log_wealth(rule, exact, mpf(value), mpf(radius)) >= mark
            below = mpf(value) - mpf(2e-10)
            assert log_wealth(rule, exact, below, mpf(radius)) < mark


def test_unions_are_rounded_outward() -> None:
    rng = np.random.default_rng(42)
    with mpmath.workdps(50):
        for _ in range(30):
            losses = rng.beta(1, 6, int(rng.integers(8, 60)))
            exact, k = [mpf(float(x)) for x in losses], losses.size
            radius, share = float(rng.random()), float(rng.uniform(0.05, 1))
            level = mp.log(mpf(0.05) / 4) / k

            def mean(scores: list[Any], level: Any = level, k: int = k) -> Any:
                return -mp.expm1(level + mp.fsum(mp.log(1 - z) for z in scores) / k)

            grid = [mpf(t) for t in (0.0, 0.1, 0.2, 0.3)]
            over = {t: [max(x - t, mpf(0)) / (1 - t) for x in exact] for t in grid}
            forms = {
                tv_ball: min(t + (1 - t) * (mean(z) + mpf(radius)) for t, z in over.items()),
                chi2_ball: min(
                    t + (1 - t) * mp.sqrt((1 + mpf(radius)) * mean([y * y for y in z]))
                    for t, z in over.items()
                ),
                subgroup: min(t + (1 - t) / mpf(share) * mean(z) for t, z in over.items()),
            }
            for form, true in forms.items():
                asked = {"share": share} if form is subgroup else {"radius": radius}
                thresholds = [float(t) for t in grid]
                found = form(losses=losses, delta=0.05, thresholds=thresholds, **asked)
                assert true <= mpf(float(found)) <= true * (1 + mpf(1e-12))
