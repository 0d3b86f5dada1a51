"""Bets that aim, and their blend with the product: definition, coverage, twins, a bank."""

from itertools import product as sequences
from math import comb, exp, inf, log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta
from simulated import limit

from latecomer.bounds import (
    blend,
    gaffke,
    product,
    product_wor_averaged,
    star,
    star_wor,
)
from latecomer.bounds.certificate import Array
from latecomer.bounds.held_out import star as star_module
from latecomer.bounds.held_out.betting import BET_WEIGHTS, last_kept, product_mixture
from latecomer.bounds.held_out.star import along, highest_unsure, limits, star_ends, star_wealth

DELTA = 0.05


def plain_wealth(losses: Any, risk: float, aim: float, pool: int | None = None) -> float:
    """Log wealth as the definition has it, one client after another, in plain numbers."""
    k, won, squares, taken = len(losses), 0.0, 0.0, 0.0
    for t, loss in enumerate(losses, start=1):
        x = 1.0 - loss
        mean = 1.0 - risk if pool is None else (pool * (1.0 - risk) - taken) / (pool - t + 1)
        mean = min(max(mean, 0.0), 1.0)
        if mean > 1e-12:
            spread = mean * (1.0 - mean)
            if t > 1:
                spread = min(spread, squares / (t - 1) + mean * k / (t - 1) ** 2)
            missing = max(aim - won, 0.0)
            bet = sqrt(2.0 * missing / ((k - t + 1) * spread)) if spread and missing < inf else inf
            if missing == 0.0:
                bet = 0.0
            factor = x / mean if bet >= 1.0 / mean else 1.0 + bet * (x - mean)
            won += log(factor) if factor > 0.0 else -inf
        squares += (x - mean) ** 2
        taken += x
    return won


def plain_bound(losses: Any, pool: int | None = None, delta: float = DELTA) -> float:
    """The bound by looking at all grid points, from the top."""
    n, aim = len(losses), log(1.0 / delta)
    low = 0.0 if pool is None else sum(losses) / pool
    top = 1.0 if pool is None else low + (pool - n) / pool
    for i in range(9_999, -1, -1):
        if i / 10_000 <= top + 1e-12 and plain_wealth(losses, i / 10_000, aim, pool) < aim:
            return min(max((i + 1) / 10_000, low), top)
    return max(0.0, low)


@pytest.mark.parametrize("pool", [None, 13, 16, 60])
def test_the_bound_is_that_of_the_definition(pool: int | None) -> None:
    rng = np.random.default_rng(1)
    for trial in range(4):
        losses = np.where(rng.random(13) < 0.1 * trial, 1.0, rng.beta(1, 5, 13)).round(3)
        made = star(losses=losses, delta=DELTA) if pool is None else None
        made = made or star_wor(losses=losses, delta=DELTA, pool_size=pool)
        assert float(made) == pytest.approx(plain_bound(losses, pool), abs=1e-12)


@pytest.mark.parametrize("pool", [None, 40])
def test_a_blend_is_half_product_and_half_bets_that_aim_at_more(pool: int | None) -> None:
    """At the bound the mean of both, in plain numbers, is above 1/delta; one step below it is not.

    All points above the bound are refused, too.
    """
    rng = np.random.default_rng(2)
    losses = np.append(rng.beta(2, 12, 23), 1.0).round(3)
    orders = [rng.permutation(24).tolist() for _ in range(5)]
    bound = float(blend(losses=losses, delta=DELTA, pool_size=pool, orders=orders))

    def wealth(risk: float) -> float:
        each = []
        for order in orders:
            line = losses[order]
            each.append(exp(plain_wealth(line, risk, log(4.0 / DELTA), pool)))
            kept = 1.0
            for t, loss in enumerate(line):
                mean = 1.0 - risk
                if pool is not None:
                    mean = (pool * (1.0 - risk) - (1.0 - line[:t]).sum()) / (pool - t)
                kept *= (1.0 - loss) / mean
            each.append(kept)
        return float(np.mean(each))

    assert wealth(bound - 1e-4) < 1.0 / DELTA <= wealth(bound)
    top = 1.0 if pool is None else (losses.sum() + pool - 24) / pool
    assert all(wealth(risk) >= 1.0 / DELTA for risk in np.arange(bound, top, 0.004))


def test_orders_that_differ_by_rounding_alone_have_no_deviation() -> None:
    """The product of these scores refuses the risk; along every order the bets reach their aim."""
    made = blend(losses=[0.1] * 40 + [0.3] * 2, delta=0.05, seed=1)
    assert made.orders is not None
    assert float(made.orders.sd) == 0.0


