"""Hold-out bounds: check values, brute force, orderings, limits, monotonicity, scaling, shapes."""

from fractions import Fraction
from functools import partial
from itertools import product as every
from math import comb, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom

from latecomer.bounds import (
    Certificate,
    betting_mixture,
    chernoff_kl,
    clopper_pearson,
    conformal,
    dkw_band,
    emp_bernstein,
    hoeffding,
    kl,
    pool_fraction,
    product,
    product_mixture,
    wsr,
    wsr_wor,
)

TIGHT = 1e-12
risks = st.floats(0.0, 1.0)
sizes = st.integers(1, 5000)
deltas = st.floats(1e-9, 0.999)
scores = arrays(np.float64, st.integers(1, 40), elements=st.floats(0.0, 1.0))
SCORE_RULES = {
    "product": product,
    "wsr": wsr,
    "wsr_wor": partial(wsr_wor, pool_size=90),
    "betting_mixture": betting_mixture,
    "product_mixture": product_mixture,
}
SUMMARY_RULES = ("hoeffding", "chernoff_kl", "emp_bernstein")


def of_scores(rule: str, losses: Any, delta: Any, top: float = 1.0) -> Certificate:
    return SCORE_RULES[rule](losses=losses, delta=delta, loss_max=top)


def of_mean(rule: str, r: Any, n: Any, delta: Any, top: float = 1.0) -> Certificate:
    asked: dict[str, Any] = {"empirical_risk": r, "delta": delta, "loss_max": top}
    if rule == "emp_bernstein":
        spread = np.asarray(r) * (top - np.asarray(r))
        return emp_bernstein(variance=spread, n_samples=np.asarray(n) + 1, **asked)
    return (hoeffding if rule == "hoeffding" else chernoff_kl)(n_samples=n, **asked)


@pytest.mark.parametrize("rule", SUMMARY_RULES)
@given(risks, risks, sizes, sizes, deltas, deltas)
@settings(max_examples=60)
def test_summary_rules_are_monotone(
    rule: str, r1: float, r2: float, n1: int, n2: int, d1: float, d2: float
) -> None:
    (low, high), (few, many), (sure, unsure) = sorted((r1, r2)), sorted((n1, n2)), sorted((d1, d2))
    if rule != "emp_bernstein":  # its variance moves with the risk here
        assert float(of_mean(rule, low, few, sure)) <= float(of_mean(rule, high, few, sure)) + TIGHT
    assert float(of_mean(rule, low, many, sure)) <= float(of_mean(rule, low, few, sure)) + TIGHT
    assert float(of_mean(rule, low, few, unsure)) <= float(of_mean(rule, low, few, sure)) + TIGHT


def test_emp_bernstein_grows_with_the_variance_and_the_risk() -> None:
    grid = np.linspace(0, 0.25, 30)
    made = emp_bernstein(empirical_risk=0.2, variance=grid, n_samples=30, delta=0.05)
    assert np.all(np.diff(made.value) > 0)
    made = emp_bernstein(empirical_risk=grid, variance=0.1, n_samples=30, delta=0.05)
    assert np.all(np.diff(made.value) > 0)


# The bets of wsr follow delta and the scores, so that nothing forces it to be monotone in them.
@pytest.mark.parametrize("rule", ["product", "betting_mixture", "product_mixture"])
@given(losses=scores, delta=deltas, other=deltas, raised=st.floats(0.0, 1.0))
@settings(max_examples=40)
def test_order_free_rules_are_monotone(
    rule: str, losses: Any, delta: float, other: float, raised: float
) -> None:
    sure, unsure = sorted((delta, other))
    value = float(of_scores(rule, losses, sure))
    assert losses.mean() - 1e-11 <= value <= 1.0
    assert float(of_scores(rule, losses, unsure)) <= value + 1e-11
    higher = losses + raised * (1 - losses)
    assert float(of_scores(rule, higher, sure)) >= value - 1e-11


