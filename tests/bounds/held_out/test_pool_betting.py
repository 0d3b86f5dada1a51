"""Bets on a finite pool and over drawn orders: definitions, limits and what must not matter."""

from functools import partial
from math import log
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from latecomer import bounds
from latecomer.bounds import (
    betting_wor,
    betting_wor_averaged,
    product,
    product_wor,
    product_wor_averaged,
    reference_price_pool,
    wsr,
    wsr_averaged,
    wsr_wor,
)
from latecomer.bounds.held_out.betting import seeded_orders

mp: Any = mpmath
A_HAIR = mpf(1) / 10**11


def factors(losses: Any, risk: Any, pool: int) -> list[Any]:
    """(1 - L_j) / (1 - m_j) at 50 digits, from the definition; None once the mean is refused."""
    made, before = [], mpf(0)
    for j, loss in enumerate(losses):
        mean = (pool * risk - before) / (pool - j)
        if mean >= 1:
            return [*made, None]
        made.append((1 - mpf(float(loss))) / (1 - mean))
        before += mpf(float(loss))
    return made


def wealth(losses: Any, risk: Any, pool: int, bets: tuple[float, ...]) -> Any:
    """Largest wealth along the way, averaged over bets, infinite once a mean passes 1."""
    each, best = [mpf(1)] * len(bets), mpf(0)
    for factor in factors(losses, risk, pool):
        if factor is None:
            return mp.inf
        each = [w * (1 - mpf(bet) + mpf(bet) * factor) for w, bet in zip(each, bets, strict=True)]
        best = max(best, sum(each) / len(bets))
    return best


def last_wealth(losses: Any, risk: Any, pool: int, orders: Any, bets: tuple[float, ...]) -> Any:
    """Average over bets and orders of the last product."""
    each = [factors(row, risk, pool) for row in np.sort(losses)[orders]]
    won = (mp.fprod([1 - bet + bet * one for one in own]) for own in each for bet in map(mpf, bets))
    return sum(won) / len(orders) / len(bets)


@pytest.mark.parametrize("pool", [14, 20, 400])
@pytest.mark.parametrize(
    "rule", ["product_wor", "betting_wor", "product_wor_averaged", "betting_wor_averaged"]
)
def test_the_bound_is_the_first_refused_mean(rule: str, pool: int) -> None:
    """Against 50-digit wealths: refused at the reported value, not refused a hair below it."""
    rng = np.random.default_rng(pool)
    orders = seeded_orders(13, 7, 3)

    def at(losses: Any, risk: Any) -> Any:
        bets = (1.0,) if rule.startswith("product") else (1.0, 0.5, 0.25)
        if rule.endswith("averaged"):
            return last_wealth(losses, risk, pool, orders, bets)
        return wealth(losses, risk, pool, bets)

    def bound(losses: Any, delta: float) -> float:
        bets = {} if rule.startswith("product") else {"n_bets": 3}
        drawn = {"n_orders": 7, "seed": 3} if rule.endswith("averaged") else {}
        asked: dict[str, Any] = {"losses": losses, "delta": delta, "pool_size": pool}
        return float(getattr(bounds, rule)(**asked, **bets, **drawn))

    with mpmath.workdps(50):
        below_the_cap = 0
        for _ in range(20):
            losses, delta = rng.beta(1, 5, 13), float(10 ** rng.uniform(-2, -0.2))
            value, cap = mpf(bound(losses, delta)), (losses.sum() + pool - 13) / pool
            target = 1 / mpf(delta)
            if value < cap * (1 - 1e-12):
                below_the_cap += 1
                assert at(losses, value) >= target
                assert at(losses, value * (1 - A_HAIR)) < target
            else:
                assert at(losses, mpf(cap) * (1 - mpf(10) ** -9)) < target
        assert below_the_cap >= 5


@pytest.mark.parametrize(
    "rule", [product_wor, betting_wor, product_wor_averaged, betting_wor_averaged, wsr_wor]
)
def test_a_whole_pool_gives_its_mean(rule: Any) -> None:
    losses = np.linspace(0.0, 0.6, 13)
    made = float(rule(losses=losses, delta=0.05, pool_size=13))
    assert losses.mean() <= made == pytest.approx(losses.mean(), rel=1e-13)


@pytest.mark.parametrize(
    ("rule", "large"), [(product_wor, product), (product_wor_averaged, product), (wsr_wor, wsr)]
)
def test_a_large_pool_gives_the_rule_of_independent_clients(rule: Any, large: Any) -> None:
    losses = np.random.default_rng(2).beta(1, 8, 40)
    pools = [60, 200, 10**4, 10**9]
    made = rule(losses=losses, delta=0.05, pool_size=pools).value
    assert np.all(np.diff(made) > 0)
    limit = float(large(losses=losses, delta=0.05))
    if rule is product_wor:
        assert made[-1] <= limit * (1 + 1e-6), "the largest wealth along the way counts"
    else:
        assert made[-1] == pytest.approx(limit, rel=1e-6)