def test_orders_drawn_and_orders_given_are_the_same_rule() -> None:
    losses = np.random.default_rng(3).beta(2, 9, 20)
    drawn = blend(losses=losses, delta=DELTA, n_orders=3, seed=8, in_order=True)
    orders = np.random.default_rng(8).permuted(np.tile(np.arange(20), (3, 1)), axis=1)
    assert float(drawn) == float(blend(losses=losses, delta=DELTA, orders=orders))
    assert drawn.orders is not None
    assert (drawn.orders.n, drawn.orders.seed, drawn.orders.in_order) == (3, 8, True)
    assert (drawn.sampling, drawn.rigorous) == ("iid", True)
    pools = blend(losses=losses, delta=DELTA, n_orders=3, seed=8, pool_size=[20, 30])
    assert pools.sampling == "finite-pool"
    assert pools.value[0] == pytest.approx(losses.mean(), rel=1e-12)
    again = [blend(losses=losses, delta=DELTA).orders for _ in range(2)]
    assert again[0] is not None
    assert again[1] is not None
    assert again[0].n == 256
    assert again[0].seed != again[1].seed, "drawn afresh"


def test_leading_axes_are_problems_of_their_own() -> None:
    losses = np.random.default_rng(4).beta(2, 9, (2, 1, 12))
    deltas = np.array([0.05, 0.2])
    for made in (
        star(losses=losses, delta=deltas),
        star_wor(losses=losses, delta=deltas, pool_size=30),
        blend(losses=losses, delta=deltas, orders=[list(range(12))]),
    ):
        assert made.value.shape == (2, 2)
        assert (made.value[:, 0] > made.value[:, 1]).all()
        assert made.terms["price"].shape == (2, 2)


@pytest.mark.slow
@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=1, max_size=9), st.integers(0, 3))
def test_no_sample_gives_anything_but_a_number(losses: list[float], more: int) -> None:
    """Ruin, empty spreads, whole pools and pools whose rest can hold nothing."""
    k, total = len(losses), sum(losses)
    orders = [list(range(k)), list(range(k - 1, -1, -1))]
    for made in (
        star(losses=losses, delta=DELTA),
        blend(losses=losses, delta=DELTA, orders=orders),
    ):
        assert total / k - 1e-9 <= float(made) <= 1.0 or float(made) >= 0.0
        assert np.isfinite(made.value)
    pool = k + more
    for made in (
        star_wor(losses=losses, delta=DELTA, pool_size=pool),
        blend(losses=losses, delta=DELTA, pool_size=pool, orders=orders),
    ):
        assert total / pool * (1 - 1e-12) <= float(made) <= (total + more) / pool * (1 + 1e-12)


def test_the_whole_pool_is_never_below_its_mean() -> None:
    """Rounding: sums of a tenth and a third are no whole numbers of anything."""
    for losses in ([0.1] * 10, [1 / 3] * 9, [0.7] * 3, [0.1, 1.0, 0.3] * 7):
        k = len(losses)
        exact = sum(int(x * 2**60) for x in losses) / k / 2**60
        assert float(star_wor(losses=losses, delta=DELTA, pool_size=k)) >= exact
        assert float(blend(losses=losses, delta=DELTA, pool_size=k, seed=1)) >= exact


def failures(bounds: dict[tuple[int, ...], float], truths: Array) -> Array:
    """Exact probability that the bound lies below the truth, for independent 0/1 scores."""
    chance = np.zeros(len(truths))
    for scores, bound in bounds.items():
        hits = sum(scores)
        chance += np.where(bound < truths, truths**hits * (1 - truths) ** (len(scores) - hits), 0.0)
    return chance


TRUTHS = np.append(np.linspace(0.005, 0.995, 199), 1.0)


def rotations(k: int) -> list[list[int]]:
    return [[(start + i) % k for i in range(k)] for start in range(k)]


@pytest.mark.parametrize("k", [1, 4, 7])
def test_exact_coverage_of_independent_clients_scored_0_or_1(k: int) -> None:
    """Over all sequences; a blend over fixed orders of a random order is exact as well."""
    for rule in (
        lambda scores: float(star(losses=scores, delta=DELTA)),
        lambda scores: float(blend(losses=scores, delta=DELTA, orders=rotations(k))),
    ):
        bounds = {scores: rule(scores) for scores in sequences((0, 1), repeat=k)}
        assert failures(bounds, TRUTHS).max() <= DELTA


