"""Random-effects prediction intervals: written anew with loops, and how often they miss."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import t as student

from latecomer.bounds import CATALOGUE, dersimonian_laird, hartung_knapp


def plain(estimates: list[float], variances: list[float], alpha: float, observed: bool):  # type: ignore[no-untyped-def]
    k = len(estimates)
    u = [1 / v for v in variances]
    centre = sum(a * y for a, y in zip(u, estimates, strict=True)) / sum(u)
    q = sum(a * (y - centre) ** 2 for a, y in zip(u, estimates, strict=True))
    tau = max(0.0, (q - (k - 1)) / (sum(u) - sum(a * a for a in u) / sum(u)))
    w = [1 / (v + tau) for v in variances]
    mean = sum(a * y for a, y in zip(w, estimates, strict=True)) / sum(w)
    error = 1 / sum(w)
    if observed:
        squares = sum(a * (y - mean) ** 2 for a, y in zip(w, estimates, strict=True))
        error = squares / ((k - 1) * sum(w))
    reach = student.ppf(1 - alpha / 2, k - 2) * sqrt(tau + error)
    return mean, sqrt(error), tau, mean - reach, mean + reach


@pytest.mark.parametrize("observed", [False, True])
def test_intervals_are_those_of_the_formulas(observed: bool) -> None:
    rng = np.random.default_rng(1)
    calculator = hartung_knapp if observed else dersimonian_laird
    for k in (3, 6, 30):
        y, v = rng.normal(0.3, 0.1, (2, k)), rng.uniform(0.001, 0.02, k)
        made = calculator(estimates=y, variances=v, alpha=0.1)
        for row in range(2):
            expected = plain(y[row].tolist(), v.tolist(), 0.1, observed)
            got = [float(part[row]) for part in made]
            assert got == pytest.approx(expected, rel=1e-10)


def test_without_differences_only_the_means_error_is_left() -> None:
    made = dersimonian_laird(estimates=[0.2] * 4, variances=[0.04] * 4, alpha=0.05)
    assert float(made.between_sites) == 0.0
    assert float(made.standard_error) == pytest.approx(0.1)


def test_few_sites_of_skewed_means_are_missed_more_often_than_said() -> None:
    """Four sites, one in five of another kind: asymptotic, and marked so."""
    rng, trials = np.random.default_rng(2), 2000
    truth = np.where(rng.random((trials, 5)) < 0.2, 0.9, 0.1)
    y = truth[:, :4] + rng.normal(0, 0.01, (trials, 4))
    for calculator in (dersimonian_laird, hartung_knapp):
        made = calculator(estimates=y, variances=np.full(4, 1e-4), alpha=0.05)
        outside = (truth[:, 4] < made.lower) | (truth[:, 4] > made.upper)
        assert outside.mean() > 0.05 + 4 * sqrt(0.05 * 0.95 / trials)
        assert not CATALOGUE[calculator.__name__].rigorous


def test_intervals_scale_with_estimates_however_small_the_variances() -> None:
    y, v = np.array([0.1, 0.3, 0.2, 0.4]), np.array([0.01, 0.02, 0.01, 0.02])
    for calculator in (dersimonian_laird, hartung_knapp):
        unit = np.array(calculator(estimates=y, variances=v, alpha=0.1))
        small = np.array(calculator(estimates=y * 2.0**-260, variances=v * 2.0**-520, alpha=0.1))
        squared = np.arange(5) == 2
        assert small == pytest.approx(unit * np.where(squared, 2.0**-520, 2.0**-260), rel=1e-12)


def test_a_tiny_alpha_has_a_finite_interval() -> None:
    made = dersimonian_laird(estimates=[0.1, 0.3, 0.2, 0.4], variances=[0.01] * 4, alpha=1e-20)
    # With two degrees of freedom the quantile is about 1 / sqrt(alpha).
    spread = sqrt(float(made.between_sites) + float(made.standard_error) ** 2)
    assert float(made.upper - made.mean) == pytest.approx(1e10 * spread, rel=1e-9)
