"""Coverage by simulation of bets on finite pools and of bets over drawn orders.

As in ``test_coverage_holdout``: fixed seeds, ``limit`` is exceeded by a correct rule with
probability 1e-6.  Every rule has a nearly tight world, and a broken twin that the limit catches.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from simulated import limit, sampled

from latecomer.bounds import (
    betting_mixture,
    betting_wor,
    chernoff_kl,
    pool_fraction,
    product,
    product_wor,
    product_wor_averaged,
    wsr,
    wsr_averaged,
    wsr_wor,
)
from latecomer.bounds.certificate import Array

pytestmark = pytest.mark.theory

DELTA, TRIALS = 0.05, 2000


POOLS: dict[str, Callable[[Generator], tuple[Array, int]]] = {
    "scores_like_ours": lambda rng: (rng.beta(2.8, 13.7, 40), 30),
    # Three of forty: thirty sampled miss them all with probability .012, two with .0577.
    "hopeless_few": lambda rng: (np.repeat([1.0, 0.0], [3, 37]), 30),
    "hopeless_missed_with_probability_delta": lambda rng: (np.repeat([1.0, 0.0], [2, 38]), 30),
    "one_in_ten_hopeless": lambda rng: (np.repeat([1.0, 0.05], [30, 270]), 30),
    "coins": lambda rng: (np.repeat([1.0, 0.0], [30, 30]), 50),
    "nearly_hopeless": lambda rng: (np.repeat([0.99, 0.01], [28, 272]), 30),
    "rare_errors": lambda rng: (np.repeat([0.4, 0.0], [5, 105]), 100),
    "half_and_half": lambda rng: (np.repeat([0.9, 0.1], [50, 50]), 50),
    "two_levels": lambda rng: (np.repeat([0.6, 0.1], [20, 180]), 60),
}
RULES: dict[str, Callable[[Array, int], Array]] = {
    "product_wor": lambda x, n: product_wor(losses=x, delta=DELTA, pool_size=n).value,
    "betting_wor": lambda x, n: betting_wor(losses=x, delta=DELTA, pool_size=n).value,
    "product_wor_averaged": lambda x, n: np.concatenate(
        [
            product_wor_averaged(
                losses=x[i : i + 250], delta=DELTA, pool_size=n, n_orders=16, seed=3
            ).value
            for i in range(0, len(x), 250)
        ]
    ),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("world", POOLS)
def test_pools(world: str, rule: str) -> None:
    rng = np.random.default_rng(71)
    pool, k = POOLS[world](rng)
    values = RULES[rule](sampled(rng, pool, k, TRIALS), pool.size)
    failed = int((values < pool.mean()).sum())
    print(f"{rule} {world}: {failed / TRIALS:.4f} failed")
    assert failed <= limit(TRIALS)


@pytest.mark.parametrize("rule", RULES)
def test_a_nearly_tight_pool_spends_delta_and_its_twin_is_caught(rule: str) -> None:
    """Hopeless clients who go unseen nearly as often as delta allows, just above the bound.

    The mixture of five bets pays for those it need not have made.  The twin takes the pool of 400
    for one of 44: what was not scored seems to matter less.
    """
    rng, k, n = np.random.default_rng(72), 40, 400
    bound = float(RULES[rule](np.zeros((1, k)), n)[0])
    bad = int(np.floor(bound * n)) + 1
    pool = np.repeat([1.0, 0.0], [bad, n - bad])
    losses = sampled(rng, pool, k, 8000)
    # Only a sample without a hopeless client can fail: the bound of any other is above.
    clean = losses.sum(axis=1) == 0
    assert float(RULES[rule](np.repeat([1.0, 0.0], [1, k - 1])[None], n)[0]) >= bound
    failed = int(clean.sum())
    print(f"{rule}: {failed / 8000:.4f} of samples fail")
    spends = 0.2 if rule == "betting_wor" else 0.9
    assert spends * DELTA * 8000 <= failed <= limit(8000)
    smaller = float(RULES[rule](np.zeros((1, k)), 44)[0])
    fewer = int(np.floor(smaller * n)) + 1
    unseen = sampled(rng, np.repeat([1.0, 0.0], [fewer, n - fewer]), k, 8000).sum(axis=1) == 0
    assert unseen.sum() > limit(8000), "the twin went unnoticed"


@pytest.mark.thinned
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("rule", [*RULES, "wsr_wor"])
def test_pool_rules_are_about_realised_scores_and_not_about_risks(rule: str, fresh: bool) -> None:
    """A Gibbs error that is a fair coin for every client, 100 of 110 clients scored once.

    The bound holds for the pool's mean as it turned out.  Read as a bound of the clients' risk,
    one half, it fails: the sampled scores are taken off the pool's sum as if they were certain.
    """
    rng, k, n = np.random.default_rng(73), 100, 110
    pools = (rng.random((TRIALS, n)) < 0.5).astype(np.float64)
    rules = RULES | {
        "wsr_wor": lambda x, n: wsr_wor(losses=x, delta=DELTA, pool_size=n).value,
        "product_wor": lambda x, n: betting_wor(losses=x, delta=DELTA, pool_size=n, n_bets=8).value,
    }
    if rule in ("product_wor", "product_wor_averaged"):
        # A score of 1 ends the product: errors of .2 and .8 instead of 0 and 1.
        pools = 0.2 + 0.6 * pools
        rules = RULES
    values = rules[rule](pools[:, :k], n)
    truth: Any = 0.5 if fresh else pools.mean(axis=1)
    failed = int((values < truth).sum())
    print(f"{rule}, read as {'risks' if fresh else 'realised scores'}: {failed / TRIALS:.4f}")
    assert (failed > limit(TRIALS)) == fresh


@pytest.mark.parametrize("points", [10, 20])
def test_true_errors_of_a_fifth_measured_on_few_points(points: int) -> None:
    """Every client's error is .2: product and its like hold, a rule of pools read so fails."""
    rng, k, n, trials = np.random.default_rng(74), 300, 310, 1000
    losses = rng.binomial(points, 0.2, (trials, k)) / points
    failed = {
        "betting_wor": betting_wor(losses=losses, delta=DELTA, pool_size=n).value < 0.2,
        "product": product(losses=losses, delta=DELTA).value < 0.2,
        "betting_mixture": betting_mixture(losses=losses, delta=DELTA).value < 0.2,
        "chernoff_kl": chernoff_kl(
            empirical_risk=losses.mean(axis=1), n_samples=k, delta=DELTA
        ).value
        < 0.2,
    }
    counts = {rule: int(wrong.sum()) for rule, wrong in failed.items()}
    print({rule: count / trials for rule, count in counts.items()})
    assert counts.pop("betting_wor") > limit(trials)
    assert max(counts.values()) <= limit(trials)