@pytest.mark.parametrize("pool", [7, 8, 12])
def test_exact_coverage_of_pools_scored_0_or_1(pool: int) -> None:
    k = 6
    for rule in (
        lambda scores: float(star_wor(losses=scores, delta=DELTA, pool_size=pool)),
        lambda scores: float(
            blend(losses=scores, delta=DELTA, pool_size=pool, orders=rotations(k))
        ),
    ):
        bounds = {scores: rule(scores) for scores in sequences((0, 1), repeat=k)}
        for bad in range(pool + 1):
            missed = sum(
                comb(pool - k, bad - sum(scores)) / comb(pool, bad)
                for scores, bound in bounds.items()
                if 0 <= bad - sum(scores) <= pool - k and bound < bad / pool
            )
            assert missed <= DELTA


def test_a_twin_whose_bets_see_the_score_they_are_made_on_is_caught() -> None:
    """The same aim, but nothing is bet on scores below what is allowed."""
    rng = np.random.default_rng(5)
    aim, refused = log(1.0 / DELTA), 0
    for _ in range(200):
        losses = (rng.random(20) < 0.3).astype(float)
        seen = [x for x in losses if 1.0 - x > 0.7]
        refused += plain_wealth(seen, 0.3, aim) >= aim
    assert refused > limit(200)


def test_the_smallest_refused_risk_of_an_uneven_wealth_is_no_bound() -> None:
    """Every null is refused with probability delta, whatever the others: the digits of a number.

    Searched from the top the bound fails no more often than that; its twin nearly always.
    """
    rng, trials, truth = np.random.default_rng(6), 400, 5_000
    from_top = smallest = 0
    for start in rng.random(trials):
        refused = (start + np.arange(10_001) * 0.6180339887498949) % 1.0 < DELTA
        refused[8_000:] = True

        def asked(risks: Array, refused: Any = refused) -> Any:
            return refused[np.rint(risks * 10_000).astype(int)]

        from_top += last_kept(asked, top=10_000) + 1 < truth
        smallest += int(refused.argmax()) < truth
    assert from_top <= limit(trials)
    assert smallest > limit(trials)


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [True, False])
def test_pools_are_of_realised_scores_and_not_of_risks(fresh: bool) -> None:
    """A Gibbs error of one half for every client, 100 of 110 scored by one draw each.

    The blend takes the product without replacement for its half, so that both are about the pool as
    it turned out; read as a bound of the expected error it fails.
    """
    rng, trials = np.random.default_rng(7), 120
    pools = (rng.random((trials, 110)) < 0.5).astype(float)
    made = blend(losses=pools[:, :100], delta=DELTA, pool_size=110, n_orders=4, seed=11)
    truth = 0.5 if fresh else pools.mean(axis=1)
    failed = int((made.value < truth).sum())
    assert (failed > limit(trials)) == fresh


def quantiles(k: int, mean: float, sd: float) -> Array:
    spread = mean * (1 - mean) / sd**2 - 1
    places = (np.arange(k) + 0.5) / k
    return np.asarray(beta.ppf(places, mean * spread, (1 - mean) * spread))


# Clients, mean and deviation of their scores, hopeless ones among the clients.
BANK = [
    (30, 0.17, 0.09, 0),
    (100, 0.17, 0.09, 0),
    (500, 0.17, 0.09, 0),
    (30, 0.20, 0.12, 0),
    (60, 0.037, 0.03, 0),
    (30, 0.15, 0.09, 1),
    (100, 0.15, 0.09, 1),
    (50, 0.267, 0.20, 1),
    (79, 0.39, 0.20, 3),
    (100, 0.0, 0.0, 10),
    (100, 0.20, 0.25, 0),
    (1000, 0.30, 0.20, 0),
    (50, 0.17, 0.09, 0),
    (100, 0.15, 0.12, 0),
    (500, 0.15, 0.12, 0),
    (30, 0.30, 0.20, 0),
    (1000, 0.17, 0.09, 0),
    (10, 0.15, 0.10, 0),
    (200, 0.10, 0.08, 5),
]


def sample(place: int) -> Array:
    k, mean, sd, hopeless = BANK[place]
    rest = quantiles(k - hopeless, mean, sd) if mean else np.zeros(k - hopeless)
    return np.concatenate([rest, np.ones(hopeless)])


