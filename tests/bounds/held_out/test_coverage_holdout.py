"""Coverage by simulation of the hold-out certificates, in worlds whose true risk is known.

Each world is drawn at least 2,000 times from a fixed seed. A correct certificate fails at most
``delta`` of the time, so its number of failures exceeds ``limit`` with probability at most 1e-6:
that is the chance that such an assertion would refuse a correct rule on a fresh seed. Every rule
has a nearly tight world, where it must also spend a stated share of its delta, and a broken twin
(a wrong constant or a mistake seen in the wild) that the same limit catches.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import binom
from simulated import limit, sampled

from latecomer.bounds import (
    betting_mixture,
    chernoff_kl,
    clopper_pearson,
    conformal,
    dkw_band,
    emp_bernstein,
    hoeffding,
    kl_inverse_upper,
    pool_band,
    pool_fraction,
    product,
    product_mixture,
    wsr,
    wsr_wor,
)
from latecomer.bounds.certificate import Array

pytestmark = pytest.mark.theory

Failures = NDArray[np.bool_]
DELTA = 0.05
TRIALS = 20_000
A_HAIR = 1e-9


@dataclass(frozen=True)
class World:
    """Failures of a rule and of its broken twin, and how much of delta the rule must spend."""

    failed: Failures
    broken: Failures
    delta: float
    spends: float


def coins(rng: Generator, mean: float, trials: int, n: int) -> Array:
    return (rng.random((trials, n)) < mean).astype(np.float64)


def below(values: Array, truth: Array | float) -> Failures:
    return np.asarray(values < truth)


def reference_price(losses: Array, delta: float) -> Array:
    """The price of equal scores, taken for a bound: right only without spread."""
    mean, k = losses.mean(axis=-1), losses.shape[-1]
    return np.asarray(mean + (1 - delta ** (1 / k)) * (1 - mean))


def hoeffding_one_sample(rng: Generator) -> World:
    """One coin, where the inequality's constant is within 11% of the truth."""
    delta, trials = 0.28, TRIALS
    width = float(hoeffding(empirical_risk=0.0, n_samples=1, delta=delta))
    fair = coins(rng, width + A_HAIR, trials, 1)[:, 0]
    values = hoeffding(empirical_risk=fair, n_samples=1, delta=delta).value
    lowered = np.sqrt(-np.log(delta) / 4.0)  # 2 n taken for 4 n
    other = coins(rng, lowered + A_HAIR, trials, 1)[:, 0]
    return World(
        below(values, width + A_HAIR), below(other + lowered, lowered + A_HAIR), delta, 0.7
    )


def chernoff_no_errors(rng: Generator) -> World:
    """The risk at which no error in 20 samples has just probability delta."""
    n = 20

    def failures(factor: float) -> Failures:
        truth = -np.expm1(factor * np.log(DELTA) / n) + A_HAIR
        risk = coins(rng, truth, TRIALS, n).mean(axis=1)
        if factor == 1.0:
            return below(chernoff_kl(empirical_risk=risk, n_samples=n, delta=DELTA).value, truth)
        return below(kl_inverse_upper(risk, -factor * np.log(DELTA) / n), truth)

    return World(failures(1.0), failures(0.9), DELTA, 0.9)


def clopper_pearson_three_errors(rng: Generator) -> World:
    n = 40
    truth = float(clopper_pearson(n_errors=3, n_samples=n, delta=DELTA)) + A_HAIR
    errors = coins(rng, truth, TRIALS, n).sum(axis=1).astype(np.int64)
    values = clopper_pearson(n_errors=errors, n_samples=n, delta=DELTA).value
    # Off by one: the tail P(X < k) instead of P(X <= k).
    fewer = clopper_pearson(n_errors=np.maximum(errors - 1, 0), n_samples=n, delta=DELTA).value
    return World(below(values, truth), below(fewer, truth), DELTA, 0.9)


def product_iid(rng: Generator) -> World:
    """Clients that are perfect or hopeless, with delta as the chance of 30 perfect ones."""
    k = 30
    truth = 1 - DELTA ** (1 / k) + A_HAIR
    values = product(losses=coins(rng, truth, TRIALS, k), delta=DELTA).value
    spread = coins(rng, 0.5, TRIALS, k)
    return World(below(values, truth), below(reference_price(spread, DELTA), 0.5), DELTA, 0.9)