def test_equal_scores_pay_about_the_price_of_the_pool() -> None:
    """b hopeless clients of N are missed with probability C(N - b, k) / C(N, k)."""
    found = float(product_wor(losses=[0.0] * 30, delta=0.05, pool_size=40))
    exact = float(reference_price_pool(n_clients=30, pool_size=40, delta=0.05))
    assert exact < found < exact + 1 / 40


@pytest.mark.parametrize("n_bets", [1, 5])
def test_a_score_of_one_ends_the_product_and_not_the_bets(n_bets: int) -> None:
    losses = [0.1] * 4 + [1.0] + [0.1] * 36
    given: dict[str, Any] = {"delta": 0.05, "pool_size": 60}
    one = float(product_wor(losses=losses, **given))
    assert one < 1.0, "the clients before it still count"
    averaged = float(product_wor_averaged(losses=losses, **given))
    certain = (sum(losses) + 19) / 60
    assert averaged == pytest.approx(certain, rel=1e-12)
    mixed = float(betting_wor(losses=losses, n_bets=n_bets, **given))
    assert mixed == pytest.approx(one, rel=1e-9) if n_bets == 1 else mixed < one


def test_certainly_all_wrong() -> None:
    for rule in (product_wor, betting_wor, product_wor_averaged, betting_wor_averaged):
        assert float(rule(losses=np.ones(12), delta=0.05, pool_size=30)) == 1.0
    assert float(wsr_averaged(losses=np.ones(12), delta=0.05)) == 1.0


def test_pool_rules_broadcast_like_a_loop() -> None:
    rng = np.random.default_rng(3)
    losses, pools, deltas = rng.beta(1, 6, (2, 1, 12)), np.array([14, 20, 90]), 0.1
    averages = (partial(rule, seed=4) for rule in (product_wor_averaged, betting_wor_averaged))
    for rule in (product_wor, betting_wor, *averages):
        whole = rule(losses=losses, delta=deltas, pool_size=pools)
        assert whole.value.shape == (2, 3)
        for i in range(2):
            for j in range(3):
                one = rule(losses=losses[i, 0], delta=deltas, pool_size=pools[j])
                assert whole.value[i, j] == pytest.approx(float(one), rel=1e-13)
        np.testing.assert_allclose(
            whole.terms["empirical_risk"] + whole.terms["price"], whole.value, rtol=1e-13
        )


many = st.lists(st.floats(0, 1), min_size=1, max_size=25)


