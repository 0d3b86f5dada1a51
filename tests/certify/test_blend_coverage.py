"""Coverage of ``blend`` at its defaults, in worlds and pools that are not of 0/1 scores, and twins.

Every world is met twice: some hundred tables through ``certify_losses`` at its defaults, orders
drawn afresh from a seeded source of entropy; and thousands of samples of which is asked whether the
last grid point below the truth is refused, as it is wherever a certificate misses the truth.
"""

import random
from collections.abc import Callable
from math import floor, log
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.random import Generator
from scipy.stats import binom
from simulated import sampled

import latecomer
from latecomer.bounds.certificate import Array
from latecomer.bounds.held_out import blend as blending
from latecomer.bounds.held_out import star as aiming
from latecomer.bounds.held_out.betting import RISK_STEPS, allowance, seeded_orders

pytestmark = pytest.mark.theory

DELTA = 0.05
DOOR, BATCH = 120, 3000
Law = Callable[[Generator, Any], Array]


def beta(mean: float, sd: float) -> Law:
    size = mean * (1 - mean) / sd**2 - 1
    return lambda rng, shape: rng.beta(mean * size, (1 - mean) * size, shape)


def mixed(share: float, one: Law | float, other: Law | float) -> Law:
    """``share`` of the first, the rest of the other; numbers are constants."""

    def law(rng: Generator, shape: Any) -> Array:
        each = [
            part(rng, shape) if callable(part) else np.full(shape, part) for part in (one, other)
        ]
        return np.asarray(np.where(rng.random(shape) < share, *each))

    return law


EVEN, LOW, HIGH = beta(0.17, 0.09), beta(0.05, 0.03), beta(0.6, 0.1)
# Law, its mean, clients.
WORLDS: dict[str, tuple[Law, float, int]] = {
    "even": (EVEN, 0.17, 15),
    "few clients": (EVEN, 0.17, 6),
    "wide": (beta(0.3, 0.3), 0.3, 10),
    "uniform": (beta(0.5, 12**-0.5), 0.5, 10),
    "nearly all bad": (beta(0.9, 0.08), 0.9, 10),
    "one of fifty hopeless": (mixed(0.02, 1.0, EVEN), 0.02 + 0.98 * 0.17, 10),
    "bimodal": (mixed(0.3, HIGH, LOW), 0.3 * 0.6 + 0.7 * 0.05, 12),
    "two points": (mixed(0.25, 0.8, 0.1), 0.275, 10),
    "two points, seldom": (mixed(0.06, 0.9, 0.0), 0.054, 15),
    "heavy zero": (mixed(0.8, 0.0, EVEN), 0.2 * 0.17, 12),
    "zeros and hopeless": (mixed(0.15, 1.0, mixed(0.7, 0.0, EVEN)), 0.15 + 0.85 * 0.3 * 0.17, 8),
    "constant": (mixed(1.0, 0.3, 0.3), 0.3, 10),
    "skewed": (beta(0.03, 0.09), 0.03, 12),
    "one of five hopeless": (mixed(0.2, 1.0, LOW), 0.2 + 0.8 * 0.05, 8),
}


def pool_of(*parts: tuple[int, Law | float]) -> Array:
    """Clients of a pool, so many of each part."""
    rng = np.random.default_rng(5)
    return np.concatenate(
        [part(rng, n) if callable(part) else np.full(n, part) for n, part in parts]
    )


# Scores, clients sampled.
POOLS: dict[str, tuple[Array, int]] = {
    "even": (pool_of((20, EVEN)), 15),
    "even, most sampled": (pool_of((13, EVEN)), 12),
    "even, few sampled": (pool_of((60, EVEN)), 10),
    "wide": (pool_of((24, beta(0.3, 0.3))), 12),
    "one hopeless": (pool_of((1, 1.0), (23, EVEN)), 12),
    "two hopeless": (pool_of((2, 1.0), (14, LOW)), 10),
    "bimodal": (pool_of((9, HIGH), (21, LOW)), 12),
    "two points": (pool_of((6, 0.8), (18, 0.1)), 12),
    "two points, seldom": (pool_of((2, 0.9), (28, 0.0)), 15),
    "heavy zero": (pool_of((20, 0.0), (5, EVEN)), 12),
    "constant": (pool_of((20, 0.3)), 10),
    "skewed": (pool_of((25, beta(0.03, 0.09))), 12),
    "a fifth hopeless": (pool_of((8, 1.0), (32, LOW)), 10),
}