@pytest.mark.slow
def test_on_a_bank_of_samples_a_blend_stays_near_the_best_bound_known() -> None:
    """Means over draws of 64 orders; where the product is best, the blend costs next to nothing."""
    excess, over_product = [], {}
    for place in range(len(BANK)):
        losses = sample(place)
        draws = 2 if losses.size <= 100 else 1
        made = [
            float(blend(losses=losses, delta=DELTA, n_orders=64, seed=seed))
            for seed in range(draws)
        ]
        mean, best = float(np.mean(made)), float(gaffke(losses=losses, delta=DELTA))
        plain = float(product(losses=losses, delta=DELTA))
        excess.append(mean - best)
        if plain - best <= 0.003:
            over_product[place] = mean - plain
    print(f"mean {np.mean(excess):.4f}, largest {max(excess):.4f}, over product {over_product}")
    assert np.mean(excess) <= 0.010
    assert max(excess) <= 0.033
    assert len(over_product) >= 8, "samples on which the product is as good as any bound"
    assert max(over_product.values()) <= 0.003


@pytest.mark.parametrize(("k", "n", "ours"), [(30, 40, 0.2155), (100, 110, 0.1806)])
def test_pools_of_even_scores_pay_little_for_what_a_hopeless_client_saves(
    k: int, n: int, ours: float
) -> None:
    losses = quantiles(k, 0.17, 0.09)
    made = float(blend(losses=losses, delta=DELTA, pool_size=n, n_orders=64, seed=1))
    assert made == pytest.approx(ours, abs=0.001)
    before = float(
        product_wor_averaged(losses=losses, delta=DELTA, pool_size=n, n_orders=64, seed=1)
    )
    assert made <= before + 0.002
    hopeless = np.append(losses[:-1], 1.0)
    survived = float(blend(losses=hopeless, delta=DELTA, pool_size=n, n_orders=64, seed=1))
    ruined = float(
        product_wor_averaged(losses=hopeless, delta=DELTA, pool_size=n, n_orders=64, seed=1)
    )
    assert survived < ruined


def test_weights_that_lean_on_the_product() -> None:
    losses = np.append(quantiles(29, 0.15, 0.09), 1.0)
    equal = float(product_mixture(losses=losses, delta=DELTA))
    leaning = float(product_mixture(losses=losses, delta=DELTA, weights=BET_WEIGHTS))
    assert (round(equal, 3), round(leaning, 3)) == (0.342, 0.388)
    alone = product_mixture(losses=losses[:-1], delta=DELTA, weights=[0.0, 0.0, 1.0])
    assert float(alone) == pytest.approx(float(product(losses=losses[:-1], delta=DELTA)), rel=1e-12)
    assert float(alone) >= float(product(losses=losses[:-1], delta=DELTA)) * (1 - 1e-12)


@pytest.mark.parametrize("pool", [None, 50])
@pytest.mark.parametrize("law", ["even", "0 or 1", "hopeless", "near 1"])
def test_what_is_won_on_a_span_is_no_more_than_against_any_of_its_risks(
    law: str, pool: int | None
) -> None:
    rng, k, n_orders = np.random.default_rng(21), 40, 6
    losses = {
        "even": rng.beta(2, 6, k),
        "0 or 1": (rng.random(k) < 0.3).astype(float),
        "hopeless": np.where(np.arange(k) < 2, 1.0, rng.beta(2, 8, k)),
        "near 1": 1.0 - rng.beta(1, 20, k),
    }[law]
    sample = along(losses[np.stack([rng.permutation(k) for _ in range(n_orders)])], pool)
    aim, largest = log(4.0 / DELTA), limits(sample)[0]
    lows = np.array([largest - width for width in (0, 9, 60, 400) for _ in range(2)])
    lows = np.maximum(lows - 150 * np.arange(8), 0)
    tops = np.minimum(lows + np.repeat([0, 9, 60, 400], 2), largest)
    won = star_module._won_between(sample, slice(None), lows, tops, aim, np.inf)
    for low, top, most in zip(lows, tops, won, strict=True):
        risks = np.arange(low, top + 1) / 10_000
        each = np.exp(star_ends(sample, risks, aim)).sum(axis=1)
        assert most <= each.min() * (1.0 + 1e-9)
    assert (won > 0.0).any()


def test_spans_leave_the_search_the_point_that_single_risks_would_find() -> None:
    """Down to the point that is left every risk is refused, looked at one by one."""
    rng, aim, enough = np.random.default_rng(22), log(4.0 / DELTA), log(2.0 / DELTA)
    for pool in (None, 90):
        losses = np.where(rng.random(60) < 0.1, 1.0, rng.beta(2, 6, 60))
        sample = along(losses[np.stack([rng.permutation(60) for _ in range(8)])], pool)
        left, largest = highest_unsure(sample, aim, enough), limits(sample)[0]
        risks = np.arange(left + 1, largest + 1) / 10_000
        assert (star_wealth(sample, risks, aim, enough) >= enough).all()
        assert left < largest - 100
