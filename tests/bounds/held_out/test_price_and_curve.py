"""Reference prices and the exact band of a finite pool: enumeration, relations, limits."""

from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.bounds import (
    dkw_band,
    pool_band,
    pool_fraction,
    product,
    reference_price,
    reference_price_pool,
)

DELTA = 0.05


def test_reference_price_is_what_the_product_pays_on_equal_scores() -> None:
    for k, score in ((5, 0.0), (30, 0.11), (100, 0.03), (1, 0.5)):
        paid = float(product(losses=[score] * k, delta=DELTA)) - score
        assert paid == pytest.approx(
            float(reference_price(mean_loss=score, n_clients=k, delta=DELTA)), rel=1e-12
        )
    scaled = float(reference_price(mean_loss=1.0, n_clients=30, delta=DELTA, loss_max=4.0))
    assert scaled == pytest.approx(
        4 * float(reference_price(mean_loss=0.25, n_clients=30, delta=DELTA))
    )


def test_hopeless_clients_of_the_reference_price_stay_unseen_with_probability_delta() -> None:
    k = 30
    share = float(reference_price(mean_loss=0.0, n_clients=k, delta=DELTA))
    assert (1 - share) ** k == pytest.approx(DELTA, rel=1e-9)


def test_pool_price_by_exact_counting() -> None:
    for k, pool in ((30, 40), (50, 60), (100, 110), (5, 9), (1, 12), (9, 9)):
        unseen = [
            b
            for b in range(pool - k + 1)
            if Fraction(comb(pool - b, k), comb(pool, k)) > Fraction(1, 20)
        ]
        found = float(reference_price_pool(n_clients=k, pool_size=pool, delta=DELTA))
        assert found == pytest.approx(max(unseen) / pool, rel=1e-14)
    assert float(reference_price_pool(n_clients=9, pool_size=9, delta=DELTA)) == 0.0
    # One client of 20 is missed with probability 1/20 = delta: a rule may fail as often as that.
    assert float(reference_price_pool(n_clients=19, pool_size=20, delta=0.05)) == 0.0
    assert float(reference_price_pool(n_clients=19, pool_size=20, delta=0.0499)) == 0.05


def test_pool_price_approaches_the_price_of_independent_clients() -> None:
    found = reference_price_pool(n_clients=30, pool_size=[40, 400, 10**6], delta=DELTA)
    assert np.all(np.diff(found) > 0)
    limit = float(reference_price(mean_loss=0.0, n_clients=30, delta=DELTA))
    assert found[-1] == pytest.approx(limit, rel=1e-4)
    assert found[-1] <= limit


def deviations(n: int, pool: int) -> list[Fraction]:
    """Largest b/N - H_b/n of every equally likely sample."""
    worst_first = range(1, pool + 1)
    found = []
    for sample in combinations(worst_first, n):
        held = [sum(place <= b for place in sample) for b in worst_first]
        gaps = [Fraction(b, pool) - Fraction(h, n) for b, h in zip(worst_first, held, strict=True)]
        found.append(max(*gaps, Fraction(0)))
    return found


@pytest.mark.parametrize(("n", "pool"), [(1, 1), (1, 6), (3, 7), (4, 10), (7, 9), (5, 5)])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.3, 0.9])
def test_band_by_enumeration(n: int, pool: int, delta: float) -> None:
    all_gaps = deviations(n, pool)
    width = float(pool_band(n_sampled=n, pool_size=pool, delta=delta))
    exceeding = sum(gap > Fraction(width) for gap in all_gaps)
    assert Fraction(exceeding, len(all_gaps)) <= Fraction(delta)
    narrower = Fraction(width) - Fraction(1, n * pool)
    more = sum(gap > narrower for gap in all_gaps)
    assert width == 0.0 or Fraction(more, len(all_gaps)) > Fraction(delta)


@pytest.mark.slow
def test_band_is_below_that_of_independent_clients_and_approaches_it() -> None:
    pools = [110, 200, 1000, 4000]
    widths = pool_band(n_sampled=100, pool_size=pools, delta=DELTA)
    assert np.all(np.diff(widths) > 0)
    limit = float(dkw_band(n_clients=100, delta=DELTA))
    assert 0.95 * limit < widths[-1] < limit


@given(st.integers(2, 300), st.data(), st.sampled_from([0.0513, 0.3117, 1e-7]))
@settings(max_examples=40, deadline=None)
def test_sampled_and_unsampled_clients_change_places(pool: int, data: Any, delta: float) -> None:
    """b/N - H_b/n is (1 - n/N) times how far the two samples' shares are apart."""
    n = data.draw(st.integers(1, pool - 1))
    width, other = pool_band(n_sampled=[n, pool - n], pool_size=pool, delta=delta)
    assert n * width == pytest.approx((pool - n) * other, rel=1e-9)


def test_band_of_a_whole_pool_is_nothing() -> None:
    assert float(pool_band(n_sampled=40, pool_size=40, delta=DELTA)) == 0.0


@given(st.integers(1, 40), st.integers(0, 60), st.floats(1e-6, 0.9))
@settings(max_examples=30, deadline=None)
def test_band_covers_what_it_must_at_one_threshold(n: int, extra: int, delta: float) -> None:
    """All thresholds at once cost no less than the exact limit at a threshold nobody exceeds."""
    pool = n + extra
    width = float(pool_band(n_sampled=n, pool_size=pool, delta=delta))
    one = float(pool_fraction(n_exceeding=0, n_sampled=n, pool_size=pool, delta=delta))
    assert width >= one - 1 / pool - 1e-12


@pytest.mark.parametrize("score", [0.0, 0.11, 0.5, 1.0])
def test_the_pool_s_least_margin_is_the_mean_of_a_pool_that_looks_the_same(score: float) -> None:
    """Equal scores e, and b of 60 clients hopeless: the pool's mean is e + (1 - e) b / 60."""
    found = float(
        reference_price_pool(n_clients=50, pool_size=60, delta=DELTA, mean_loss=score, loss_max=1.0)
    )
    unseen = max(b for b in range(11) if comb(60 - b, 50) / comb(60, 50) > DELTA)
    assert found == pytest.approx(((60 - unseen) * score + unseen) / 60 - score)
    scaled = reference_price_pool(
        n_clients=50, pool_size=60, delta=DELTA, mean_loss=3 * score, loss_max=3.0
    )
    assert float(scaled) == pytest.approx(3 * found)
