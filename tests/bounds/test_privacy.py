"""Noise for private descriptors: exact against 60 digits, never too little."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.bounds.privacy import dp_sensitivity, gauss_analytic, gauss_classic, gauss_delta

SETTINGS = settings(max_examples=40, deadline=None, derandomize=True)


def exact_delta(epsilon: float, sigma: Any, sensitivity: float) -> Any:
    """Delta of the Gaussian mechanism at 60 digits and more."""
    with mpmath.workdps(60):
        ratio = mpmath.mpf(sensitivity) / mpmath.mpf(sigma)
        eps = mpmath.mpf(epsilon)
        # In the far tail both terms agree to many digits.
        with mpmath.workdps(60 + int(2 * abs(mpmath.log10(ratio)))):
            first = mpmath.erfc(-(ratio / 2 - eps / ratio) / mpmath.sqrt(2)) / 2
            second = mpmath.erfc((ratio / 2 + eps / ratio) / mpmath.sqrt(2)) / 2
            return first - mpmath.exp(eps) * second


@SETTINGS
@given(st.floats(0.0, 60.0), st.floats(-6.0, 6.0))
def test_delta_against_many_digits(epsilon: float, log_sigma: float) -> None:
    sigma = 10.0**log_sigma
    exact = exact_delta(epsilon, sigma, 1.0)
    got = float(gauss_delta(epsilon=epsilon, sigma=sigma, sensitivity=1.0))
    if exact < mpmath.mpf("1e-290"):
        assert got < 1e-280
    else:
        assert abs(mpmath.mpf(got) - exact) <= 1e-11 * exact


@SETTINGS
@given(st.floats(0.0, 700.0), st.floats(-280.0, -0.01), st.floats(1e-6, 1e6))
def test_analytic_noise_is_enough_and_no_more(
    epsilon: float, log_delta: float, sensitivity: float
) -> None:
    target = 10.0**log_delta
    sigma = float(gauss_analytic(epsilon=epsilon, dp_delta=target, sensitivity=sensitivity))
    assert exact_delta(epsilon, sigma, sensitivity) <= mpmath.mpf(target)
    assert exact_delta(epsilon, sigma * (1 - 1e-9), sensitivity) > mpmath.mpf(target)


def test_tiny_targets_get_their_noise() -> None:
    sigma = float(gauss_analytic(epsilon=1, dp_delta=1e-15, sensitivity=1))
    assert sigma == pytest.approx(7.487, abs=5e-4)
    # With an absolute tolerance of 1e-12 a search stops at 7.00: far from private.
    assert float(gauss_delta(epsilon=1, sigma=7.0, sensitivity=1)) > 10 * 1e-15


@SETTINGS
@given(st.floats(1e-3, 0.999), st.floats(1e-12, 0.3))
def test_classic_needs_more_noise_below_one(epsilon: float, target: float) -> None:
    call = dict(epsilon=epsilon, dp_delta=target, sensitivity=1.0)
    assert float(gauss_analytic(**call)) <= float(gauss_classic(**call))
    noisy = gauss_delta(epsilon=epsilon, sigma=gauss_classic(**call), sensitivity=1.0)
    assert float(noisy) <= target


def test_classic_is_refused_where_it_is_wrong() -> None:
    for epsilon in (1.0, 10.0, 0.0):
        with pytest.raises(ValueError, match="epsilon must lie strictly between 0 and 1"):
            gauss_classic(epsilon=epsilon, dp_delta=1e-5, sensitivity=1)
    formula = math.sqrt(2 * math.log(1.25 / 1e-5)) / 10
    assert float(gauss_delta(epsilon=10, sigma=formula, sensitivity=1)) == pytest.approx(
        2.265e-5, rel=1e-3
    )


@pytest.mark.parametrize(("argument", "grows"), [("epsilon", False), ("sigma", False)])
def test_delta_is_monotone(argument: str, grows: bool) -> None:
    grid = np.geomspace(1e-2, 1e2, 200)
    call: dict[str, Any] = {"epsilon": 0.7, "sigma": 1.3, "sensitivity": 1.0, argument: grid}
    steps = np.diff(gauss_delta(**call))
    assert np.all(steps >= 0) if grows else np.all(steps <= 0)


def test_limits_and_broadcasting() -> None:
    assert float(gauss_delta(epsilon=0, sigma=1e-3, sensitivity=1)) == 1.0
    total_variation = math.erf(0.5 / (2 * math.sqrt(2)))
    assert float(gauss_delta(epsilon=0, sigma=2, sensitivity=1)) == pytest.approx(total_variation)
    assert float(gauss_delta(epsilon=1e6, sigma=1e-2, sensitivity=1e-300)) == 0.0
    assert float(gauss_delta(epsilon=0.0, sigma=5e-324, sensitivity=1.0)) == 1.0
    assert float(gauss_delta(epsilon=0.0, sigma=1e300, sensitivity=1e-300)) < 1e-300
    table = gauss_analytic(epsilon=[0.1, 1.0], dp_delta=[[1e-5], [1e-3], [0.1]], sensitivity=2.0)
    assert table.shape == (3, 2)
    alone = gauss_analytic(epsilon=1.0, dp_delta=1e-3, sensitivity=2.0)
    assert table[1, 1] == float(alone)
    unit = gauss_analytic(epsilon=1.0, dp_delta=1e-3, sensitivity=1.0)
    assert float(alone) == pytest.approx(2 * float(unit), rel=1e-12)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_sensitivity_is_reached_and_never_exceeded(adjacency: str) -> None:
    rng = np.random.default_rng(5)
    size, dim, bound = 7, 3, 2.0
    promised = float(
        dp_sensitivity(head_lipschitz=1, feature_bound=bound, n_samples=size, adjacency=adjacency)
    )

    def on_sphere(count: int) -> np.ndarray:
        points = rng.normal(size=(count, dim))
        return bound * points / np.linalg.norm(points, axis=1, keepdims=True)

    furthest = 0.0
    for _ in range(500):
        kept, new = on_sphere(size), on_sphere(1)
        other = (
            np.concatenate([new, kept[1:]])
            if adjacency == "replace_one"
            else np.concatenate([kept, new])
        )
        furthest = max(furthest, float(np.linalg.norm(kept.mean(axis=0) - other.mean(axis=0))))
    assert furthest <= promised
    point = np.array([[bound, 0.0, 0.0]])
    same = np.repeat(point, size, axis=0)
    antipode = (
        np.concatenate([-point, same[1:]])
        if adjacency == "replace_one"
        else np.concatenate([same, -point])
    )
    reached = np.linalg.norm(same.mean(axis=0) - antipode.mean(axis=0))
    assert float(reached) == pytest.approx(promised)