@pytest.mark.parametrize("rule", SCORE_RULES)
@given(losses=scores, delta=deltas, top=st.floats(1e-3, 1e3))
@settings(max_examples=40)
def test_score_rules_scale_with_the_largest_loss(
    rule: str, losses: Any, delta: float, top: float
) -> None:
    # Closer to 1, what is left of 1 would be lost in the product with top.
    losses = np.round(losses * 2**20) / 2**20
    scaled = of_scores(rule, np.minimum(losses * top, top), delta, top)
    assert float(scaled) == pytest.approx(top * float(of_scores(rule, losses, delta)), rel=1e-9)
    assert scaled.loss_max == top


@pytest.mark.parametrize("rule", SUMMARY_RULES)
@given(risks, sizes, deltas, st.floats(1e-3, 1e3))
@settings(max_examples=40)
def test_summary_rules_scale_with_the_largest_loss(
    rule: str, r: float, n: int, delta: float, top: float
) -> None:
    scaled = of_mean(rule, min(r * top, top), n, delta, top)
    assert float(scaled) == pytest.approx(top * float(of_mean(rule, r, n, delta)), rel=1e-9)


@pytest.mark.parametrize("rule", SCORE_RULES)
def test_score_rules_broadcast_like_a_loop(rule: str) -> None:
    rng = np.random.default_rng(5)
    losses, delta = rng.beta(1, 6, (3, 1, 20)), np.array([0.01, 0.05, 0.3, 0.9])
    whole = of_scores(rule, losses, delta)
    assert whole.value.shape == (3, 4)
    for i, j in every(range(3), range(4)):
        one = of_scores(rule, losses[i, 0], delta[j])
        assert one.value.shape == ()
        assert whole.value[i, j] == pytest.approx(float(one), rel=1e-13)
    parts = sum(np.broadcast_to(part, (3, 4)) for part in whole.terms.values())
    np.testing.assert_allclose(parts, whole.value, rtol=1e-12)


@pytest.mark.parametrize("rule", SUMMARY_RULES)
def test_summary_rules_broadcast_like_a_loop(rule: str) -> None:
    r, n, d = np.array([[0.1], [0.4]]), np.array([5, 50, 500]), 0.05
    whole = of_mean(rule, r, n, d)
    for i, j in every(range(2), range(3)):
        assert whole.value[i, j] == pytest.approx(float(of_mean(rule, r[i, 0], n[j], d)), rel=1e-13)
    parts = sum(np.broadcast_to(part, (2, 3)) for part in whole.terms.values())
    np.testing.assert_allclose(parts, whole.value, rtol=1e-12)


@given(st.integers(0, 60), st.integers(1, 60), deltas)
@settings(max_examples=80)
def test_exact_below_chernoff_below_hoeffding(k: int, n: int, delta: float) -> None:
    k = min(k, n)
    mean = {"empirical_risk": k / n, "n_samples": n, "delta": delta}
    exact = float(clopper_pearson(n_errors=k, n_samples=n, delta=delta))
    assert exact <= float(chernoff_kl(**mean)) + TIGHT
    assert float(chernoff_kl(**mean)) <= float(hoeffding(**mean)) + TIGHT


@given(st.integers(0, 40), st.integers(1, 40), st.floats(1e-6, 0.99))
@settings(max_examples=60, deadline=None)
def test_clopper_pearson_spends_exactly_delta(k: int, n: int, delta: float) -> None:
    k = min(k, n)
    p = float(clopper_pearson(n_errors=k, n_samples=n, delta=delta))
    if k == n:
        assert p == 1.0
        return
    share = Fraction(p)
    tail = sum(comb(n, j) * share**j * (1 - share) ** (n - j) for j in range(k + 1))
    assert tail <= Fraction(delta), "rounded inward"
    assert float(tail) == pytest.approx(delta, rel=1e-8)


def test_looking_again_after_more_clients_breaks_what_was_made_for_one_look() -> None:
    """Exact for coins: limits after 30 clients and again after 60, either of which may fail."""

    def failing(n: int, p: float) -> int:
        """Smallest number of errors whose limit is not below p."""
        limits = clopper_pearson(n_errors=np.arange(n + 1), n_samples=n, delta=0.05).value
        return int((limits < p).sum())

    worst, k = 0.0, np.arange(31)
    for p in (*np.linspace(0.02, 0.9, 353), 0.39416):
        late = np.where(k < failing(30, p), 1.0, binom.cdf(failing(60, p) - 1 - k, 30, p))
        worst = max(worst, float(binom.pmf(k, 30, p) @ late))
    assert worst == pytest.approx(0.07997, abs=5e-6)


