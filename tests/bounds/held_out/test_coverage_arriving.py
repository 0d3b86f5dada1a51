"""Certificates read after every client, and alarms that listen all the time, by simulation.

Fixed seeds; ``limit`` is exceeded by a correct rule with probability 1e-6.  Every rule has a
nearly tight world, and a broken twin that the limit catches.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from simulated import limit

from latecomer.bounds import (
    betting_mixture_path,
    chernoff_kl,
    drift_evidence,
    drift_evidence_restarted,
    product,
    product_mixture_path,
    product_path,
)
from latecomer.bounds.certificate import Array
from latecomer.bounds.held_out.betting import BET_WEIGHTS

pytestmark = pytest.mark.theory

DELTA, LOOKS = 0.05, 300
World = Callable[[Generator, tuple[int, int]], Array]


def scores_like_ours(rng: Generator, shape: tuple[int, int]) -> Array:
    return rng.beta(2.8, 13.7, shape)


def rarely_hopeless(rng: Generator, shape: tuple[int, int]) -> Array:
    return (rng.random(shape) < 0.01).astype(float)


def coins(rng: Generator, shape: tuple[int, int]) -> Array:
    return (rng.random(shape) < 0.5).astype(float)


def spread(rng: Generator, shape: tuple[int, int]) -> Array:
    return np.where(rng.random(shape) < 0.2, 0.9, 0.02)


MEANS: dict[World, float] = {
    scores_like_ours: 2.8 / 16.5,
    coins: 0.5,
    spread: 0.2 * 0.9 + 0.8 * 0.02,
    rarely_hopeless: 0.01,
}


def ever_below(path: Array, mean: float) -> int:
    return int((path.min(axis=-1) < mean).sum())


@pytest.mark.parametrize("world", MEANS, ids=lambda world: world.__name__)
def test_product_path_holds_at_300_looks_together(world: World) -> None:
    losses = world(np.random.default_rng(91), (10_000, LOOKS))
    failed = ever_below(product_path(losses=losses, delta=DELTA).value, MEANS[world])
    print(f"{world.__name__}: {failed / 10_000:.4f} failed")
    assert failed <= limit(10_000)


@pytest.mark.thinned
@pytest.mark.parametrize("world", MEANS, ids=lambda world: world.__name__)
def test_the_default_of_watch_holds_at_300_looks_together(world: World) -> None:
    losses = world(np.random.default_rng(97), (1000, LOOKS))
    path = product_mixture_path(losses=losses, delta=DELTA, weights=BET_WEIGHTS).value
    assert ever_below(path, MEANS[world]) <= limit(1000)


def test_product_path_spends_delta_and_its_twin_is_caught() -> None:
    """No error in 299 of them is what .99^299 = .0495 of all streams show.

    The twin looks at every client by a rule for one look: Chernoff's, on fair coins.
    """
    losses = rarely_hopeless(np.random.default_rng(92), (20_000, LOOKS))
    failed = ever_below(product_path(losses=losses, delta=DELTA).value, 0.01)
    print(f"tight world: {failed / 20_000:.4f} failed")
    assert 0.9 * DELTA * 20_000 <= failed <= limit(20_000)
    losses = coins(np.random.default_rng(93), (4000, LOOKS))
    seen = np.arange(1, LOOKS + 1)
    means = np.cumsum(losses, axis=1) / seen
    peeked = chernoff_kl(empirical_risk=means, n_samples=seen, delta=DELTA).value
    assert ever_below(peeked[:, -1:], 0.5) <= limit(4000)
    twin = ever_below(peeked, 0.5)
    print(f"chernoff_kl at every look: {twin / 4000:.4f} failed")
    assert twin > limit(4000), "the twin went unnoticed"


@pytest.mark.parametrize("world", [scores_like_ours, spread], ids=lambda world: world.__name__)
def test_on_a_pool_a_newcomer_is_not_like_those_before(world: World) -> None:
    """The product looked at all the time on a pool of 60, read as what the next client scores.

    Whoever is left of a pool makes up for those before: the certificates are no bound of that.
    """
    rng = np.random.default_rng(94)
    pools = world(rng, (2000, 60))
    seen = np.arange(1, 60)
    path = product_path(losses=pools, delta=DELTA).value[:, :-1]
    once = product(losses=pools[:, :30], delta=DELTA).value
    assert (once < pools.mean(axis=1)).sum() <= limit(2000)
    left = (pools.sum(axis=1, keepdims=True) - np.cumsum(pools, axis=1)[:, :-1]) / (60 - seen)
    failed = int((path < left).any(axis=1).sum())
    print(f"{world.__name__}, pool of 60: {failed / 2000:.4f} failed")
    assert failed > limit(2000), "the twin went unnoticed"


def test_a_running_minimum_is_about_clients_of_one_law() -> None:
    """Clients become worse after 100: the minimum of before is no bound of the clients of now."""
    rng = np.random.default_rng(95)
    losses = np.concatenate([rng.beta(2.8, 13.7, (500, 100)), rng.random((500, 100))], axis=1)
    path = product_path(losses=losses, delta=DELTA).value
    assert ever_below(path, 0.5) > limit(500)


@pytest.mark.thinned
@pytest.mark.parametrize("world", MEANS, ids=lambda world: world.__name__)
def test_the_mixture_path_holds_and_a_mixture_that_is_not_paid_for_does_not(world: World) -> None:
    losses = world(np.random.default_rng(96), (500, 60))
    found = betting_mixture_path(losses=losses, delta=DELTA).value
    assert ever_below(found, MEANS[world]) <= limit(500)
    # What the path refuses is what the wealth at the true mean says: quick for many streams.
    losses = world(np.random.default_rng(97), (20_000, LOOKS))
    wealth = np.zeros(losses.shape)
    for bet in 0.5 ** np.arange(10):
        wealth += np.cumprod(1 + bet * (MEANS[world] - losses), axis=1)
    failed = int((wealth.max(axis=1) / 10 > 1 / DELTA).sum())
    unpaid = int((wealth.max(axis=1) > 1 / DELTA).sum())
    print(f"{world.__name__}: {failed / 20_000:.4f} failed, unpaid {unpaid / 20_000:.4f}")
    assert failed <= limit(20_000)
    assert unpaid > limit(20_000), "the twin went unnoticed"


def switching(rng: Generator, shape: tuple[int, int]) -> Array:
    """Mean .2 whatever came before, but wide after a low score and narrow after a high one."""
    losses, high = np.empty(shape), np.zeros(shape[0], dtype=bool)
    for seen in range(shape[1]):
        wide = (rng.random(shape[0]) < 0.2).astype(float)
        losses[:, seen] = np.where(high, 0.2 * (1 + rng.choice([-0.5, 0.5], shape[0])), wide)
        high = losses[:, seen] > 0.2
    return losses


NO_DRIFT: dict[str, tuple[World, float]] = {
    "scores like ours": (scores_like_ours, 2.8 / 16.5),
    "coins": (coins, 0.5),
    "spread": (spread, MEANS[spread]),
    "switching": (switching, 0.2),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", NO_DRIFT)
def test_false_alarms_of_10_000_runs_of_1_000_clients(name: str) -> None:
    """The threshold is what newcomers score on average: nothing is wrong yet, and only just."""
    world, c = NO_DRIFT[name]
    rng = np.random.default_rng(98)
    rung = early = 0
    for _ in range(10):
        losses = world(rng, (1000, 1000))
        evidence = drift_evidence(losses=losses, threshold=c)
        rung += int((evidence >= 1 / DELTA).any(axis=1).sum())
        restarted = drift_evidence_restarted(losses=losses, threshold=c)
        early += int((restarted[:, :100] >= 2000).any(axis=1).sum())
    print(f"{name}: {rung / 10_000:.4f} ring, restarted {early / 10_000:.4f} within 100 of 2000")
    assert rung <= limit(10_000)
    assert early <= limit(10_000, 100 / 2000)


def test_the_alarm_spends_alpha_and_its_twins_are_caught() -> None:
    """One client in twenty is hopeless and all is staked on the threshold of one in twenty.

    The twins: the restarted evidence as if its level were a probability, the best of all bets in
    the place of their mean, and a threshold below what clients score.
    """
    rng = np.random.default_rng(99)
    losses = (rng.random((10_000, 100)) < 0.05).astype(float)
    # A hair below 20: a stake of 1 won at the first client makes exactly 20 before rounding.
    level = (1 - 1e-9) / DELTA

    def rings(path: Array) -> int:
        return int((path >= level).any(axis=1).sum())

    rung = rings(drift_evidence(losses=losses, threshold=0.05, bets=[1.0]))
    print(f"tight world: {rung / 10_000:.4f} ring")
    assert 0.85 * DELTA * 10_000 <= rung <= limit(10_000)
    bets = 0.5 ** np.arange(8)
    each: Any = [drift_evidence(losses=losses, threshold=0.05, bets=[b]) for b in bets]
    twins = {
        "restarted": drift_evidence_restarted(losses=losses, threshold=0.05),
        "best bet": np.max(each, axis=0),
        "low threshold": drift_evidence(losses=losses, threshold=0.03),
    }
    for name, path in twins.items():
        assert rings(path) > limit(10_000), f"the twin {name} went unnoticed"


def test_the_restarted_alarm_takes_as_many_clients_as_its_level_says() -> None:
    """Mean time to a false alarm at least the level, in runs cut off at thirty times that."""
    for world, c in ((coins, 0.5), (spread, MEANS[spread]), (scores_like_ours, 2.8 / 16.5)):
        losses = world(np.random.default_rng(100), (1000, 3000))
        path = drift_evidence_restarted(losses=losses, threshold=c) >= 100
        times = np.where(path.any(axis=1), path.argmax(axis=1) + 1, 3000)
        print(f"{world.__name__}: a false alarm after {times.mean():.0f} clients on average")
        assert times.mean() - 5 * times.std() / np.sqrt(times.size) >= 100
