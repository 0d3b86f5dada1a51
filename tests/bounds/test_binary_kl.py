"""Binary relative entropy: accuracy against 50 digits, outward rounding, limits, exact moments."""

from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.bounds import (
    gauss_kl_equal,
    gauss_kl_iso,
    kl,
    kl_inverse_lower,
    kl_inverse_upper,
    xi,
)
from latecomer.bounds.certificate import Array

EPS = float(np.finfo(np.float64).eps)
unit = st.floats(0.0, 1.0)
budgets = st.floats(1e-14, 300.0)


def exact_kl(q: float, p: float) -> mpmath.mpf:
    """kl(q || p) with 60 digits of the very floats given."""
    with mpmath.workdps(60):
        first, second = mpmath.mpf(q), mpmath.mpf(p)
        if (p == 0 and q > 0) or (p == 1 and q < 1):
            return mpmath.inf
        parts = mpmath.mpf(0)
        if q > 0:
            parts += first * mpmath.log(first / second)
        if q < 1:
            parts += (1 - first) * mpmath.log((1 - first) / (1 - second))
        return parts


def grid() -> tuple[Array, Array]:
    """Means and budgets over all magnitudes: tiny, ordinary, near 1, near 0."""
    rng = np.random.default_rng(20240)
    n = 150
    means = np.concatenate(
        [
            rng.random(n),
            10 ** rng.uniform(-15, 0, n),
            1 - 10 ** rng.uniform(-15, 0, n),
            rng.beta(1, 9, n),
            np.repeat([0.0, 1.0, 0.5, 1e-300, EPS], 10),
        ]
    )
    limits = 10 ** rng.uniform(-14, 2.5, means.size)
    return means, limits


MEANS, BUDGETS = grid()


def test_kl_matches_sixty_digits_even_where_it_cancels() -> None:
    rng = np.random.default_rng(7)
    q = np.concatenate([rng.random(60), 10 ** rng.uniform(-12, 0, 30), rng.random(60)])
    p = np.concatenate(
        [
            rng.random(40),
            1 - 10 ** rng.uniform(-15, -1, 20),
            10 ** rng.uniform(-12, 0, 30),
            q[90:] * (1 - 10 ** rng.uniform(-13, -0.5, 60)),
        ]
    )
    got = kl(q, p)
    for mine, a, b in zip(got, q, p, strict=True):
        assert mine == pytest.approx(float(exact_kl(a, b)), rel=1e-13)


@pytest.mark.parametrize(
    ("q", "p", "expected"),
    [(0, 0, 0), (1, 1, 0), (0.3, 0.3, 0), (0.5, 0, np.inf), (0.5, 1, np.inf), (0, 1, np.inf)],
)
def test_kl_corners(q: float, p: float, expected: float) -> None:
    assert float(kl(q, p)) == expected


def test_upper_inverse_is_outside_and_tight() -> None:
    upper = kl_inverse_upper(MEANS, BUDGETS)
    for p, q, budget in zip(upper, MEANS, BUDGETS, strict=True):
        assert q <= p <= 1
        assert p == 1 or exact_kl(q, p) >= budget, "rounded inward"
        closer = p * (1 - 1e-13)
        assert closer <= q or exact_kl(q, closer) < budget, "further out than rounding explains"


def tiny_grid() -> tuple[Array, Array]:
    """Means that 1 - q does not know, and budgets of their size."""
    rng = np.random.default_rng(3)
    means = 10 ** rng.uniform(-30, -15, 200)
    return means, means * 10 ** rng.uniform(-1, 1.5, 200)


@pytest.mark.parametrize(("means", "budgets"), [(MEANS, BUDGETS), tiny_grid()])
def test_lower_inverse_is_outside_and_tight(means: Array, budgets: Array) -> None:
    lower = kl_inverse_lower(means, budgets)
    for p, q, budget in zip(lower, means, budgets, strict=True):
        assert 0 <= p <= q
        assert p == 0 or exact_kl(q, p) >= budget, "rounded inward"
        closer = p * (1 + 1e-11) + 1e-307
        assert closer >= q or exact_kl(q, closer) < budget, "further out than rounding explains"


def test_inverse_corners() -> None:
    # A public code base returns 0 for the last of these.
    assert kl_inverse_upper([0, 1, 0.5, 0, 1], [0, 0, 0, 800, 5]).tolist() == [0, 1, 0.5, 1, 1]
    assert kl_inverse_lower([0, 1, 0.5, 0, 0.5], [0, 0, 0, 5, 800]).tolist() == [0, 1, 0.5, 0, 0]
    assert float(kl_inverse_upper(0.99999, 0.5)) == 1.0
    assert float(kl_inverse_upper(0.0, 0.3)) == pytest.approx(-np.expm1(-0.3), rel=1e-14)
    assert float(kl_inverse_lower(1.0, 0.3)) == pytest.approx(np.exp(-0.3), rel=1e-14)
    assert kl_inverse_upper(0.1, 0.2).shape == ()
    # The smallest numbers are too far apart to be rounded down to one of them.
    assert float(kl_inverse_lower(0.3781569442975816, 280.99205958716067)) == 0.0


