"""Equal local levels, bets beyond 1, differences of two models, and a bound nobody has proved."""

from math import comb

import mpmath
import numpy as np
import pytest
from scipy.stats import beta
from simulated import limit

from latecomer.bounds import (
    CATALOGUE,
    dkw_band,
    equal_local_level,
    gaffke,
    local_level_band,
    mean_difference,
    product,
    wsr,
)

DELTA = 0.05


def test_levels_are_right_where_they_can_be_counted() -> None:
    """k = 1: delta. k = 2: P(U_(1) >= a, U_(2) >= b) = (1 - a)^2 - (b - a)^2."""
    assert float(equal_local_level(n_clients=1, delta=DELTA)) == pytest.approx(DELTA, rel=1e-8)
    level = float(equal_local_level(n_clients=2, delta=DELTA))
    a, b = beta.ppf(level, 1, 2), beta.ppf(level, 2, 1)
    assert (1 - a) ** 2 - (b - a) ** 2 == pytest.approx(1 - DELTA, abs=1e-9)
    assert (1 - a) ** 2 - (b - a) ** 2 >= 1 - DELTA


@pytest.mark.parametrize("delta", [1e-8, 1e-10, 1e-12, 1e-13, 1e-15, 1e-17, 1e-20, 1e-280])
@pytest.mark.parametrize("k", [2, 3, 12, 30, 100])
def test_levels_of_tiny_probabilities_hold_by_the_union(k: int, delta: float) -> None:
    level = float(equal_local_level(n_clients=k, delta=delta))
    assert delta / k * (1 - 1e-6) <= level <= (delta if delta > 1e-9 else delta / k)


def test_levels_of_small_probabilities_are_rounded_down() -> None:
    """P(U_(i) >= b_i for all i) at 40 digits: in floats it errs by more than 1e-9 of this delta."""
    k, delta = 40, 1.01e-9
    bounds = 1.0 - local_level_band(n_clients=k, delta=delta)[1:]
    with mpmath.workdps(40):
        weight, before = [mpmath.mpf(1)], mpmath.mpf(0)
        for i, at in enumerate([mpmath.mpf(float(b)) for b in bounds] + [mpmath.mpf(1)], start=1):
            steps = [(k * (at - before)) ** j / mpmath.factorial(j) for j in range(k + 1)]
            weight = [
                mpmath.fsum(w * steps[n - j] for j, w in enumerate(weight[: n + 1]))
                for n in range(min(i, k + 1))
            ]
            before = at
        weight += [mpmath.mpf(0)] * (k + 1 - len(weight))
        assert 1 - weight[k] * mpmath.factorial(k) / mpmath.mpf(k) ** k <= delta


@pytest.mark.parametrize(("k", "level"), [(30, 0.0042009), (100, 0.0024609)])
def test_golden_levels(k: int, level: float) -> None:
    found = float(equal_local_level(n_clients=k, delta=DELTA))
    assert found == pytest.approx(level, abs=5e-8)


def test_the_band_is_narrow_at_its_end_and_holds_for_all_thresholds_at_once() -> None:
    rng, k, trials = np.random.default_rng(1), 30, 4000
    band = local_level_band(n_clients=k, delta=DELTA)
    assert round(float(band[k]), 3) == 0.167
    assert round(float(dkw_band(n_clients=k, delta=DELTA)), 3) == 0.223
    assert (np.diff(band) < 0).all()
    scores = np.sort(rng.random((trials, k)), axis=1)
    # Just below the next score the share above is largest against its limit.
    worst = np.concatenate([np.ones((trials, 1)), 1 - scores], axis=1) - band
    failed = int((worst > 0).any(axis=1).sum())
    assert 0.6 * DELTA * trials <= failed <= limit(trials)
    ties = np.floor(rng.random((400, k)) * 4)
    below = np.stack([(ties <= t).sum(axis=1) for t in range(4)], axis=1)
    shares = 1 - np.arange(1, 5) / 4
    assert (shares > band[below]).any(axis=1).sum() <= limit(400)


