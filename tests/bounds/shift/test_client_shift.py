"""Divergences between clients: their inequalities and the nearest client."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from latecomer.bounds.shift.adaptation import KINDS, divergence, nearest

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True)
COUNTS = st.lists(st.integers(0, 200), min_size=5, max_size=5).filter(any)
SMOOTHING = st.sampled_from([0.0, 0.5, 1.0, 3.0])


def between(p: Any, q: Any, kind: str, smoothing: float) -> float:
    return float(divergence(novel_counts=p, train_counts=q, kind=kind, smoothing=smoothing))


def test_few_samples_bias_divergences_both_ways() -> None:
    """Exact means for five samples each of (.9, .1) and (.1, .9)."""
    k = np.arange(6)
    counts = np.stack([k, 5 - k], axis=-1)
    weight = np.outer(binom.pmf(k, 5, 0.9), binom.pmf(k, 5, 0.1))

    def mean(kind: str, smoothing: float) -> float:
        pair = {"novel_counts": counts[:, None], "train_counts": counts[None]}
        return float((weight * divergence(**pair, kind=kind, smoothing=smoothing)).sum())

    truth = {kind: between([9, 1], [1, 9], kind, 0.0) for kind in KINDS}
    for kind in ("tv", "js"):
        assert mean(kind, 0.5) < truth[kind] < mean(kind, 0.0)
    assert (round(mean("kl", 0.5), 2), round(truth["kl"], 2)) == (1.28, 1.76)


@SETTINGS
@given(COUNTS, COUNTS, SMOOTHING)
def test_inequalities(p: list[int], q: list[int], smoothing: float) -> None:
    kl, tv, js, hellinger = (between(p, q, kind, smoothing) for kind in KINDS)
    assert tv <= math.sqrt(kl / 2) + 1e-12
    assert hellinger**2 <= tv + 1e-12
    assert tv <= hellinger * math.sqrt(max(2 - hellinger**2, 0.0)) + 1e-12
    assert 0 <= js <= math.log(2)
    assert 0 <= tv <= 1
    assert 0 <= hellinger <= 1
    # A quarter of the KL either way bounds the Jensen-Shannon divergence.
    assert js <= 0.25 * (kl + between(q, p, "kl", smoothing)) + 1e-12
    for kind in ("tv", "js", "hellinger"):
        assert between(q, p, kind, smoothing) == pytest.approx(
            between(p, q, kind, smoothing), abs=1e-14
        )


@SETTINGS
@given(COUNTS, COUNTS, COUNTS, SMOOTHING)
def test_metrics_obey_the_triangle(
    p: list[int], q: list[int], r: list[int], smoothing: float
) -> None:
    for kind, power in (("tv", 1.0), ("js", 0.5), ("hellinger", 1.0)):
        direct, first, second = (
            between(a, b, kind, smoothing) ** power for a, b in ((p, r), (p, q), (q, r))
        )
        assert direct <= first + second + 1e-7


@SETTINGS
@given(COUNTS, st.sampled_from(KINDS), SMOOTHING, st.integers(1, 9))
def test_zero_between_equal_clients_and_scale(
    p: list[int], kind: str, smoothing: float, factor: int
) -> None:
    assert between(p, p, kind, smoothing) == pytest.approx(0.0, abs=1e-15)
    scaled = [factor * c for c in p]
    assert between(scaled, p, kind, 0.0) == pytest.approx(0.0, abs=1e-7)


def test_smoothing_decides_about_missing_classes() -> None:
    assert math.isinf(between([1, 1], [0, 2], "kl", 0.0))
    assert math.isfinite(between([1, 1], [0, 2], "kl", 0.5))
    assert between([0, 2], [1, 1], "kl", 0.0) == pytest.approx(math.log(2))
    assert between([1, 0, 0], [0, 1, 5], "js", 0.0) == pytest.approx(math.log(2), rel=1e-15)
    assert between([1, 0], [0, 1], "hellinger", 0.0) == 1.0
    # Scale matters as soon as counts are smoothed.
    assert between([10, 0], [0, 10], "tv", 1.0) < between([100, 0], [0, 100], "tv", 1.0)


@SETTINGS
@given(st.lists(COUNTS, min_size=1, max_size=6), COUNTS, st.sampled_from(KINDS), SMOOTHING)
def test_nearest_is_the_first_minimum(
    train: list[list[int]], novel: list[int], kind: str, smoothing: float
) -> None:
    found = nearest(novel_counts=novel, train_counts=train, kind=kind, smoothing=smoothing)
    one_by_one = [between(novel, row, kind, smoothing) for row in train]
    assert int(found.client) == int(np.argmin(one_by_one))
    assert float(found.divergence) == min(one_by_one)


def test_ties_go_to_the_lowest_index() -> None:
    found = nearest(novel_counts=[1, 1], train_counts=[[4, 0], [2, 2], [1, 1]], kind="tv")
    assert int(found.client) == 1


def test_broadcasting() -> None:
    rng = np.random.default_rng(0)
    novel, train = rng.integers(0, 9, (4, 3)) + 1, rng.integers(0, 9, (6, 3)) + 1
    found = nearest(novel_counts=novel, train_counts=train, kind="js")
    assert found.client.shape == found.divergence.shape == (4,)
    table = divergence(novel_counts=novel[:, np.newaxis], train_counts=train, kind="js")
    assert table.shape == (4, 6)
    np.testing.assert_allclose(found.divergence, table.min(axis=1))
    assert table[2, 5] == between(novel[2], train[5], "js", 0.5)
    per_row = divergence(novel_counts=novel, train_counts=train[:4], smoothing=[0.5, 1, 2, 3])
    assert per_row[3] == between(novel[3], train[3], "kl", 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"novel_counts": [0, 0], "smoothing": 0}, "novel_counts must hold at least one sample"),
        ({"train_counts": [1, 2, 3]}, "novel_counts has 2, train_counts has 3"),
        ({"train_counts": []}, "train_counts must list one count per class"),
        ({"novel_counts": 3}, "novel_counts must list one count per class"),
    ],
)
def test_bad_input(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        divergence(**{"novel_counts": [1, 2], "train_counts": [3, 4], **changed})


def test_nearest_refuses_what_is_no_table() -> None:
    with pytest.raises(ValueError, match="train_counts must be a table clients x classes"):
        nearest(novel_counts=[1, 2], train_counts=[1, 2])
    with pytest.raises(ValueError, match="smoothing must be one number"):
        nearest(novel_counts=[1, 2], train_counts=[[1, 2]], smoothing=[0.5])