def test_scores_next_to_loss_max_are_not_rounded_away() -> None:
    largest = float(np.nextafter(5, 0))
    # 1 - L/5 is half a unit in the last place of 1, which a quotient close to 1 cannot hold.
    exact = 5 * (1 - (0.05 * (5 - largest) / 5) ** (1 / 30))
    found = float(product(losses=[0.0] * 29 + [largest], delta=0.05, loss_max=5.0))
    assert exact <= found < exact * (1 + 1e-12)


def test_looking_at_a_pool_after_every_client_breaks_the_product() -> None:
    """Exact: 8 clients of score 0, 6 of .40445 and one of .9999, in random order."""
    values, held, delta = (0.0, 0.40445, 0.9999), (8, 6, 1), 0.7716
    size = sum(held)
    mean = sum(value * many for value, many in zip(values, held, strict=True)) / size
    unharmed = {(0, 0, 0): Fraction(1)}
    for k in range(1, size + 1):
        later: dict[tuple[int, ...], Fraction] = {}
        for seen, chance in unharmed.items():
            for kind in range(3):
                left = held[kind] - seen[kind]
                after = tuple(many + (kind == j) for j, many in enumerate(seen))
                later[after] = later.get(after, Fraction(0)) + chance * left / (size - k + 1)
        drawn = {seen: np.repeat(values, seen) for seen, chance in later.items() if chance}
        unharmed = {
            seen: later[seen]
            for seen, losses in drawn.items()
            if float(product(losses=losses, delta=delta)) >= mean
        }
    assert 1 - sum(unharmed.values()) == Fraction(35096, 45045) > delta


def test_clients_from_a_list_say_little_about_the_rest_of_it() -> None:
    # Of 35 clients 34 score .96 and one 0.  With probability 30/35 that one is among 30 drawn, and
    # then the mean of the other five is .96.
    assert float(product(losses=[0.96] * 29 + [0.0], delta=0.05)) < 0.96


@pytest.mark.parametrize(
    ("k", "n", "delta"), [(1, 10, 1e-280), (2, 5, 2.2e-226), (18, 6331, 2.9882e-275)]
)
def test_clopper_pearson_deep_in_the_tail(k: int, n: int, delta: float) -> None:
    """There the library's inverse is NaN, or its probability some hundred times delta."""
    p = float(clopper_pearson(n_errors=k, n_samples=n, delta=delta))
    kept = Fraction(1) - Fraction(p)
    tail = sum(comb(n, j) * Fraction(p) ** j * kept ** (n - j) for j in range(k + 1))
    assert p <= float(chernoff_kl(empirical_risk=k / n, n_samples=n, delta=delta))
    assert tail <= Fraction(delta)


def test_clopper_pearson_grows_with_errors() -> None:
    made = clopper_pearson(n_errors=np.arange(31), n_samples=30, delta=0.05)
    assert np.all(np.diff(made.value) > 0)
    assert made.value[0] == pytest.approx(1 - 0.05 ** (1 / 30), rel=1e-13)


