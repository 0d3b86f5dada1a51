"""Shifted populations, bad clients, groups and comparisons from a table of losses."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest

import latecomer
from latecomer.bounds import (
    ball_mixture,
    breaking_radius,
    chernoff_kl,
    clopper_pearson,
    dkw_band,
    kl_ball,
    local_level_band,
    mean_difference,
    pool_fraction,
    product,
)
from latecomer.bounds.held_out.bets import product_mixture_bets
from latecomer.bounds.held_out.betting import BET_WEIGHTS
from latecomer.bounds.shift.balls import apart
from latecomer.bounds.shift.duals import planned_grid
from latecomer.certify.rule import MEAN_RULES, RULES
from latecomer.eval import (
    certify_above,
    certify_against,
    certify_curve,
    certify_groups,
    certify_losses,
    certify_shifted,
)

LOSSES = {f"c{i}": 0.05 * (i % 7) for i in range(42)}
VALUES = np.sort(list(LOSSES.values()))
DRAWN = dict(zip(LOSSES, np.random.default_rng(4).permutation(len(LOSSES)), strict=True))
BALLS = {"kl": [0.0, 0.1], "tv": [0.0, 0.1], "chi2": [0.0, 0.3], "subgroup": [1.0, 0.4]}


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("rule", MEAN_RULES)
def test_every_rule_reaches_every_ball(ball: str, rule: str) -> None:
    pool = {"seed": 3} if RULES[rule].iid else {"pool_size": 60, "seed": 3}
    if RULES[rule].ordered:
        pool["order"] = DRAWN
    found = certify_shifted(LOSSES, ball=ball, radii=BALLS[ball], target=0.6, rule=rule, **pool)
    values = found.certificate.value
    assert VALUES.mean() < values[0] < values[1] < 1
    pooled = "finite-pool" if "pool_size" in pool else found.certificate.sampling
    assert found.certificate.sampling == pooled
    assert found.certificate.assumptions.count(apart(ball)) == 1
    near = {"near": BALLS[ball], **pool}
    at = certify_shifted(LOSSES, ball=ball, radii=[found.breaking], rule=rule, **near)
    assert float(at.certificate.value[0]) == pytest.approx(0.6, abs=1e-6)
    assert float(at.certificate.value[0]) <= 0.6 + 1e-12


@pytest.mark.parametrize("ball", BALLS)
def test_the_default_bets_near_the_radii_asked_and_starts_from_the_mean(ball: str) -> None:
    hopeless = {**LOSSES, "c0": 1.0}
    mean = certify_losses(hopeless, rule="blend", seed=5).certificate
    assert mean is not None
    for pool in ({}, {"pool_size": 60}):
        asked = {"ball": ball, "seed": 5, **pool}
        found = certify_shifted(hopeless, radii=BALLS[ball], target=0.7, **asked)
        values = found.certificate.value
        own = certify_losses(hopeless, rule="blend", seed=5, **pool).certificate
        assert own is not None
        # Exactly the mean's own, and no ball is 1 because of one client.
        assert values[0] == float(own) < values[1] < 1
        assert found.rule == "product_mixture"
        assert found.certificate.assumptions[-2].startswith("so were the radii asked for")
        scores = np.sort(list(hopeless.values()))
        grid = planned_grid(ball=ball, radii=BALLS[ball], n_clients=42, delta=0.05)
        how = {"losses": scores, "ball": ball, "delta": 0.05, "points": grid.points}
        how |= {"weights": grid.weights, "bets": product_mixture_bets(weights=BET_WEIGHTS)}
        assert values[1] == float(ball_mixture(radius=BALLS[ball][1], **how))
        assert found.breaking == float(breaking_radius(target=0.7, **how))
        # The same curve at other radii: the plan stays.
        alone = certify_shifted(hopeless, radii=BALLS[ball][1:], near=BALLS[ball], **asked)
        assert alone.certificate.value[0] == values[1]
        assert sum(found.certificate.terms.values()) == pytest.approx(values)


def test_radii_and_targets_are_told_in_all_of_their_digits() -> None:
    """Of a third that is told as 0.333333 a larger group would be certified than was."""
    third = str(latecomer.losses(LOSSES).within("subgroup", [1 / 3]))
    assert third.count("share 0.3333333333333333 ") == 2
    near = str(latecomer.losses(LOSSES).within("kl", [0.1234567], target=0.4234564))
    assert near.count("<= 0.1234567 ") == near.count("at most 0.1234567,") == 1
    assert near.count("below 0.4234564") == near.count("at most 0.4234564:") == 1


def test_without_a_radius_the_default_spreads_its_bets() -> None:
    found = certify_shifted(LOSSES, ball="tv", target=0.4, seed=5)
    how = {"bets": product_mixture_bets(weights=BET_WEIGHTS), "delta": 0.05, "ball": "tv"}
    assert found.breaking == float(breaking_radius(losses=VALUES, target=0.4, **how))
    assert not [text for text in found.certificate.assumptions if "radii asked" in text]


def test_values_are_those_of_the_calculators() -> None:
    found = certify_shifted(LOSSES, ball="kl", radii=[0.05], target=0.4, rule="product")
    assert float(found.certificate.value[0]) == float(
        ball_mixture(losses=VALUES, radius=0.05, delta=0.05)
    )
    assert found.breaking == float(breaking_radius(losses=VALUES, target=0.4, delta=0.05))
    none = certify_shifted(LOSSES, ball="kl", rule="product").certificate
    assert float(none.value[0]) == float(product(losses=VALUES, delta=0.05))
    mixed = certify_shifted(LOSSES, ball="kl", radii=[0.05], rule="product_mixture")
    weighted = product_mixture_bets(weights=BET_WEIGHTS)
    near = planned_grid(ball="kl", radii=[0.05], n_clients=42, delta=0.05)
    grid = {"points": near.points, "weights": near.weights}
    assert float(mixed.certificate.value[0]) == float(
        ball_mixture(losses=VALUES, radius=0.05, delta=0.05, bets=weighted, **grid)
    )

    def counted(*, losses, delta):
        return chernoff_kl(empirical_risk=losses.mean(-1), n_samples=42, delta=delta)

    temperatures = [0.5 * 2 ** (j / 4) for j in range(13)]
    union = kl_ball(losses=VALUES, radius=0.05, delta=0.05, temperatures=temperatures, rule=counted)
    asked = certify_shifted(LOSSES, ball="kl", radii=[0.05], rule="chernoff_kl")
    assert float(asked.certificate.value[0]) == pytest.approx(float(union), rel=1e-12)


def test_a_scale_of_losses_moves_values_and_no_radius() -> None:
    scaled = {client: 4 * loss for client, loss in LOSSES.items()}
    plain = certify_shifted(LOSSES, radii=[0.0, 0.1], target=0.4, seed=3)
    found = certify_shifted(scaled, radii=[0.0, 0.1], target=1.6, loss_max=4.0, seed=3)
    assert found.certificate.value == pytest.approx(4 * plain.certificate.value)
    assert found.breaking == pytest.approx(plain.breaking)
    assert sum(found.certificate.terms.values()) == pytest.approx(found.certificate.value)


def test_shares_above_thresholds_share_delta() -> None:
    found = certify_above(LOSSES, [0.1, 0.25])
    bad = sum(loss > 0.1 for loss in LOSSES.values())
    exact = clopper_pearson(n_errors=bad, n_samples=42, delta=0.025)
    assert float(found[0.1]) == float(exact)
    assert sum(float(one.delta_total) for one in found.values()) == pytest.approx(0.05)
    pooled = certify_above(LOSSES, [0.1], pool_size=60)[0.1]
    assert float(pooled) == float(
        pool_fraction(n_exceeding=bad, n_sampled=42, pool_size=60, delta=0.05)
    )
    assert pooled.sampling == "finite-pool"


@pytest.mark.parametrize("pool_size", [None, 60])
def test_the_curve_is_above_the_sampled_shares(pool_size: int | None) -> None:
    width, steps = certify_curve(LOSSES, pool_size=pool_size)
    assert [t for t, _, _ in steps] == sorted({0.0, *VALUES.tolist()})
    for threshold, sampled, upper in steps:
        assert sampled == np.mean(threshold < VALUES)
        assert sampled < upper <= min(1.0, sampled + float(width)) + 1e-12
    if pool_size is not None:
        for _, sampled, upper in steps:
            assert upper == pytest.approx(min(1.0, sampled + float(width)))
        return
    # Equal local levels: tied clients count, and above the largest loss little is left.
    limits = local_level_band(n_clients=42, delta=0.05)
    assert [u for _, _, u in steps] == [limits[(t >= VALUES).sum()] for t, _, _ in steps]
    assert steps[-1][2] < 0.7 * float(dkw_band(n_clients=42, delta=0.05))
    assert width.name == "local_level_band"


def test_above_2000_clients_the_curve_is_of_one_width() -> None:
    width, steps = certify_curve([0.1, 0.2] * 1001)
    assert float(width) == pytest.approx(float(dkw_band(n_clients=2002, delta=0.05)))
    assert [round(upper - sampled, 9) for _, sampled, upper in steps[1:]] == [
        pytest.approx(float(width))
    ] * 2


def test_groups_share_delta(refusal) -> None:
    frame = pd.DataFrame(
        {"client": list(LOSSES), "loss": list(LOSSES.values()), "site": ["x", "y", "y"] * 14}
    )
    found = certify_groups(frame, "site", rule="product")
    assert {name: one.n_clients for name, one in found.items()} == {"x": 14, "y": 28}
    own = [loss for i, loss in enumerate(LOSSES.values()) if i % 3 == 0]
    assert float(found["x"].certificate) == float(product(losses=np.sort(own), delta=0.025))
    assert sum(float(one.certificate.delta_total) for one in found.values()) == pytest.approx(0.05)
    alone = certify_groups(frame.assign(site="z"), "site", seed=5)["z"]
    assert float(alone.certificate) == float(certify_losses(LOSSES, seed=5).certificate)
    split = pd.concat([frame, frame.head(1).assign(site="y")])
    assert "row 42: client 'c0' has site 'y', and 'x' before" in refusal(
        certify_groups, split, "site"
    )
    needy = frame.assign(site=["lone"] + ["rest"] * 41)
    assert certify_groups(needy, "site")["lone"].n_clients == 1
    assert "site 'lone': rule emp_bernstein needs at least 2" in refusal(
        certify_groups, needy, "site", rule="emp_bernstein"
    )
    assert "no column 'sites'" in refusal(certify_groups, frame, "sites")
    assert "needs a file or a DataFrame" in refusal(certify_groups, LOSSES, "site")


def test_two_models_on_the_same_clients(refusal) -> None:
    worse = {client: min(1.0, loss + 0.3) for client, loss in LOSSES.items()}
    found = certify_against(LOSSES, worse)
    assert found.difference == pytest.approx(-0.3)
    assert found.difference < float(found.certificate) < 0
    assert found.n_worse == 0
    assert float(found.worse) == float(clopper_pearson(n_errors=0, n_samples=42, delta=0.05))
    back = certify_against(worse, LOSSES)
    assert float(back.certificate) > 0.3
    assert (back.n_worse, float(back.worse)) == (42, 1.0)
    mine = list(LOSSES.values())
    by_hand = mean_difference(losses=mine, other=[worse[name] for name in LOSSES], delta=0.05)
    assert float(found.certificate) == pytest.approx(float(by_hand), rel=1e-12)
    pooled = certify_against(LOSSES, worse, pool_size=60)
    assert pooled.certificate.sampling == "finite-pool"
    assert float(pooled.certificate) == float(found.certificate)
    tighter = certify_against(LOSSES, worse, rule="product")
    assert float(tighter.certificate) < float(found.certificate)
    hopeless = {**LOSSES, "c0": 1.0}, {**worse, "c0": 0.0}
    assert float(certify_against(*hopeless, rule="product").certificate) == 1.0
    assert float(certify_against(*hopeless).certificate) < 0
    assert "rule must be one of product_mixture, product, got" in refusal(
        certify_against, LOSSES, worse, rule="blend"
    )
    wide = certify_against(
        {c: 4 * v for c, v in LOSSES.items()},
        {c: 4 * v for c, v in worse.items()},
        loss_max=4.0,
    )
    assert float(wide.certificate) == pytest.approx(4 * float(found.certificate))
    assert "client 'c0' is in the second table" in refusal(
        certify_against, {c: v for c, v in LOSSES.items() if c != "c0"}, LOSSES
    )


def test_bounds_of_a_group_that_say_nothing_are_told_in_words() -> None:
    frame = pd.DataFrame({"client": range(60), "loss": [1.0] * 30 + [0.1] * 30, "site": "good"})
    frame.loc[:29, "site"] = "bad"
    few = frame.iloc[28:].assign(site=["few"] * 2 + ["many"] * 30)
    told = [
        " ".join(str(latecomer.certify_losses(x, by="site", seed=5)).split()) for x in (few, frame)
    ]
    assert told[0].count("next client <= 1.000, says nothing: takes 19 clients") == 1
    assert told[1].count("says nothing: the largest loss; 30 clients, mean 1.000; next") == 1
    assert told[1].count("next client <= 1.000, says nothing: the largest loss") == 1


@pytest.mark.nightly
@pytest.mark.theory
def test_coverage_of_differences_and_groups() -> None:
    """Both at their promised probability; the twin reads each group's bound at the whole delta."""
    rng, trials, k = np.random.default_rng(61), 400, 40
    wrong, unpaid, paid = 0, 0, 0
    for trial in range(trials):
        first, other = (rng.random(k) < 0.3).astype(float), (rng.random(k) < 0.2).astype(float)
        found = certify_against(dict(enumerate(first)), dict(enumerate(other)))
        wrong += float(found.certificate) < 0.1 or float(found.worse) < 0.3 * 0.8
        seen = rng.random((8, 30)) < 0.0951
        unpaid += (~seen.any(axis=1)).any()
        frame = pd.DataFrame(
            {"client": range(240), "loss": seen.ravel().astype(float), "g": np.repeat(range(8), 30)}
        )
        if trial < 40:
            groups = certify_groups(frame, "g", rule="product")
            paid += any(float(one.certificate) < 0.0951 for one in groups.values())
    assert wrong <= 2 * 0.05 * trials
    assert float(product(losses=[0.0] * 30, delta=0.05)) < 0.0951
    assert unpaid > 0.2 * trials
    assert paid == 0


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (partial(certify_shifted, radii=[-0.1]), "kl must be at least 0, got kl[0]=-0.1"),
        (partial(certify_shifted, target=math.nan), "target must be a finite number"),
        (partial(certify_above, thresholds=[0.1, 0.1]), "above must be different losses"),
        (partial(certify_curve, pool_size=10**6), "pool_size of at most 100000, got 1000000"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(ask, said: str, refusal) -> None:
    assert said in refusal(ask, LOSSES)


@pytest.mark.parametrize(("ball", "radius"), [("kl", 0.1), ("chi2", 0.1)])
def test_the_other_direction_is_not_certified(ball: str, radius: float) -> None:
    """Clients that P lacks: KL(P || Q) and chi2(P || Q) may be small, the bound is false for them.

    Of Q a share s is hopeless and the rest is as P: KL(P || Q) = -ln(1 - s), and
    chi2(P || Q) = 1 / (1 - s) - 1.
    """
    share = -math.expm1(-radius) if ball == "kl" else radius / (1 + radius)
    truth = 0.1 * (1 - share) + share
    found = certify_shifted([0.1] * 10_000, ball=ball, radii=[radius])
    assert float(found.certificate.value[0]) < truth - 0.05
    assert any("Q has no kinds of clients that P lacks" in a for a in found.certificate.assumptions)


def test_groups_that_are_numbers_with_fractions_are_told_apart() -> None:
    frame = pd.DataFrame({"client": range(40), "loss": 0.1, "dose": [0.05, 0.5] * 20})
    found = latecomer.losses(frame, seed=1).by("dose")
    assert [*found.groups] == ["0.05", "0.5"]
