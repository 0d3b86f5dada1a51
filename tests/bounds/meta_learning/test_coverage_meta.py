"""Coverage of the meta-learning certificates, simulated in worlds whose true risks are known.

A client has one of finitely many types; a type fixes the risks of two models, so that every risk is
an exact sum. A system turns a client's error counts into a Gibbs distribution over the two models;
the hyper-posterior is a Gibbs distribution over four systems. An assertion on violations fails with
probability at most 1e-6 if the certificate holds: the limit is that quantile of the binomial law.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit, xlogy
from scipy.stats import beta, binom
from simulated import limit

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.meta_learning.kl_inverted import (
    guan_lu_catoni,
    guan_lu_kl,
    multitask_kl,
    two_step_kl,
    zakerinia24,
)
from latecomer.bounds.meta_learning.pefll import (
    amit_meir,
    pacoh_holder,
    pefll_32,
    pefll_b1,
    pentina_lampert,
    rezazadeh_code,
)
from latecomer.bounds.meta_learning.unequal_sizes import (
    catoni_unequal,
    pefll_b1_unequal,
    two_step_kl_unequal,
)
from latecomer.bounds.unit_scale import harmonic_total
from latecomer.bounds.unseen_clients.description_length import aid_fast, aid_occam, occam_client
from latecomer.bounds.unseen_clients.personal_priors import personal_prior_kl, personal_prior_pooled
from latecomer.bounds.unseen_clients.single_level import (
    progressive,
    single_level_kl,
    single_level_kl_mc,
    single_level_product,
    single_level_product_mc,
)

pytestmark = pytest.mark.theory

TRIALS = 2000
DELTA = 0.2
N = 120
SAMPLES = (8, 24)
PRIORS = np.array([0.5, 0.5, 0.8, 0.2])
TEMPERATURES = np.array([0.0, 0.3, 0.3, 0.8])


def _beta_types() -> tuple[np.ndarray, np.ndarray]:
    low = beta.ppf((np.arange(12) + 0.5) / 12, 1.5, 8.0)
    return np.full(12, 1 / 12), np.stack([low, np.roll(low, 5)], axis=1)


WORLDS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "bernoulli": (np.array([0.45, 0.45, 0.1]), np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])),
    "beta": _beta_types(),
    "rare bad": (np.array([0.97, 0.03]), np.array([[0.03, 0.06], [0.9, 0.95]])),
}


def two_point_kl(q: np.ndarray, p: Any) -> np.ndarray:
    return np.asarray(xlogy(q, q / p) + xlogy(1 - q, (1 - q) / (1 - p)))


@dataclass(frozen=True)
class Federation:
    """Many trials of one world: what a bound is given, and the risks it must exceed."""

    sizes: np.ndarray
    empirical: np.ndarray
    clients_empirical: np.ndarray
    kl_hyper: np.ndarray
    kls: np.ndarray
    kls_fixed_prior: np.ndarray
    kls_mixed_prior: np.ndarray
    kl_prior_hyper: np.ndarray
    unseen: np.ndarray
    seen: np.ndarray


def first_model(difference: np.ndarray) -> np.ndarray:
    """Weight of the first model under each system, from errors of the second minus the first."""
    return np.asarray(expit(logit(PRIORS) + TEMPERATURES * difference[..., np.newaxis]))


def difference_law(m: int, first: float, second: float) -> np.ndarray:
    """Law of errors of the second model minus errors of the first, on -m..m."""
    counts = np.arange(m + 1)
    return np.convolve(binom.pmf(counts, m, second), binom.pmf(counts, m, first)[::-1])


def system_risks(weights: np.ndarray, risks: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Exact unseen-client risk of every system, a client's size drawn uniformly."""
    total = np.zeros(len(PRIORS))
    for m in sizes:
        chosen = first_model(np.arange(-m, m + 1))
        for weight, (first, second) in zip(weights, risks, strict=True):
            law = difference_law(m, first, second)
            total += weight * (law @ (chosen * first + (1 - chosen) * second)) / len(sizes)
    return total


