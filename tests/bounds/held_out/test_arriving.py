"""Certificates along a stream and evidence of drift: properties, 50-digit values, long streams."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mpmath import mpf

from latecomer.bounds import (
    betting_mixture,
    betting_mixture_path,
    drift_evidence,
    drift_evidence_restarted,
    product,
    product_mixture,
    product_mixture_path,
    product_path,
)
from latecomer.bounds.held_out.arriving import BETS

mp: Any = mpmath
AT_ONE_TIME = {
    "product_path": product,
    "betting_mixture_path": betting_mixture,
    "product_mixture_path": product_mixture,
}
PATHS: dict[str, Any] = {
    "product_path": product_path,
    "betting_mixture_path": betting_mixture_path,
    "product_mixture_path": product_mixture_path,
}
EVIDENCE: dict[str, Any] = {
    "drift_evidence": drift_evidence,
    "drift_evidence_restarted": drift_evidence_restarted,
}
scores = arrays(np.float64, st.integers(1, 15), elements=st.floats(0.0, 1.0))


@pytest.mark.slow
@pytest.mark.parametrize("rule", PATHS)
@given(losses=scores, delta=st.floats(1e-6, 0.9), top=st.sampled_from([1.0, 0.3, 7.0]))
@settings(max_examples=30)
def test_a_path_is_the_running_minimum_of_the_rule(
    rule: str, losses: Any, delta: float, top: float
) -> None:
    found = PATHS[rule](losses=top * losses, delta=delta, loss_max=top)
    values = [
        float(AT_ONE_TIME[rule](losses=top * losses[:seen], delta=delta, loss_max=top))
        for seen in range(1, losses.size + 1)
    ]
    assert found.value == pytest.approx(np.minimum.accumulate(values), rel=1e-9, abs=1e-12)
    assert np.all(np.diff(found.value) <= 0)
    assert np.all(found.value <= top)
    together = sum(found.terms.values())
    assert together == pytest.approx(found.value)


@pytest.mark.parametrize("rule", PATHS)
def test_streams_side_by_side_are_streams_by_themselves(rule: str) -> None:
    losses = np.random.default_rng(3).beta(1, 6, (2, 1, 12))
    delta = np.array([0.01, 0.3])
    both = PATHS[rule](losses=losses, delta=delta).value
    assert both.shape == (2, 2, 12)
    for i in range(2):
        for j in range(2):
            one = PATHS[rule](losses=losses[i, 0], delta=delta[j]).value
            assert both[i, j] == pytest.approx(one, rel=1e-12)


@pytest.mark.slow
def test_the_product_is_rounded_up_along_the_path() -> None:
    rng = np.random.default_rng(34)
    with mpmath.workdps(50):
        for top in (1.0, 0.7, 12.5):
            losses = top * np.concatenate([rng.beta(1, 9, 3000), [1.0 - 1e-12], rng.random(5)])
            path = product_path(losses=losses, delta=0.05, loss_max=top).value
            logs, least = mp.log(mpf(0.05)), mpf(top)
            for seen, loss in enumerate(losses, start=1):
                logs += mp.log(1 - mpf(float(loss)) / mpf(top))
                least = min(least, -mpf(top) * mp.expm1(logs / seen))
                assert least <= mpf(float(path[seen - 1])) <= least * (1 + mpf(1e-10))


def test_evidence_is_rounded_down_and_hardly() -> None:
    rng = np.random.default_rng(35)
    losses, c = rng.beta(2, 9, 400), 0.21
    found = drift_evidence(losses=losses, threshold=c)
    restarted = drift_evidence_restarted(losses=losses, threshold=c)
    with mpmath.workdps(50):
        wealth, sums = [mpf(1)] * len(BETS), [mpf(0)] * len(BETS)
        for seen, loss in enumerate(losses):
            factors = [1 + mpf(bet) * (mpf(float(loss)) - mpf(c)) / mpf(c) for bet in BETS]
            wealth = [w * f for w, f in zip(wealth, factors, strict=True)]
            sums = [(1 + s) * f for s, f in zip(sums, factors, strict=True)]
            for value, exact in ((found, sum(wealth)), (restarted, sum(sums))):
                mean = exact / len(BETS)
                assert mean * (1 - mpf(1e-9)) <= mpf(float(value[seen])) <= mean


@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("threshold", [5e-324, 1e-320, 1e-300])
def test_evidence_against_a_hopeless_threshold_is_a_number(evidence: str, threshold: float) -> None:
    found = EVIDENCE[evidence](losses=[1.0, 0.0, 1.0, 1.0], threshold=threshold)
    assert np.isfinite(found).all()
    assert found[0] > 1e250


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_evidence_on_the_threshold_stays_and_grows_with_the_scores(evidence: str) -> None:
    function = EVIDENCE[evidence]
    even = function(losses=[0.25] * 9, threshold=0.25)
    expected = np.ones(9) if evidence == "drift_evidence" else np.arange(1, 10)
    assert even == pytest.approx(expected, rel=1e-12)
    rng = np.random.default_rng(4)
    losses = rng.random((3, 40))
    higher = losses + rng.random((3, 40)) * (1 - losses)
    assert np.all(function(losses=higher, threshold=0.3) >= function(losses=losses, threshold=0.3))
    stricter = function(losses=losses, threshold=[0.2, 0.3, 0.4])
    assert stricter[1] == pytest.approx(function(losses=losses[1], threshold=0.3), rel=1e-12)


def test_a_restart_is_the_sum_over_all_beginnings() -> None:
    losses = np.random.default_rng(5).random(12)
    begun = sum(
        float(drift_evidence(losses=losses[first:], threshold=0.4, bets=[0.3])[-1])
        for first in range(losses.size)
    )
    whole = drift_evidence_restarted(losses=losses, threshold=0.4, bets=[0.3])
    assert float(whole[-1]) == pytest.approx(begun, rel=1e-12)


def test_long_streams_neither_overflow_nor_get_stuck() -> None:
    """What underflows in a product is still there when the scores rise; a lost stake is lost."""
    losses = np.concatenate([np.full(4000, 0.1), np.full(9000, 0.6)])
    late = drift_evidence(losses=losses, threshold=0.2, bets=[0.9])
    assert late[3999] == 0.0
    assert late[-1] > 1e300
    for evidence in EVIDENCE.values():
        found = evidence(losses=np.full(2000, 1.0), threshold=0.05)
        assert np.all(np.isfinite(found))
        assert found[-1] > 1e307
    assert drift_evidence(losses=[0.0, 1.0, 1.0], threshold=0.1, bets=[1.0])[-1] == 0.0
    assert drift_evidence_restarted(losses=[0.0, 1.0], threshold=0.1, bets=[1.0])[-1] > 9.9