def product_finite_pool(rng: Generator) -> World:
    """30 of 300 clients without replacement, the fewest hopeless ones that can fool the rule."""
    k, n = 30, 300
    bad = int(np.floor((1 - DELTA ** (1 / k)) * n)) + 1
    pool = np.repeat([1.0, 0.0], [bad, n - bad])
    values = product(losses=sampled(rng, pool, k, TRIALS), delta=DELTA).value
    even = sampled(rng, np.repeat([1.0, 0.0], [n // 2, n - n // 2]), k, TRIALS)
    broken = below(reference_price(even, DELTA), 0.5)
    return World(below(values, pool.mean()), broken, DELTA, 0.6)


def product_drifting(rng: Generator) -> World:
    """Means that react: they fall to a fifth after the first error. Their average is bounded."""
    k = 30
    start = 1 - DELTA ** (1 / k) + A_HAIR
    draws = rng.random((TRIALS, k))
    erred = np.zeros(TRIALS, dtype=np.bool_)
    losses, means = np.empty((TRIALS, k)), np.empty((TRIALS, k))
    for t in range(k):
        means[:, t] = np.where(erred, start / 5, start)
        losses[:, t] = draws[:, t] < means[:, t]
        erred |= losses[:, t] == 1
    failed = below(product(losses=losses, delta=DELTA).value, means.mean(axis=1))
    drift = np.repeat([0.2, 0.8], k // 2)
    drifting = (rng.random((TRIALS, k)) < drift).astype(np.float64)
    return World(failed, below(reference_price(drifting, DELTA), 0.5), DELTA, 0.9)


def two_halves_refuse(losses: Array, delta: float, means: Array | float) -> Failures:
    """Whether WSR's wealth under the true means, summed wrongly, refuses the truth.

    A library adds the running maxima of two half-batches; only the running sum has a proof.
    """
    k = losses.shape[-1]
    rank = np.arange(1, k + 1)
    mean = (0.5 + losses.cumsum(-1)) / (rank + 1)
    variance = (0.25 + ((losses - mean) ** 2).cumsum(-1)) / (rank + 1)
    before = np.concatenate([np.full_like(variance[:, :1], 0.25), variance[:, :-1]], axis=1)
    bets = np.minimum(1.0, np.sqrt(-2 * np.log(delta) / (k * before)))
    gains = np.log1p(bets * (means - losses))
    halves = gains[:, : k // 2], gains[:, k // 2 :]
    wealth = np.asarray(sum(half.cumsum(axis=1).max(axis=1) for half in halves))
    return np.asarray(wealth > -np.log(delta))


def wsr_iid(rng: Generator) -> World:
    k, truth = 100, 0.1
    losses = coins(rng, truth, TRIALS, k)
    values = wsr(losses=losses, delta=DELTA).value
    return World(below(values, truth), two_halves_refuse(losses, DELTA, truth), DELTA, 0.7)


def wsr_without_replacement(rng: Generator) -> World:
    k, n, trials = 100, 130, 10_000
    pool = np.repeat([1.0, 0.0], [39, n - 39])
    losses = sampled(rng, pool, k, trials)
    values = wsr_wor(losses=losses, delta=DELTA, pool_size=n).value
    seen = np.cumsum(losses, axis=1) - losses
    means = (pool.sum() - seen) / (n - np.arange(k))
    broken = two_halves_refuse(losses, DELTA, means)
    return World(below(values, pool.mean()), broken, DELTA, 0.6)


def betting_mixture_rare_errors(rng: Generator) -> World:
    """One bet of 1 against rare errors: the wealth is 1/delta or next to nothing."""
    k = 300
    truth = DELTA ** (-1 / k) - 1 + A_HAIR
    # The last wealth of fixed bets hangs on how many err, and not on which: one bound a count.
    ones = np.tri(k + 1, k, -1)
    errors = rng.binomial(k, truth, TRIALS)
    values = betting_mixture(losses=ones, delta=DELTA, n_bets=1).value[errors]
    # Ten bets summed instead of averaged: the same as ten times delta.
    summed = float(betting_mixture(losses=np.zeros(k), delta=10 * DELTA, n_bets=10)) + A_HAIR
    other = betting_mixture(losses=ones, delta=10 * DELTA, n_bets=10).value
    broken = below(other[rng.binomial(k, summed, 4000)], summed)
    return World(below(values, truth), broken, DELTA, 0.9)


def conformal_next_client(rng: Generator) -> World:
    alpha, k = 0.1, 19
    losses, following = rng.beta(1, 6, (TRIALS, k)), rng.beta(1, 6, TRIALS)
    values = conformal(losses=losses, alpha=alpha).value
    plain = np.quantile(losses, 1 - alpha, axis=1)  # the quantile without the correction
    return World(below(values, following), below(plain, following), alpha, 0.9)


def pool_fraction_one_exceeding(rng: Generator) -> World:
    n, pool_size = 30, 400
    one = pool_fraction(n_exceeding=1, n_sampled=n, pool_size=pool_size, delta=DELTA)
    bad = round(float(one) * pool_size) + 1
    exceeding = rng.hypergeometric(bad, pool_size - bad, n, TRIALS)
    seen = np.arange(n + 1)
    table = pool_fraction(n_exceeding=seen, n_sampled=n, pool_size=pool_size, delta=DELTA).value
    failed = below(table[exceeding], bad / pool_size)
    off_by_one = below(table[np.maximum(exceeding - 1, 0)], bad / pool_size)
    return World(failed, off_by_one, DELTA, 0.8)


def dkw_all_thresholds(rng: Generator) -> World:
    """Uniform scores: at some threshold the true share exceeds the sampled one by the width."""
    k, trials = 400, 10_000
    scores = np.sort(rng.random((trials, k)), axis=1)
    # Share above t: true 1 - t, sampled constant between scores; largest gap just after a score.
    gap = (np.arange(1, k + 1) / k - scores).max(axis=1)
    width = float(dkw_band(n_clients=k, delta=DELTA))
    return World(np.asarray(gap > width), np.asarray(gap > 0.9 * width), DELTA, 0.8)


def pool_band_all_thresholds(rng: Generator) -> World:
    """Distinct scores of a pool: at some threshold its share exceeds the sampled one."""
    n, size, trials = 40, 60, 10_000
    places = np.sort(rng.random((trials, size)).argsort(axis=1)[:, :n], axis=1) + 1
    # b/N - H_b/n is largest just before the next sampled client, worst first.
    before = np.concatenate([places - 1, np.full((trials, 1), size)], axis=1)
    gap = (before / size - np.arange(n + 1) / n).max(axis=1)
    width = float(pool_band(n_sampled=n, pool_size=size, delta=DELTA))
    # Gaps are multiples of 1/120: the next narrower band would fail too often.
    return World(np.asarray(gap > width), np.asarray(gap > 0.8 * width), DELTA, 0.6)


WORLDS: list[Callable[[Generator], World]] = [
    hoeffding_one_sample,
    chernoff_no_errors,
    clopper_pearson_three_errors,
    product_iid,
    product_finite_pool,
    product_drifting,
    wsr_iid,
    wsr_without_replacement,
    betting_mixture_rare_errors,
    conformal_next_client,
    pool_fraction_one_exceeding,
    dkw_all_thresholds,
    pool_band_all_thresholds,
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.__name__)
def test_nearly_tight_world(world: Callable[[Generator], World]) -> None:
    made = world(np.random.default_rng(20_241))
    trials = made.failed.size
    assert trials >= 2000
    print(
        f"{world.__name__}: {made.failed.mean():.4f} of trials failed at delta {made.delta}, "
        f"twin {made.broken.mean():.4f}"
    )
    assert made.failed.sum() <= limit(trials, made.delta)
    assert made.failed.sum() >= made.spends * made.delta * trials
    assert made.broken.sum() > limit(made.broken.size, made.delta), "the twin went unnoticed"


def bernoulli_clients(rng: Generator, trials: int, k: int) -> tuple[Array, float]:
    return coins(rng, 0.3, trials, k), 0.3


def beta_clients(rng: Generator, trials: int, k: int) -> tuple[Array, float]:
    return rng.beta(1.5, 12.0, (trials, k)), 1.5 / 13.5


def beta_binomial_clients(rng: Generator, trials: int, k: int) -> tuple[Array, float]:
    """Client risks are Beta; a score is the error rate on the client's 20 query points."""
    return rng.binomial(20, rng.beta(2, 14, (trials, k))) / 20, 2 / 16


def rare_bad_client(rng: Generator, trials: int, k: int) -> tuple[Array, float]:
    bad = rng.random((trials, k)) < 0.02
    return np.where(bad, 0.9, rng.beta(1, 20, (trials, k))), 0.02 * 0.9 + 0.98 / 21


CLIENTS = [bernoulli_clients, beta_clients, beta_binomial_clients, rare_bad_client]
RULES: dict[str, Callable[[Array], Array]] = {
    "hoeffding": lambda x: (
        hoeffding(empirical_risk=x.mean(-1), n_samples=x.shape[-1], delta=DELTA).value
    ),
    "chernoff_kl": lambda x: (
        chernoff_kl(empirical_risk=x.mean(-1), n_samples=x.shape[-1], delta=DELTA).value
    ),
    "emp_bernstein": lambda x: (
        emp_bernstein(
            empirical_risk=x.mean(-1),
            variance=x.var(-1, ddof=1),
            n_samples=x.shape[-1],
            delta=DELTA,
        ).value
    ),
    "product": lambda x: product(losses=x, delta=DELTA).value,
    "wsr": lambda x: wsr(losses=x, delta=DELTA).value,
    "betting_mixture": lambda x: betting_mixture(losses=x, delta=DELTA).value,
    "product_mixture": lambda x: product_mixture(losses=x, delta=DELTA).value,
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("clients", CLIENTS, ids=lambda clients: clients.__name__)
def test_iid_clients(
    rule: str, clients: Callable[[Generator, int, int], tuple[Array, float]]
) -> None:
    trials = 3000
    for k in (10, 60):
        losses, truth = clients(np.random.default_rng(k), trials, k)
        values = RULES[rule](losses)
        failed = int(below(values, truth).sum())
        slack = float(np.median(values) - truth)
        print(f"{rule} {clients.__name__} k={k}: {failed / trials:.4f} failed, slack {slack:.3f}")
        assert failed <= limit(trials)


POOLED: dict[str, Callable[[Array, int], Array]] = {
    **{rule: lambda x, n, of=of: of(x) for rule, of in RULES.items()},
    "wsr_wor": lambda x, n: wsr_wor(losses=x, delta=DELTA, pool_size=n).value,
}


@pytest.mark.parametrize("rule", [rule for rule in POOLED if rule not in ("wsr", "emp_bernstein")])
@pytest.mark.parametrize("size", [30, 40, 400])
def test_finite_pools(rule: str, size: int) -> None:
    """Rules that claim samples without replacement, on pools of low and of spread scores."""
    rng, trials, k = np.random.default_rng(size), 3000, 30
    for pool in (rng.beta(1, 8, size), (rng.random(size) < 0.3).astype(np.float64)):
        values = POOLED[rule](sampled(rng, pool, k, trials), size)
        failed = int(below(values, pool.mean()).sum())
        print(f"{rule} pool of {size}: {failed / trials:.4f} failed")
        assert failed <= limit(trials)


def falling_after_errors(erred: Array, step: int) -> Array:
    return np.where(erred > 0, 0.05, 0.3)


def rising_after_errors(erred: Array, step: int) -> Array:
    return np.minimum(0.05 + 0.1 * erred, 0.9)


def worse_and_worse(erred: Array, step: int) -> Array:
    return np.full(erred.shape, 0.02 + 0.01 * step)


DRIFTS = [falling_after_errors, rising_after_errors, worse_and_worse]


def drifting(
    rng: Generator, drift: Callable[[Array, int], Array], trials: int, k: int
) -> tuple[Array, Array]:
    losses, means, erred = np.empty((trials, k)), np.empty((trials, k)), np.zeros(trials)
    for step in range(k):
        means[:, step] = drift(erred, step)
        losses[:, step] = rng.random(trials) < means[:, step]
        erred += losses[:, step]
    return losses, np.asarray(means.mean(axis=1))


@pytest.mark.parametrize("rule", ["product", "product_mixture"])
@pytest.mark.parametrize("drift", DRIFTS, ids=lambda drift: drift.__name__)
def test_drifting_means(rule: str, drift: Callable[[Array, int], Array]) -> None:
    trials = 4000
    losses, truth = drifting(np.random.default_rng(8), drift, trials, 45)
    failed = int(below(RULES[rule](losses), truth).sum())
    print(f"{rule} {drift.__name__}: {failed / trials:.4f} failed")
    assert failed <= limit(trials)


def test_adaptive_bets_fail_under_drifting_means() -> None:
    """A known wrong way: WSR on scores that get worse as training goes on."""
    trials = 4000
    losses, truth = drifting(np.random.default_rng(8), worse_and_worse, trials, 45)
    failed = int(below(RULES["wsr"](losses), truth).sum())
    print(f"wsr worse_and_worse: {failed / trials:.4f} failed")
    assert failed > limit(trials)


@pytest.mark.parametrize(("spread", "n_samples"), [(0.06, 50), (0.1, 100)])
def test_pooling_the_samples_of_clients_fails(spread: float, n_samples: int) -> None:
    """A known wrong way: Clopper-Pearson on pooled samples, read as a bound on unseen clients."""
    rng, trials, k, truth = np.random.default_rng(3), 4000, 20, 0.11
    total = truth * (1 - truth) / spread**2 - 1
    risks = rng.beta(truth * total, (1 - truth) * total, (trials, k))
    errors = rng.binomial(n_samples, risks).sum(axis=1)
    pooled = clopper_pearson(n_errors=errors, n_samples=k * n_samples, delta=DELTA).value
    failed = int(below(pooled, truth).sum())
    print(f"pooled Clopper-Pearson, sd {spread}: {failed / trials:.4f} failed")
    assert failed > limit(trials)
    # The same samples are fine for what the limit is about: these clients' own mean risk.
    own = int(below(pooled, risks.mean(axis=1)).sum())
    assert own <= limit(trials)


def test_independent_samples_of_unequal_clients_keep_clopper_pearson_for_those_clients() -> None:
    """Hoeffding (1956): unequal means only help while the limit lies above them."""
    rng, trials = np.random.default_rng(4), 4000
    means = np.repeat([0.02, 0.4], 30)
    errors = (rng.random((trials, 60)) < means).sum(axis=1)
    values = clopper_pearson(n_errors=errors, n_samples=60, delta=DELTA).value
    assert below(values, means.mean()).sum() <= limit(trials)


def worst_failure(range_factor: float, n: int, delta: float) -> float:
    """Largest exact failure probability of the empirical Bernstein form over coins."""
    k = np.arange(n + 1)
    r = k / n
    variance = r * (1 - r) * n / (n - 1)
    log_term = np.log(2 / delta)
    values = r + np.sqrt(2 * variance * log_term / n) + range_factor * log_term / (n - 1)
    p = np.linspace(1e-4, 1 - 1e-4, 4000)[:, None]
    return float(np.where(values < p, binom.pmf(k, n, p), 0.0).sum(axis=1).max())


@pytest.mark.parametrize("n", [2, 5, 20, 80, 300])
def test_constant_of_empirical_bernstein(n: int) -> None:
    """Exact binomial sums: 7/3 covers; without most of it the sample without errors fails."""
    assert worst_failure(7 / 3, n, DELTA) <= DELTA
    if n > 5:
        assert worst_failure(0.5, n, DELTA) > DELTA


@pytest.mark.parametrize("n", [2, 5, 20, 80])
def test_variance_step_of_empirical_bernstein(n: int) -> None:
    """P(sigma > sqrt(V) + sqrt(2 ln(1/delta) / (n - 1))) <= delta, by exact binomial sums."""
    k = np.arange(n + 1)
    sample = np.sqrt(k * (n - k) / (n * (n - 1)))
    p = np.linspace(1e-4, 1 - 1e-4, 4000)[:, None]
    sigma, weights = np.sqrt(p * (1 - p)), binom.pmf(k, n, p)

    def worst(factor: float) -> float:
        limits = sample + np.sqrt(factor * np.log(1 / DELTA) / (n - 1))
        return float(np.where(limits < sigma, weights, 0.0).sum(axis=1).max())

    assert worst(2.0) <= DELTA
    assert worst(0.02) > DELTA