@cache
def federation(world: str, *, unequal: bool) -> Federation:
    weights, risks = WORLDS[world]
    rng = np.random.default_rng([len(world), unequal])
    sizes = SAMPLES if unequal else SAMPLES[-1:]
    m = rng.choice(sizes, size=(TRIALS, N))
    p = risks[rng.choice(len(weights), p=weights, size=(TRIALS, N))]
    errors = rng.binomial(m[..., np.newaxis], p)
    q = first_model(errors[..., 1] - errors[..., 0])
    rate = errors / m[..., np.newaxis]
    empirical = q * rate[..., :1] + (1 - q) * rate[..., 1:]
    true = q * p[..., :1] + (1 - q) * p[..., 1:]
    log_rho = -N * empirical.mean(axis=1)
    rho = np.exp(log_rho - log_rho.max(axis=1, keepdims=True))
    rho /= rho.sum(axis=1, keepdims=True)

    def average(of_systems: np.ndarray) -> np.ndarray:
        # The weights add up to 1 only up to rounding, and no risk may exceed 1.
        mean = (of_systems * rho[:, np.newaxis]).sum(axis=-1)
        return np.asarray(np.clip(mean, of_systems.min(axis=-1), of_systems.max(axis=-1)))

    # A second Gibbs distribution, over the two priors that zakerinia24 chooses from.
    to_each = np.stack([average(two_point_kl(q, prior)) for prior in (0.3, 0.7)], axis=-1)
    sigma = expit(0.2 * (to_each[..., 1] - to_each[..., 0]).sum(axis=1))
    mixed = sigma[:, np.newaxis] * to_each[..., 0] + (1 - sigma[:, np.newaxis]) * to_each[..., 1]
    return Federation(
        sizes=m,
        empirical=average(empirical).mean(axis=1),
        clients_empirical=average(empirical),
        kl_hyper=xlogy(rho, rho * len(PRIORS)).sum(axis=1),
        kls=average(two_point_kl(q, PRIORS)),
        kls_fixed_prior=average(two_point_kl(q, 0.5)),
        kls_mixed_prior=mixed,
        kl_prior_hyper=two_point_kl(sigma, 0.5),
        unseen=rho @ system_risks(weights, risks, sizes),
        seen=average(true).mean(axis=1),
    )


def common(f: Federation) -> dict[str, Any]:
    return {"empirical_risk": f.empirical, "kl_hyper": f.kl_hyper, "delta": DELTA}


def equal(f: Federation, *, shared_prior: bool = False) -> dict[str, Any]:
    kls = f.kls if shared_prior else f.kls_fixed_prior
    numbers = {"n_clients": N, "n_samples": SAMPLES[-1]}
    return common(f) | numbers | {"sum_kl": kls.sum(axis=1)}


def linear(f: Federation) -> dict[str, Any]:
    total, _ = harmonic_total(f.sizes)
    numbers = {"n_clients": N, "harmonic_size": total / N}
    return common(f) | numbers | {"sum_kl": f.kls.sum(axis=1)}


def _gaussian(f: Federation) -> Certificate:
    """Call pefll_32 with norms that give the exact KL of this world."""
    return pefll_32(
        empirical_risk=f.empirical,
        eta_h_squared=2 * f.kl_hyper,
        alpha_h=1,
        eta_v_squared=0,
        alpha_v=1,
        theta_squared=2 * f.kls_fixed_prior,
        alpha_theta=1,
        sizes=f.sizes,
        delta=DELTA,
    )


EQUAL: dict[str, Callable[[Federation], Certificate]] = {
    "pefll_b1 maurer": lambda f: pefll_b1(**equal(f)),
    "pefll_b1 printed": lambda f: pefll_b1(**equal(f), variant="printed"),
    "pefll_b1 subgauss": lambda f: pefll_b1(**equal(f), variant="subgauss"),
    "zakerinia24": lambda f: zakerinia24(
        **equal(f) | {"sum_kl": f.kls_mixed_prior.sum(axis=1)}, kl_prior_hyper=f.kl_prior_hyper
    ),
    "two_step_kl": lambda f: two_step_kl(**equal(f)),
    "guan_lu_kl": lambda f: guan_lu_kl(**equal(f, shared_prior=True)),
    "guan_lu_catoni": lambda f: guan_lu_catoni(
        **equal(f, shared_prior=True), client_temperature=1, sample_temperature=1
    ),
    "multitask_kl": lambda f: multitask_kl(**equal(f, shared_prior=True)),
    "rezazadeh_code": lambda f: rezazadeh_code(
        **common(f), mean_kl=f.kls.mean(axis=1), n_clients=N, n_samples=SAMPLES[-1]
    ),
}
UNEQUAL: dict[str, Callable[[Federation], Certificate]] = {
    "pefll_b1_unequal": lambda f: pefll_b1_unequal(
        **common(f), sum_kl=f.kls_fixed_prior.sum(axis=1), sizes=f.sizes
    ),
    "pefll_32": _gaussian,
    "two_step_kl_unequal": lambda f: two_step_kl_unequal(
        **common(f), sum_kl=f.kls_fixed_prior.sum(axis=1), sizes=f.sizes
    ),
    "amit_meir": lambda f: amit_meir(**common(f), kls=f.kls, sizes=f.sizes),
    "pentina_lampert": lambda f: pentina_lampert(**linear(f)),
    "pacoh_holder": lambda f: pacoh_holder(**linear(f), client_rate=50, sample_rate=10),
    "catoni_unequal": lambda f: catoni_unequal(
        empirical_risks=f.clients_empirical,
        sum_kl=f.kls_fixed_prior.sum(axis=1),
        sizes=f.sizes,
        delta=DELTA,
        rate=N * 15.0,
    ),
}