@given(scores, deltas, st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_order_free_rules(losses: Any, delta: float, random: Any) -> None:
    shuffled = losses.copy()
    random.shuffle(shuffled)
    for rule in ("product", "betting_mixture", "product_mixture"):
        one, other = of_scores(rule, losses, delta), of_scores(rule, shuffled, delta)
        assert float(one) == pytest.approx(float(other), rel=1e-11)


@given(scores, deltas)
@settings(max_examples=60)
def test_no_order_free_rule_beats_the_price_on_equal_scores(losses: Any, delta: float) -> None:
    level, k = float(losses.mean()), losses.size
    floor = level + (1 - delta ** (1 / k)) * (1 - level)
    equal = product(losses=[level] * k, delta=delta)
    assert float(equal) == pytest.approx(floor, rel=1e-12)
    # Spread only costs (the geometric mean of 1 - L is at most the arithmetic one).
    assert float(product(losses=losses, delta=delta)) >= floor * (1 - 1e-12)


def test_many_bad_clients_leave_nothing_to_certify() -> None:
    assert float(wsr(losses=[0.2], delta=0.05)) == 1.0
    assert float(product(losses=[0.0, 1.0, 0.0], delta=0.05)) == 1.0
    for rule in SCORE_RULES:
        assert float(of_scores(rule, np.ones(30), 0.05)) == 1.0


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("k", [1, 4, 9, 10, 19, 30, 99])
def test_conformal_takes_the_right_rank(k: int, alpha: float) -> None:
    losses = np.random.default_rng(k).permutation(np.arange(1, k + 1) / (k + 1))
    exact = Fraction(str(alpha))
    rank = -((-(1 - exact) * (k + 1)) // 1)
    expected = 1.0 if rank > k else float(np.sort(losses)[int(rank) - 1])
    assert float(conformal(losses=losses, alpha=alpha)) == expected


def test_conformal_broadcasts_and_scales() -> None:
    losses = np.random.default_rng(0).random((4, 1, 25)) * 3
    made = conformal(losses=losses, alpha=[0.02, 0.1, 0.5], loss_max=3.0)
    assert made.value.shape == (4, 3)
    assert made.value[2, 1] == float(conformal(losses=losses[2, 0], alpha=0.1, loss_max=3.0))
    assert np.all(made.value[:, 0] == 3.0)
    assert made.population == "next-client"


def test_pool_fraction_by_exact_counting() -> None:
    def most(x: int, n: int, pool: int, delta: Fraction) -> int:
        largest = x
        for bad in range(x, pool - n + x + 1):
            ways = sum(comb(bad, j) * comb(pool - bad, n - j) for j in range(x + 1))
            if Fraction(ways, comb(pool, n)) >= delta:
                largest = bad
        return largest

    for x, n, pool in [(0, 1, 1), (0, 5, 5), (0, 10, 23), (2, 7, 30), (7, 7, 30), (3, 29, 30)]:
        for delta in (0.01, 0.05, 0.5):
            made = pool_fraction(n_exceeding=x, n_sampled=n, pool_size=pool, delta=delta)
            assert float(made) == pytest.approx(most(x, n, pool, Fraction(delta)) / pool, rel=1e-14)


def test_pool_fraction_approaches_the_binomial_limit() -> None:
    shares = pool_fraction(
        n_exceeding=3, n_sampled=40, pool_size=[60, 400, 10**5], delta=0.05
    ).value
    assert np.all(np.diff(shares) > 0)
    binomial = float(clopper_pearson(n_errors=3, n_samples=40, delta=0.05))
    assert shares[-1] == pytest.approx(binomial, abs=1e-3)
    assert shares[-1] <= binomial


@given(st.integers(0, 30), st.integers(1, 30), st.integers(0, 40), deltas, deltas)
@settings(max_examples=40, deadline=None)
def test_pool_fraction_is_monotone(x: int, n: int, extra: int, d1: float, d2: float) -> None:
    x, sure, unsure = min(x, n), min(d1, d2), max(d1, d2)
    made = pool_fraction(
        n_exceeding=[x, max(x - 1, 0)], n_sampled=n, pool_size=n + extra, delta=[[sure], [unsure]]
    ).value
    assert made[0, 0] >= made[0, 1]
    assert made[0, 0] >= made[1, 0]


def test_dkw_band_is_hoeffding_width_for_all_thresholds() -> None:
    width = dkw_band(n_clients=[10, 100], delta=0.05)
    made = hoeffding(empirical_risk=0.0, n_samples=[10, 100], delta=0.05)
    np.testing.assert_allclose(width, made.value, rtol=1e-12)
    with pytest.raises(ValueError, match=r"delta must lie in \[0, 0.5\], got delta=0.6"):
        dkw_band(n_clients=10, delta=0.6)


def test_limits_in_n() -> None:
    many = 10**12
    for r in (0.0, 0.3, 1.0):
        for rule in SUMMARY_RULES:
            assert float(of_mean(rule, r, many, 0.05)) == pytest.approx(r, abs=1e-5)
        made = chernoff_kl(empirical_risk=r, n_samples=40, delta=0.05)
        if r < 1:
            assert float(kl(r, float(made))) == pytest.approx(log(20) / 40, rel=1e-9)