@pytest.mark.slow
@given(many, st.floats(0.001, 0.5), st.integers(0, 50), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_no_order_changes_an_averaged_rule(
    losses: list[float], delta: float, more: int, random: Any
) -> None:
    shuffled = list(losses)
    random.shuffle(shuffled)
    size = len(losses) + more
    asked: dict[str, Any] = {"delta": delta, "seed": 4}
    for rule, own in (
        (wsr_averaged, {}),
        (product_wor_averaged, {"pool_size": size}),
        (betting_wor_averaged, {"pool_size": size}),
    ):
        left, right = (float(rule(losses=x, **asked, **own)) for x in (losses, shuffled))
        assert left == pytest.approx(right, rel=1e-12)


@pytest.mark.slow
@given(many, st.floats(0.001, 0.5), st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_values_lie_between_what_was_seen_and_what_is_possible(
    losses: list[float], delta: float, more: int
) -> None:
    size, total = len(losses) + more, sum(losses)
    averages = (partial(rule, seed=4) for rule in (product_wor_averaged, betting_wor_averaged))
    for rule in (product_wor, betting_wor, *averages):
        made = float(rule(losses=losses, delta=delta, pool_size=size))
        surer = float(rule(losses=losses, delta=delta / 2, pool_size=size))
        assert total / size * (1 - 1e-12) <= made <= surer * (1 + 1e-12)
        assert surer <= min(1.0, (total + more) / size * (1 + 1e-12))


def test_seeds_and_numbers_of_orders() -> None:
    losses = np.random.default_rng(5).beta(2, 9, 30)
    given: dict[str, Any] = {"losses": losses, "delta": 0.05}
    pooled = given | {"pool_size": 40}
    for rule, own in (
        (wsr_averaged, given),
        (product_wor_averaged, pooled),
        (betting_wor_averaged, pooled),
    ):
        drawn = rule(**own).orders.seed
        assert drawn != rule(**own).orders.seed, "a draw of its own for every call"
        assert float(rule(**own, seed=drawn)) == float(rule(**own, seed=drawn))
        assert float(rule(**own, seed=1)) != float(rule(**own, seed=2))
        spread = [
            np.ptp([float(rule(**own, n_orders=n, seed=s)) for s in range(12)]) for n in (2, 200)
        ]
        assert spread[1] < spread[0], "more orders, less luck"


@pytest.mark.slow
def test_the_deviation_over_orders_is_that_of_the_bounds() -> None:
    """Told by one draw from the wealths at the bound, it is that of sixty draws' bounds."""
    losses = np.append(np.random.default_rng(8).beta(2.8, 13.7, 29), 1.0)
    given: dict[str, Any] = {"losses": losses, "delta": 0.05, "n_orders": 64}
    pooled = given | {"pool_size": 60}
    for rule, own in ((wsr_averaged, given), (betting_wor_averaged, pooled)):
        found = [rule(**own, seed=seed) for seed in range(60)]
        told = np.mean([float(one.orders.sd) for one in found])
        assert told == pytest.approx(np.std([float(one) for one in found], ddof=1), rel=0.4)
    # A score of 1 leaves the product what is certain, whatever the order.
    assert float(product_wor_averaged(**pooled).orders.sd) == 0.0


def test_along_the_order_of_sampling_orders_are_fixed_permutations_of_it() -> None:
    losses = np.random.default_rng(9).beta(2, 9, 30)
    for rule, own in ((wsr_averaged, {}), (betting_wor_averaged, {"pool_size": 40})):
        asked: dict[str, Any] = {"delta": 0.05, "in_order": True, **own}
        made = rule(losses=losses, **asked)
        assert (made.orders.n, made.orders.seed, made.orders.in_order) == (256, 0, True)
        assert float(made) == float(rule(losses=losses, **asked)), "nothing is drawn"
        assert float(made) != float(rule(losses=np.sort(losses), **asked))


def test_one_order_of_wsr_averaged_has_no_maximum_over_prefixes() -> None:
    """With one order it is wsr's last wealth, so that it can only be larger than wsr."""
    losses = np.sort(np.random.default_rng(6).beta(2, 9, 30))
    order = seeded_orders(30, 1, 9)[0]
    one = float(wsr_averaged(losses=losses, delta=0.05, n_orders=1, seed=9))
    assert one >= float(wsr(losses=losses[order], delta=0.05)) * (1 - 1e-12)
    k, bets, seen, gained = 30, [], [], 0.0
    for loss in losses[order]:
        squares = sum((x - (0.5 + sum(seen[: i + 1])) / (i + 2)) ** 2 for i, x in enumerate(seen))
        spread = (0.25 + squares) / (len(seen) + 1)
        bets.append(min(1.0, np.sqrt(2 * log(20) / (k * spread))))
        gained += log(1 - bets[-1] * (loss - one))
        seen.append(loss)
    assert gained == pytest.approx(log(20), rel=1e-9)


def test_product_wor_beats_older_rules_of_a_pool_on_scores_like_ours() -> None:
    losses = np.random.default_rng(7).beta(2.8, 13.7, 30)
    given: dict[str, Any] = {"losses": losses, "delta": 0.05}
    averaged = float(product_wor_averaged(**given, pool_size=40))
    assert averaged < float(wsr_wor(**given, pool_size=40)) < float(product(**given))


# Thirty CIFAR-10 clients of a pool of 40, three trainings: errors in thousandths, and what the two
# rules may certify.
SCORED = (
    "66 86 58 256 298 60 298 370 378 236 218 70 268 38 236 "
    "92 324 100 52 348 76 246 116 340 76 404 62 80 48 292",
    "66 242 56 220 192 54 178 392 330 270 184 118 208 54 240 "
    "62 208 80 62 310 72 240 92 288 72 230 66 80 54 192",
    "80 122 52 198 314 54 286 358 394 288 190 78 208 36 210 "
    "70 286 62 60 256 86 206 96 284 62 316 64 96 62 290",
)
AT_MOST = ((0.236, 0.234), (0.215, 0.211), (0.223, 0.220))


@pytest.mark.parametrize(("scored", "most"), list(zip(SCORED, AT_MOST, strict=True)))
def test_the_promised_figures_of_thirty_clients(scored: str, most: tuple[float, float]) -> None:
    losses = [int(each) / 1000 for each in scored.split()]
    found = (
        float(rule(losses=losses, delta=0.05, pool_size=40))
        for rule in (product_wor, product_wor_averaged)
    )
    assert all(value <= limit for value, limit in zip(found, most, strict=True))