def limit(trials: int) -> float:
    """Delta and two standard errors."""
    return float(DELTA + 2 * np.sqrt(DELTA * (1 - DELTA) / trials))


def missed_through_the_door(tables: Array, truth: float, name: str, pool: int | None) -> float:
    """Share of tables whose certificate is below the truth."""
    entropy, missed = random.Random(f"{name} {pool}"), 0
    with mock.patch("secrets.randbelow", entropy.randrange):
        for place, losses in enumerate(tables):
            # No certificate is below the mean of its table: those above the truth miss nothing.
            if losses.mean() >= truth and place >= 5:
                continue
            made = latecomer.certify_losses(losses.tolist(), rule="blend", pool_size=pool)
            assert made.certificate is not None
            bound = float(made.certificate)
            assert bound >= losses.mean() - 1e-12
            # A pool's mean is summed in another order.
            missed += bound < truth - 1e-12
    return missed / len(tables)


def halves(
    losses: Array, truth: float, pool: int | None = None, n_orders: int = 32
) -> tuple[Array, Array]:
    """Log wealth of both halves against the last grid point that the truth reaches, [S]."""
    n_samples, k = losses.shape
    risk = floor(truth * RISK_STEPS) / RISK_STEPS
    orders = seeded_orders(k, n_orders, 71)
    columns = aiming.along(losses[:, orders].reshape(-1, k), pool)
    aim = np.log(4.0 / DELTA)
    won = aiming.star_ends(columns, np.array([risk]), aim).reshape(n_samples, n_orders)
    product = aiming.product_wealth(columns, risk) if pool else np.log1p(-losses).sum(axis=1)
    own = product.reshape(n_samples, -1) - (0.0 if pool else k * np.log1p(-risk))
    return tuple(np.logaddexp.reduce(part, axis=1) - np.log(part.shape[1]) for part in (own, won))  # type: ignore[return-value]


def refused(losses: Array, truth: float, pool: int | None = None) -> float:
    """Share of samples that refuse a null which is true: every miss is one."""
    both = np.logaddexp(*halves(losses, truth, pool))
    return float((both >= np.log(2.0 / DELTA) + allowance(losses.shape[1])).mean())


@pytest.mark.thinned
@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("name", WORLDS)
def test_independent_clients(name: str) -> None:
    law, mean, k = WORLDS[name]
    rng = np.random.default_rng(91)
    door = missed_through_the_door(law(rng, (DOOR, k)), mean, name, None)
    share, more = (refused(law(rng, (BATCH, n)), mean) for n in (k, 3 * k))
    print(
        f"{name}, {k} clients: missed {door:.4f}, true null refused {share:.4f},"
        f" {3 * k} clients: {more:.4f}"
    )
    assert door <= limit(DOOR)
    assert max(share, more) <= limit(BATCH)


@pytest.mark.thinned
@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    pool, k = POOLS[name]
    rng, truth = np.random.default_rng(92), float(pool.mean())
    door = missed_through_the_door(sampled(rng, pool, k, DOOR), truth, name, pool.size)
    share = refused(sampled(rng, pool, k, BATCH), truth, pool.size)
    print(f"{k} of {pool.size}, {name}: missed {door:.4f}, true null refused {share:.4f}")
    assert door <= limit(DOOR)
    assert share <= limit(BATCH)