@given(unit, unit, budgets, budgets)
def test_inverses_are_monotone(q: float, other: float, budget: float, more: float) -> None:
    low, high = sorted((q, other))
    assert kl_inverse_upper(low, budget) <= kl_inverse_upper(high, budget) * (1 + 8 * EPS)
    small, large = sorted((budget, more))
    assert kl_inverse_upper(q, small) <= kl_inverse_upper(q, large) * (1 + 8 * EPS)
    assert kl_inverse_lower(q, large) <= kl_inverse_lower(q, small) * (1 + 1e-12)


@given(unit, budgets)
def test_inverses_mirror_each_other(q: float, budget: float) -> None:
    upper = float(kl_inverse_upper(1.0 - q, budget))
    lower = float(kl_inverse_lower(1.0 - (1.0 - q), budget))
    assert upper == pytest.approx(1.0 - lower, abs=1e-14)


@given(unit, st.floats(1e-6, 20.0))
def test_inverse_undoes_kl(q: float, budget: float) -> None:
    p = float(kl_inverse_upper(q, budget))
    if p < 1 - 1e-9:
        assert float(kl(q, p)) == pytest.approx(budget, rel=1e-6)


def test_inverses_broadcast_like_a_loop() -> None:
    q, budget = np.array([[0.1], [0.4]]), np.array([0.01, 0.2, 3.0])
    for function in (kl_inverse_upper, kl_inverse_lower, kl):
        whole = function(q, budget if function is not kl else budget / 4)
        each = [
            [float(function(a, b if function is not kl else b / 4)) for b in budget]
            for a in q[:, 0]
        ]
        assert whole.shape == (2, 3)
        np.testing.assert_allclose(whole, each, rtol=4 * EPS)


def test_blocks_do_not_show() -> None:
    rng = np.random.default_rng(3)
    q, budget = rng.random(70_000), rng.random(70_000)
    whole = kl_inverse_upper(q, budget)
    picked = [0, 32_767, 32_768, 65_536, 69_999]
    np.testing.assert_allclose(whole[picked], kl_inverse_upper(q[picked], budget[picked]), 4 * EPS)


def exact_xi(n: int) -> Fraction:
    return sum(
        (comb(n, k) * Fraction(k, n) ** k * Fraction(n - k, n) ** (n - k) for k in range(n + 1)),
        Fraction(0),
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 31, 32, 33, 34, 90, 200])
def test_xi_is_the_binomial_sum_rounded_up(n: int) -> None:
    value = float(xi(n))
    assert Fraction(value) >= exact_xi(n)
    assert value == pytest.approx(float(exact_xi(n)), rel=1e-11)


def test_xi_needs_its_two_sqrt_n() -> None:
    """Maurer's constant: 2 sqrt(n) covers every n, and nothing below 2 does at n = 1."""
    covered = [exact_xi(n) ** 2 <= 4 * n for n in range(1, 120)]
    assert all(covered)
    lowered = [exact_xi(n) ** 2 <= Fraction(199, 100) ** 2 * n for n in range(1, 120)]
    assert not all(lowered)
    many = np.unique(np.logspace(0, 15, 200).astype(np.int64))
    assert np.all(xi(many) <= 2 * np.sqrt(many) * (1 + 1e-11))


def test_xi_grows_as_known() -> None:
    n = np.array([10**4, 10**6, 10**9])
    np.testing.assert_allclose(xi(n), np.sqrt(np.pi * n / 2) + 2 / 3, rtol=1e-5)


def test_gaussians() -> None:
    assert float(gauss_kl_equal(squared_distance=2.0, alpha=0.25)) == 4.0
    whole = gauss_kl_iso(squared_distance=2.0, variance_q=0.3, variance_p=0.3, dim=7)
    assert float(whole) == pytest.approx(2.0 / 0.6, rel=1e-14)
    once = gauss_kl_iso(squared_distance=0.0, variance_q=0.5, variance_p=2.0, dim=1)
    many = gauss_kl_iso(squared_distance=0.0, variance_q=0.5, variance_p=2.0, dim=1000)
    assert float(many) == pytest.approx(1000 * float(once), rel=1e-14)
    close = gauss_kl_iso(squared_distance=0.0, variance_q=1 + 1e-9, variance_p=1.0, dim=1)
    with mpmath.workdps(50):
        ratio = mpmath.mpf(1 + 1e-9)
        assert float(close) == pytest.approx(float((ratio - 1 - mpmath.log(ratio)) / 2), rel=1e-12)


@pytest.mark.parametrize(
    ("q", "p"),
    [(0.1, 1.79e308), (1.79e308, 1.79e308), (1e-300, 1e300), (5e-324, 0.2), (2e-9, 1e300)],
)
def test_gaussians_of_extreme_variances(q: float, p: float) -> None:
    found = float(gauss_kl_iso(squared_distance=3.0, variance_q=q, variance_p=p, dim=3))
    with mpmath.workdps(50):
        ratio = mpmath.mpf(q) / mpmath.mpf(p)
        exact = (3 * (ratio - 1 - mpmath.log(ratio)) + 3 / mpmath.mpf(p)) / 2
    assert found == pytest.approx(float(exact), rel=1e-13, abs=0.0)
