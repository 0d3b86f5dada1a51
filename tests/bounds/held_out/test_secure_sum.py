"""The product rule from one sum: what it gives up, what it survives, how often it fails."""

import numpy as np
import pytest
from scipy.stats import binom

from latecomer.bounds import (
    occam_product,
    product,
    product_from_sum,
    product_mixture,
    product_mixture_from_sums,
)
from latecomer.bounds.held_out.betting import BET_WEIGHTS

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


def told_of_bets(losses, gamma: float) -> np.ndarray:
    bets = np.array([0.2, 0.4, 0.6, 0.8, 1 - gamma])
    return -np.log1p(-bets * np.asarray(losses)[..., None]).sum(axis=-2)


def test_five_sums_give_what_the_mixture_of_products_gives_from_all_losses() -> None:
    asked = {"n_clients": 40, "delta": 0.05}
    for losses in ([0.1, 0.2] * 20, [0.1, 0.2] * 19 + [0.15, 1.0], [0.0] * 40):
        sums = told_of_bets(losses, 1e-9)
        found = float(product_mixture_from_sums(log_sums=sums, gamma=1e-9, **asked))
        whole = float(product_mixture(losses=losses, delta=0.05, weights=BET_WEIGHTS))
        assert found == pytest.approx(whole, abs=1e-7)
    even = {"log_sums": told_of_bets(losses, 1e-9), "gamma": 1e-9, "weights": [0.2] * 5}
    equal = float(product_mixture(losses=losses, delta=0.05))
    assert float(product_mixture_from_sums(**even, **asked)) == pytest.approx(equal, abs=1e-7)


def test_several_hopeless_clients_spend_one_sum_and_not_five() -> None:
    losses, gamma = [0.1] * 34 + [1.0] * 6, 1 / 40
    asked = {"n_clients": 40, "delta": 0.05, "gamma": gamma}
    one = float(product_from_sum(log_sum=told_of_bets(losses, gamma)[-1], **asked))
    five = float(product_mixture_from_sums(log_sums=told_of_bets(losses, gamma), **asked))
    assert np.mean(losses) < five < one - 0.05


def test_five_sums_cover_worlds_with_hopeless_clients() -> None:
    """The twin's clients leave their ones out, and fails."""
    rng, trials, k, gamma, share = np.random.default_rng(5), 1000, 100, 1 / 100, 0.09
    losses = np.where(rng.random((trials, k)) < share, 1.0, 0.1)
    mean = 0.1 + 0.9 * share
    asked = {"n_clients": k, "delta": 0.05, "gamma": gamma}
    right = product_mixture_from_sums(log_sums=told_of_bets(losses, gamma), **asked)
    assert (right.value < mean).sum() <= 80
    twin = product_mixture_from_sums(log_sums=told_of_bets(np.minimum(losses, 0.2), gamma), **asked)
    assert (twin.value < mean).sum() > 80


def test_sums_that_do_not_belong_to_the_weights_are_refused() -> None:
    asked = {"n_clients": 40, "delta": 0.05, "gamma": 0.1}
    with pytest.raises(ValueError, match=r"log_sums must be as many as weights \(5\)"):
        product_mixture_from_sums(log_sums=[1.0, 2.0], **asked)
    with pytest.raises(ValueError, match="log_sums must be at most -n_clients ln"):
        product_mixture_from_sums(log_sums=[20.0] * 5, **asked)