def test_there_are_worlds_and_pools_enough() -> None:
    rng = np.random.default_rng(93)
    for name, (law, mean, _) in WORLDS.items():
        drawn = law(rng, 200_000)
        assert drawn.mean() == pytest.approx(mean, abs=1e-9 + 5 * drawn.std() / 200_000**0.5), name
    assert min(len(WORLDS), len(POOLS)) >= 12


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_twin_whose_bets_see_the_present_score_is_caught() -> None:
    """It bets nothing on a client whose loss is above the risk it bets against."""
    law, mean, k = WORLDS["bimodal"]
    losses = law(np.random.default_rng(94), (BATCH, 3 * k))
    assert refused(losses, mean) <= limit(BATCH)
    share = refused(np.minimum(losses, floor(mean * RISK_STEPS) / RISK_STEPS), mean)
    print(f"bets that see the present score: {share:.4f}")
    assert share > 2 * limit(BATCH)


def test_a_twin_that_takes_the_smallest_refused_risk_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both searches get the same wealth, fair against every risk and as uneven as digits."""
    rng, (law, mean, k) = np.random.default_rng(95), WORLDS["even"]
    starts: list[float] = []

    def uneven(sample: Any, risks: Array, aim: float, enough: float) -> Array:
        # 2/delta with probability delta/2, and nothing otherwise: mean 1 under every null.
        drawn = (starts[-1] + np.rint(risks * RISK_STEPS) * 0.6180339887498949) % 1.0 < DELTA / 2
        return np.where(drawn, log(2.0 / DELTA) + 1e-6, -np.inf)

    def smallest(ask: Callable[[Array], Array], **_: Any) -> int:
        return next(at for at in range(RISK_STEPS) if ask(np.array([at / RISK_STEPS]))[0]) - 1

    monkeypatch.setattr(blending, "highest_unsure", lambda *given: given[-1])
    monkeypatch.setattr(blending, "star_wealth", uneven)
    tables, missed = law(rng, (DOOR, k)), {"from the top": 0, "smallest": 0}
    for name in missed:
        if name == "smallest":
            monkeypatch.setattr(aiming, "last_kept", smallest)
        for losses in tables:
            starts.append(float(rng.random()))
            made = latecomer.certify_losses(losses.tolist(), rule="blend")
            assert made.certificate is not None
            missed[name] += float(made.certificate) < mean
    print({name: count / DOOR for name, count in missed.items()})
    assert missed["from the top"] / DOOR <= limit(DOOR)
    assert missed["smallest"] > binom.isf(1e-6, DOOR, DELTA)


@pytest.mark.parametrize("read_for", ["the pool's mean", "a Gibbs predictor"])
def test_a_twin_of_pools_that_is_read_for_a_gibbs_predictor_is_caught(read_for: str) -> None:
    """Plain product beside bets about realised scores: 60 of 66 clients, errors of .1 or .9.

    Every client's expected error is one half.  The plain product holds for it; the other half takes
    off the pool's sum what was realised, and with it the whole is no statement about expectations.
    """
    rng, k, size, trials = np.random.default_rng(96), 60, 66, 1000
    pools = 0.1 + 0.8 * (rng.random((trials, size)) < 0.5)
    losses = pools[:, :k]
    truths = pools.mean(axis=1) if read_for == "the pool's mean" else np.full(trials, 0.5)
    enough, missed, alone = np.log(2.0 / DELTA) + allowance(k), 0, 0
    for truth in np.unique(truths):
        samples, risk = losses[truths == truth], floor(truth * RISK_STEPS) / RISK_STEPS
        _, won = halves(samples, float(truth), size, n_orders=8)
        plain = np.log1p(-samples).sum(axis=1) - k * np.log1p(-risk)
        missed += int((np.logaddexp(plain, won) >= enough).sum())
        alone += int((plain >= np.log(1.0 / DELTA)).sum())
    print(f"read for {read_for}: {missed / trials:.4f}, the product alone {alone / trials:.4f}")
    assert alone / trials <= limit(trials)
    assert (missed / trials > 2 * limit(trials)) == (read_for == "a Gibbs predictor")