def test_the_share_of_a_pool_is_of_realised_scores_too() -> None:
    """Every client lies above the threshold with probability .3, drawn anew when asked again."""
    rng, k, n = np.random.default_rng(75), 100, 110
    above = rng.random((TRIALS, n)) < 0.3
    seen = np.arange(k + 1)
    table = pool_fraction(n_exceeding=seen, n_sampled=k, pool_size=n, delta=DELTA).value
    values = table[above[:, :k].sum(axis=1)]
    assert (values < above.mean(axis=1)).sum() <= limit(TRIALS)
    assert (values < 0.3).sum() > limit(TRIALS)


def tied_to_ids(rng: Generator, trials: int, k: int) -> Array:
    """Clients i.i.d., hard with probability .3, listed with the hard ones last."""
    hard = np.sort(rng.random((trials, k)) < 0.3, axis=1)
    return np.where(hard, rng.uniform(0.3, 0.7, (trials, k)), rng.uniform(0, 0.1, (trials, k)))


def test_orders_tied_to_scores_mislead_wsr_and_leave_its_average_alone() -> None:
    """An order by ids in which the hard clients come last, then the average over drawn orders."""
    rng, k, trials = np.random.default_rng(76), 60, 3000
    truth = 0.3 * 0.5 + 0.7 * 0.05
    losses = tied_to_ids(rng, trials, k)
    in_order = wsr(losses=losses, delta=DELTA).value < truth
    averaged = np.concatenate(
        [
            wsr_averaged(losses=part, delta=DELTA, n_orders=16, seed=5).value < truth
            for part in np.split(losses, 12)
        ]
    )
    print(f"wsr by ids {in_order.mean():.4f}, averaged {averaged.mean():.4f} failed")
    assert in_order.sum() > limit(trials)
    assert averaged.sum() <= limit(trials)


def test_one_order_kept_for_every_sample_of_sorted_losses_fails() -> None:
    """The broken twin: sorted losses bet on as they stand, easy ones first."""
    rng, k, trials = np.random.default_rng(77), 60, 3000
    losses = np.sort(tied_to_ids(rng, trials, k), axis=1)
    truth = 0.3 * 0.5 + 0.7 * 0.05
    assert (wsr(losses=losses, delta=DELTA).value < truth).sum() > limit(trials)


def test_averaged_wsr_is_nearly_tight_over_clients_and_orders() -> None:
    """One order, drawn anew for every sample: the statement is over both."""
    rng, k, trials = np.random.default_rng(78), 60, 2000
    truth = 0.1
    losses = (rng.random((trials, k)) < truth).astype(np.float64)
    failed = sum(
        float(wsr_averaged(losses=row, delta=DELTA, n_orders=1, seed=seed)) < truth
        for seed, row in enumerate(losses)
    )
    print(f"wsr_averaged, one order each: {failed / trials:.4f} failed")
    assert failed <= limit(trials)