def report(name: str, world: str, bound: np.ndarray, truth: np.ndarray, delta: float) -> None:
    """Assert coverage and print how much was left unused."""
    violations = int((truth > bound).sum())
    print(
        f"{name:22s} {world:12s} {violations:4d} of {truth.size} violated, "
        f"median slack {np.median(bound - truth):.4f}"
    )
    assert violations <= limit(truth.size, delta)
    assert np.median(bound) < 1.0, "a vacuous world tests nothing"


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", [*EQUAL, *UNEQUAL])
def test_no_excess_violations(name: str, world: str) -> None:
    f = federation(world, unequal=name in UNEQUAL)
    bound = (UNEQUAL | EQUAL)[name](f)
    truth = f.seen if bound.population == "seen-clients" else f.unseen
    report(name, world, bound.value, truth, DELTA)


@cache
def scored(world: str, *, pool: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores [trials, n, systems] and risks [trials, systems]; a pool is a list of fixed scores."""
    weights, risks = WORLDS[world]
    rng = np.random.default_rng([len(world), pool])
    four = np.stack([risks, risks[:, ::-1], 0.5 * (risks + risks[:, ::-1])], axis=-1)
    four = np.concatenate([four[:, 0], four[:, 1, :1]], axis=-1)
    if not pool:
        p = four[rng.choice(len(weights), p=weights, size=(TRIALS, N))]
        return rng.binomial(20, p) / 20, np.broadcast_to(weights @ four, (TRIALS, 4))
    drawn = four[rng.choice(len(weights), p=weights, size=(TRIALS, pool))]
    members = rng.permuted(np.tile(np.arange(pool), (TRIALS, 1)), axis=1)[:, :N]
    scores = np.take_along_axis(drawn, members[..., np.newaxis], axis=1)
    return scores, drawn.mean(axis=1)


def gibbs(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_rho = -30.0 * scores.mean(axis=1)
    rho = np.exp(log_rho - log_rho.max(axis=1, keepdims=True))
    rho /= rho.sum(axis=1, keepdims=True)
    return rho, xlogy(rho, rho * 4).sum(axis=1)


@pytest.mark.parametrize("pool", [0, 160])
@pytest.mark.parametrize("world", WORLDS)
def test_single_level_forms(world: str, pool: int) -> None:
    scores, risks = scored(world, pool=pool)
    rho, kl_hyper = gibbs(scores)
    truth = (rho * risks).sum(axis=1)
    label = world + (" pool" if pool else "")
    call = {"kl_hyper": kl_hyper, "n_clients": N, "delta": DELTA}
    empirical = (rho * scores.mean(axis=1)).sum(axis=1)
    plain = single_level_kl(empirical_risk=empirical, **call)
    report("single_level_kl", label, plain.value, truth, DELTA)

    rng = np.random.default_rng(9)
    draws = (rng.random((TRIALS, N, 5, 1)) > rho.cumsum(axis=1)[:, np.newaxis, np.newaxis]).sum(-1)
    seen = np.take_along_axis(scores, np.minimum(draws, 3), axis=2)
    drawn = single_level_kl_mc(
        monte_carlo_risk=seen.mean(axis=(1, 2)), n_draws=N * 5, delta_draws=0.02, **call
    )
    report("single_level_kl_mc", label, drawn.value, truth, DELTA + 0.02)

    # The product rule sees scores below 1: here (1 - gamma) times the score, undone afterwards.
    gamma = 0.05
    level = -np.log1p(-(1 - gamma) * scores).mean(axis=1)
    product = single_level_product(mean_neg_log1m=(rho * level).sum(axis=1), **call)
    report("single_level_product", label, product.value / (1 - gamma), truth, DELTA)

    drawn_level = -np.log1p(-(1 - gamma) * seen).mean(axis=(1, 2))
    drawn = single_level_product_mc(
        monte_carlo_neg_log1m=drawn_level, gamma=gamma, n_draws=N * 5, delta_draws=0.02, **call
    )
    report("single_level_product_mc", label, drawn.value, truth, DELTA + 0.02)

    best = scores.mean(axis=1).argmin(axis=1)[:, np.newaxis]
    occam = occam_client(
        empirical_risk=scores.mean(axis=1).min(axis=1), bits=2, n_clients=N, delta=DELTA
    )
    of_best = np.take_along_axis(risks, best, axis=1)[:, 0]
    report("occam_client", label, occam.value, of_best, DELTA)


def worst_of_four(risk: float, n: int, trials: int) -> np.ndarray:
    """Lowest mean score of four independent systems whose scores are coins of mean ``risk``."""
    rng = np.random.default_rng(4)
    return (rng.random((trials, 4, n)) < risk).mean(axis=2).min(axis=1)


@pytest.mark.parametrize("rule", ["single_level_product", "occam_client"])
def test_nearly_tight_and_broken_twins(rule: str) -> None:
    n, delta, trials = 30, 0.1, 20_000

    def certify(lowest: np.ndarray, *, log_systems: float, spent: float) -> np.ndarray:
        if rule == "occam_client":
            bits = log_systems / np.log(2)
            bound = occam_client(empirical_risk=lowest, bits=bits, n_clients=n, delta=spent)
        else:
            # Coins: a single score of 1 makes the bound 1.
            level = np.where(lowest > 0, 50.0, 0.0)
            bound = single_level_product(
                mean_neg_log1m=level, kl_hyper=log_systems, n_clients=n, delta=spent
            )
        return bound.value

    def violations(share: float, **price: float) -> int:
        """Count violations where the risk is just above what an errorless system is certified."""
        risk = 1 - share ** (1 / n) + 1e-9
        return int((certify(worst_of_four(risk, n, trials), **price) < risk).sum())

    honest = {"log_systems": np.log(4), "spent": delta}
    tight = violations(delta / 4, **honest)
    print(f"{rule:22s} nearly tight {tight} of {trials} violated at delta {delta}")
    assert 0.085 * trials <= tight <= limit(trials, delta)
    twice_delta = violations(2 * delta / 4, log_systems=np.log(4), spent=2 * delta)
    no_price = violations(delta, log_systems=0.0, spent=delta)
    assert min(twice_delta, no_price) > limit(trials, delta)


DRIFTS = ("revenge", "relief", "alternating")


def drifting(drift: str, base: float, steps: int, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """Coins whose mean reacts to the past: scores and their conditional means."""
    rng = np.random.default_rng(len(drift))
    scores, means = np.zeros((2, trials, steps))
    for t in range(steps):
        errors = scores[:, :t].sum(axis=1)
        if drift == "revenge":
            means[:, t] = np.where(errors > 0, 0.9, base)
        elif drift == "relief":
            means[:, t] = np.where(errors > 0, 0.0, base)
        else:
            means[:, t] = np.where(errors % 2 > 0, 0.5, base)
        scores[:, t] = rng.random(trials) < means[:, t]
    return scores, means


@pytest.mark.parametrize("drift", DRIFTS)
def test_progressive_under_reacting_drifts(drift: str) -> None:
    steps, delta, trials = 30, 0.1, 20_000

    def violations(share: float, spent: float) -> int:
        scores, means = drifting(drift, 1 - share ** (1 / steps) + 1e-9, steps, trials)
        bound = progressive(
            empirical_risk=scores.mean(axis=1), n_steps=steps, delta=spent, grid=[40.0]
        )
        return int((means.mean(axis=1) > bound.value).sum())

    tight = violations(delta, delta)
    print(f"progressive            {drift:12s} nearly tight {tight} of {trials} violated")
    assert 0.085 * trials <= tight <= limit(trials, delta)
    assert violations(2 * delta, 2 * delta) > limit(trials, delta)


@pytest.mark.parametrize("drift", DRIFTS)
def test_progressive_with_a_grid(drift: str) -> None:
    steps, trials = 45, 5000
    scores, means = drifting(drift, 0.05, steps, trials)
    bound = progressive(
        empirical_risk=scores.mean(axis=1), n_steps=steps, delta=0.1, grid=[0.2, 0.5, 1, 2, 4]
    )
    report("progressive grid", drift, bound.value, means.mean(axis=1), 0.1)


def test_progressive_says_nothing_about_the_last_checkpoint() -> None:
    rng = np.random.default_rng(6)
    means = np.full((2000, 45), 0.05)
    means[:, -1] = 0.9
    scores = (rng.random(means.shape) < means).astype(float)
    bound = progressive(
        empirical_risk=scores.mean(axis=1), n_steps=45, delta=0.1, grid=[0.5, 1, 2, 4]
    )
    assert int((means.mean(axis=1) > bound.value).sum()) <= limit(2000, 0.1)
    assert int((means[:, -1] > bound.value).sum()) > limit(2000, 0.1)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("calculator", [aid_fast, aid_occam])
def test_quantised_models_of_seen_clients(calculator: Any, world: str) -> None:
    weights, risks = WORLDS[world]
    rng = np.random.default_rng(7)
    # Four shared codes, one bit a client: each code offers two models of independent types.
    kinds = rng.choice(len(weights), p=weights, size=(TRIALS, N, 4))
    p = risks[kinds]
    rate = rng.binomial(SAMPLES[-1], p) / SAMPLES[-1]
    own = rate.argmin(axis=-1)[..., np.newaxis]
    rate, p = (np.take_along_axis(part, own, axis=-1)[..., 0].mean(axis=1) for part in (rate, p))
    best = rate.argmin(axis=1)[:, np.newaxis]
    bound = calculator(
        empirical_risk=rate.min(axis=1),
        bits_shared=2,
        bits_clients=np.ones(N),
        n_samples=SAMPLES[-1],
        delta=DELTA,
    )
    truth = np.take_along_axis(p, best, axis=1)[:, 0]
    report(calculator.__name__, world, bound.value, truth, DELTA)


@pytest.mark.parametrize("world", WORLDS)
def test_personal_priors(world: str) -> None:
    weights, risks = WORLDS[world]
    rng = np.random.default_rng(8)
    k, for_prior, for_risk, temperature = 40, 12, 40, 0.2
    p = risks[rng.choice(len(weights), p=weights, size=(TRIALS, k))]
    early = rng.binomial(for_prior, p)
    late = rng.binomial(for_risk, p)
    prior = expit(temperature * (early[..., 1] - early[..., 0]))
    both = early + late
    q = expit(temperature * (both[..., 1] - both[..., 0]))
    rate = (q * late[..., 0] + (1 - q) * late[..., 1]) / for_risk
    true = q * p[..., 0] + (1 - q) * p[..., 1]
    call = {"alpha": 1.0, "n_samples": for_risk, "delta": DELTA}
    distance = 2 * two_point_kl(q, prior)

    one = personal_prior_kl(
        empirical_risk=rate[:, 0], squared_distance=distance[:, 0], **call
    ).value
    report("personal_prior_kl", world, one, true[:, 0], DELTA)
    every = personal_prior_kl(
        empirical_risk=rate, squared_distance=distance, n_simultaneous=k, **call
    ).value
    assert int((true > every).any(axis=1).sum()) <= limit(TRIALS, DELTA)

    steps = np.arange(-for_prior, for_prior + 1)[:, np.newaxis] + np.arange(-for_risk, for_risk + 1)
    chosen = expit(temperature * steps)
    exact = sum(
        weight
        * difference_law(for_prior, first, second)
        @ (chosen * first + (1 - chosen) * second)
        @ difference_law(for_risk, first, second)
        for weight, (first, second) in zip(weights, risks, strict=True)
    )
    pooled = personal_prior_pooled(
        empirical_risk=rate.mean(axis=1), squared_distances=distance, **call
    ).value
    report("personal_prior_pooled", world, pooled, np.full(TRIALS, exact), DELTA)