def test_above_two_thousand_clients_a_declared_band_of_one_width() -> None:
    band = local_level_band(n_clients=2001, delta=DELTA)
    assert band[2001] == pytest.approx(float(dkw_band(n_clients=2001, delta=DELTA)), rel=1e-12)
    assert (np.diff(band) <= 0).all()


def exact_failures(k: int, cap: float) -> float:
    """Largest probability, over 0/1 worlds, that wsr with a cap lies below the truth."""
    truths = np.linspace(0.01, 0.99, 99)
    chance = np.zeros(99)
    for number in range(2**k):
        scores = [number >> place & 1 for place in range(k)]
        bound = float(wsr(losses=scores, delta=DELTA, cap=cap))
        hits = sum(scores)
        chance += np.where(bound < truths, truths**hits * (1 - truths) ** (k - hits), 0.0)
    return float(chance.max())


@pytest.mark.parametrize("cap", [0.5, 1.0])
def test_bets_beyond_one_keep_their_promise_and_help_even_scores(cap: float) -> None:
    assert exact_failures(6, cap) <= DELTA
    even = [0.1, 0.05, 0.2, 0.15, 0.1] * 4
    gain = float(wsr(losses=even, delta=DELTA)) - float(wsr(losses=even, delta=DELTA, cap=cap))
    assert gain > 0.005 if cap == 1.0 else gain > -1e-4, "the grid has steps of 1e-4"
    scaled = wsr(losses=[4 * x for x in even], delta=DELTA, cap=cap, loss_max=4.0)
    assert float(scaled) == pytest.approx(4 * float(wsr(losses=even, delta=DELTA, cap=cap)))
    assert float(wsr(losses=[1.0] * 20, delta=DELTA, cap=cap)) == 1.0


@pytest.mark.parametrize(
    ("k", "weighted", "plain"), [(30, 0.06, 0.054), (60, 0.009, 0.006), (100, -0.013, -0.014)]
)
def test_differences_of_matched_clients(k: int, weighted: float, plain: float) -> None:
    """Gaps of mean -.05 and deviation .10, as quantiles."""
    places = (np.arange(k) + 0.5) / k
    mean, spread = 0.475, 0.475 * 0.525 / 0.05**2 - 1
    gaps = 2 * beta.ppf(places, mean * spread, (1 - mean) * spread) - 1
    first, second = np.maximum(gaps, 0), np.maximum(-gaps, 0)
    found = float(mean_difference(losses=first, other=second, delta=DELTA))
    assert found == pytest.approx(weighted, abs=1.5e-3)
    by_name = mean_difference(losses=first, other=second, delta=DELTA, rule="product")
    assert float(by_name) == pytest.approx(plain, abs=1.5e-3)
    swapped = float(mean_difference(losses=second, other=first, delta=DELTA))
    assert found >= gaps.mean() >= -swapped
    scaled = mean_difference(losses=3 * first, other=3 * second, delta=DELTA, loss_max=3.0)
    assert float(scaled) == pytest.approx(3 * found, rel=1e-9)


@pytest.mark.parametrize(("k", "hits"), [(5, 0), (8, 3), (20, 2)])
def test_gaffkes_bound_is_clopper_pearsons_for_0_or_1(k: int, hits: int) -> None:
    """With h scores of 1 the weight on 1 has the law Beta(h + 1, k - h)."""
    found = float(gaffke(losses=[1.0] * hits + [0.0] * (k - hits), delta=DELTA))
    assert found == pytest.approx(beta.ppf(1 - DELTA, hits + 1, k - hits), abs=1e-8)
    tail = sum(comb(k, i) * found**i * (1 - found) ** (k - i) for i in range(hits + 1))
    assert tail == pytest.approx(DELTA, abs=1e-7)


def test_gaffkes_bound_is_marked_as_no_proof() -> None:
    made = gaffke(losses=[0.1] * 30, delta=DELTA)
    assert not made.rigorous
    assert "conjecture" in made.reason
    assert not CATALOGUE["gaffke"].rigorous
    assert float(made) <= float(product(losses=[0.1] * 30, delta=DELTA))
    assert float(gaffke(losses=[1.0, 1.0], delta=DELTA)) == 1.0
