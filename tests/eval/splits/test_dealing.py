"""Classes, shares and proportions, dealt by themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.eval.splits.dealing import balanced_classes, log_dirichlet, share_counts


@given(
    clients=st.integers(1, 30),
    n_classes=st.integers(1, 12),
    data=st.data(),
    seed=st.integers(0, 100),
)
def test_balanced_classes(clients, n_classes, data, seed):
    per_client = data.draw(st.integers(1, n_classes))
    chosen = balanced_classes(clients, n_classes, per_client, np.random.default_rng(seed))
    assert (chosen.sum(axis=1) == per_client).all()
    assert np.ptp(chosen.sum(axis=0)) <= 1


def test_classes_are_drawn_at_random_among_the_least_given():
    rng = np.random.default_rng(0)
    pairs = {tuple(np.flatnonzero(balanced_classes(1, 4, 2, rng)[0])) for _ in range(200)}
    assert len(pairs) == 6


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 30))
def test_share_counts_are_within_one_of_the_shares(clients, n_classes, seed):
    rng = np.random.default_rng(seed)
    weights = rng.random((clients, n_classes))
    totals = rng.integers(0, 50, n_classes)
    counts = share_counts(weights, totals)
    assert counts.min() >= 0
    np.testing.assert_array_equal(counts.sum(axis=0), totals)
    assert np.abs(counts - weights / weights.sum(axis=0) * totals).max() < 1


@pytest.mark.parametrize("alpha", [1e-4, 0.1, 1.0, 1e6])
def test_log_dirichlet_has_the_moments_of_a_dirichlet(alpha):
    k, n = 4, 20_000
    pi = np.exp(log_dirichlet(n, k, alpha, np.random.default_rng(0)))
    np.testing.assert_allclose(pi.sum(axis=1), 1)
    variance = (1 / k) * (1 - 1 / k) / (k * alpha + 1)
    # Four standard errors of the mean; the variance of a bounded variable is as well known.
    assert np.abs(pi.mean(axis=0) - 1 / k).max() < 4 * np.sqrt(variance / n) + 1e-12
    np.testing.assert_allclose(pi.var(axis=0), variance, rtol=0.05)
