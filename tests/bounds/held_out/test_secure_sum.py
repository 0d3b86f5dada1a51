"""The product rule from one sum: what it gives up, what it survives, how often it fails."""

import numpy as np
import pytest
from scipy.stats import binom

from latecomer.bounds import occam_product, product, product_from_sum

LOSSES = np.array([0.1, 0.25, 0.0, 0.4, 0.05] * 8)


def told(losses, gamma):
    return -np.log1p(-(1 - gamma) * losses).sum(axis=-1)


def test_the_smaller_gamma_the_nearer_the_product_rule() -> None:
    plain = float(product(losses=LOSSES, delta=0.05))
    found = [
        float(product_from_sum(log_sum=told(LOSSES, g), n_clients=40, delta=0.05, gamma=g))
        for g in (0.1, 1 / 40, 1e-3, 1e-9)
    ]
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(plain, abs=1e-8)
    assert plain < found[1] < plain + 0.006


def test_bits_are_those_of_occam() -> None:
    found = product_from_sum(
        log_sum=told(LOSSES, 1e-9), n_clients=40, delta=0.05, gamma=1e-9, bits=10
    )
    assert float(found) == pytest.approx(
        float(occam_product(losses=LOSSES, bits=10, delta=0.05)), abs=1e-8
    )


def test_a_score_of_1_is_survived() -> None:
    losses = np.append(LOSSES[:-1], 1.0)
    assert float(product(losses=losses, delta=0.05)) == 1.0
    found = product_from_sum(log_sum=told(losses, 1 / 40), n_clients=40, delta=0.05, gamma=1 / 40)
    assert float(found) < 0.35


@pytest.mark.theory
def test_coverage_and_a_twin_that_lowers_scores_of_1() -> None:
    """The twin gives clients with a loss of 1, whose logarithm is none, a smaller one instead."""
    rng, k, trials, gamma = np.random.default_rng(51), 30, 4000, 1 / 30
    share = 0.3
    losses = (rng.random((trials, k)) < share).astype(np.float64)
    limit = binom.isf(1e-6, trials, 0.05)
    asked = {"n_clients": k, "delta": 0.05, "gamma": gamma}
    right = product_from_sum(log_sum=told(losses, gamma), **asked)
    assert (right.value < share).sum() <= limit
    twin = product_from_sum(log_sum=told(np.minimum(losses, 0.3), gamma), **asked)
    assert (twin.value < share).sum() > limit
