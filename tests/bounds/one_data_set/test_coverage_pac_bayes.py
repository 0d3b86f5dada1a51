"""Coverage by simulation of the PAC-Bayes bounds, and the inequalities their proofs rest on.

Finite hypothesis sets have exact posteriors, KLs and risks. A correct bound's number of failures
exceeds ``limit`` with probability at most 1e-6, the chance that such an assertion would refuse a
correct bound on a fresh seed. Where a proof has a constant, an exact sum over the binomial shows
that it suffices, and that the same check refuses a smaller one.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from simulated import limit

from latecomer.bounds import (
    Certificate,
    catoni,
    catoni_grid,
    kl,
    kl_inverse_upper,
    maurer,
    mc_then_kl,
    mcallester03,
    pbb_quad,
    seeger,
    seeger_exact,
    thiemann,
    thiemann_opt,
    tolstikhin_seldin,
    xi,
)
from latecomer.bounds.certificate import Array

pytestmark = pytest.mark.theory

DELTA = 0.05
A_HAIR = 1e-9
P = np.linspace(1e-3, 1 - 1e-3, 999)[:, None]


def one_hypothesis(rng: np.random.Generator, truth: float, n: int) -> Array:
    return np.asarray(rng.binomial(n, truth, 20_000) / n)


def test_seeger_without_posterior_is_nearly_tight() -> None:
    """One sample, KL 0: the constant 2 sqrt(n) leaves half of delta unspent and no more."""
    rng, truth = np.random.default_rng(1), 1 - DELTA / 2 + A_HAIR
    risk = one_hypothesis(rng, truth, 1)
    made = seeger(empirical_risk=risk, kl=0.0, n_samples=1, delta=DELTA)
    failed = int((made.value < truth).sum())
    print(f"seeger, KL 0: {failed / risk.size:.4f} failed")
    assert 0.45 * DELTA * risk.size <= failed <= limit(risk.size, DELTA)
    # The square-root form's 2 n has no place under the inverse.
    budget = np.log(2 / DELTA) / 2
    lowered = float(kl_inverse_upper(0.0, budget)) + A_HAIR
    other = one_hypothesis(rng, lowered, 1)
    assert (kl_inverse_upper(other, budget) < lowered).sum() > limit(other.size, DELTA)


def test_catoni_without_posterior_is_nearly_tight() -> None:
    """A large constant and no error in 20 samples, which has just probability delta."""
    rng, n, c = np.random.default_rng(2), 20, 8.0
    common: dict[str, Any] = {"kl": 0.0, "n_samples": n, "delta": DELTA, "c": c}
    truth = float(catoni(empirical_risk=0.0, **common)) + A_HAIR
    risk = one_hypothesis(rng, truth, n)
    failed = int((catoni(empirical_risk=risk, **common).value < truth).sum())
    print(f"catoni, KL 0: {failed / risk.size:.4f} failed")
    assert 0.9 * DELTA * risk.size <= failed <= limit(risk.size, DELTA)
    # Dividing by c instead of 1 - exp(-c), which is harmless for small c only.
    factor = -np.expm1(-c) / c
    lowered = factor * float(catoni(empirical_risk=0.0, **common)) + A_HAIR
    other = one_hypothesis(rng, lowered, n)
    values = factor * catoni(empirical_risk=other, **common).value
    assert (values < lowered).sum() > limit(other.size, DELTA)


RULES: dict[str, Callable[..., Certificate]] = {
    "maurer": maurer,
    "mcallester03": mcallester03,
    "seeger": seeger,
    "seeger_exact": seeger_exact,
    "catoni": partial(catoni, c=1.0),
    "catoni_grid": partial(catoni_grid, grid=[0.25, 0.5, 1.0, 2.0, 4.0]),
    "thiemann": partial(thiemann, lam=0.8),
    "thiemann_opt": thiemann_opt,
    "pbb_quad": pbb_quad,
}


def posterior(
    rng: np.random.Generator, *, n: int, hypotheses: int, heat: float, trials: int
) -> tuple[Array, Array, Array, Array, Array]:
    """Return empirical risks, weights, posterior risk, KL to the uniform prior and true risk."""
    truth = rng.beta(6, 6, hypotheses)
    risks = rng.binomial(n, truth, (trials, hypotheses)) / n
    scores = -heat * n * risks
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    logs = np.log(np.maximum(weights * hypotheses, 1e-300))
    divergence = np.maximum((weights * logs).sum(axis=1), 0.0)
    return risks, weights, (weights * risks).sum(axis=1), divergence, weights @ truth


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("heat", [0.1, 1.0, 50.0])
def test_gibbs_posteriors(rule: str, heat: float) -> None:
    """From a posterior near the prior to the empirical minimiser of 100 hypotheses."""
    trials, n = 3000, 30
    _, _, risk, divergence, truth = posterior(
        np.random.default_rng(5), n=n, hypotheses=100, heat=heat, trials=trials
    )
    made = RULES[rule](empirical_risk=risk, kl=divergence, n_samples=n, delta=DELTA)
    failed = int((made.value < truth).sum())
    slack = float(np.median(made.value - truth))
    print(f"{rule}, heat {heat}: {failed / trials:.4f} failed, slack {slack:.3f}")
    assert failed <= limit(trials, DELTA)


@pytest.mark.parametrize("rule", ["seeger", "seeger_exact", "catoni"])
def test_leaving_the_posterior_unpaid_is_caught(rule: str) -> None:
    """The empirical minimiser of 2,000 equal hypotheses, its KL of ln 2000 taken for 0."""
    rng, trials, n, truth = np.random.default_rng(6), 2000, 60, 0.4
    risk = (rng.binomial(n, truth, (trials, 2000)) / n).min(axis=1)
    common = {"empirical_risk": risk, "n_samples": n, "delta": DELTA}
    paid = RULES[rule](kl=np.log(2000), **common)
    unpaid = RULES[rule](kl=0.0, **common)
    assert (paid.value < truth).sum() <= limit(trials, DELTA)
    assert (unpaid.value < truth).sum() > limit(trials, DELTA)


@pytest.mark.parametrize("heat", [0.1, 1.0, 50.0])
def test_variance_form(heat: float) -> None:
    trials, n = 3000, 200
    risks, weights, risk, divergence, truth = posterior(
        np.random.default_rng(7), n=n, hypotheses=100, heat=heat, trials=trials
    )
    spread = (weights * risks * (1 - risks)).sum(axis=1) * n / (n - 1)
    made = tolstikhin_seldin(
        empirical_risk=risk, variance=spread, kl=divergence, n_samples=n, delta=DELTA
    )
    failed = int((made.value < truth).sum())
    slack = float(np.median(made.value - truth))
    print(f"tolstikhin_seldin, heat {heat}: {failed / trials:.4f} failed, slack {slack:.3f}")
    assert failed <= limit(trials, DELTA)


@pytest.mark.parametrize("two_sided", [True, False])
def test_sampled_posterior(two_sided: bool) -> None:
    rng, trials, n, draws, delta_draws = np.random.default_rng(8), 3000, 30, 20, 0.05
    risks, weights, _, divergence, truth = posterior(
        rng, n=n, hypotheses=50, heat=0.3, trials=trials
    )
    picks = (rng.random((trials, draws, 1)) > weights.cumsum(axis=1)[:, None, :-1]).sum(axis=-1)
    sampled = np.take_along_axis(risks, picks, axis=1).mean(axis=1)
    made = mc_then_kl(
        monte_carlo_risk=sampled,
        n_draws=draws,
        delta_draws=delta_draws,
        kl=divergence,
        n_samples=n,
        delta=DELTA,
        two_sided=two_sided,
    )
    failed = int((made.value < truth).sum())
    print(f"mc_then_kl, two-sided {two_sided}: {failed / trials:.4f} failed")
    assert failed <= limit(trials, DELTA + delta_draws)


def test_fresh_draw_for_every_sample_counts_every_pair() -> None:
    """With an independent draw per sample, n_draws is the number of pairs."""
    rng, trials, n, draws = np.random.default_rng(9), 4000, 25, 4
    weights = np.array([0.5, 0.3, 0.2])
    losses = rng.random((trials, 3, n)) < np.array([0.1, 0.4, 0.8])[:, None]
    picks = rng.choice(3, (trials, draws, n), p=weights)
    sampled = np.take_along_axis(losses, picks, axis=1).mean(axis=(1, 2))
    exact = (weights[:, None] * losses).sum(axis=1).mean(axis=1)
    limits = kl_inverse_upper(sampled, np.log(1 / DELTA) / (n * draws))
    assert (limits < exact).sum() <= limit(trials, DELTA)


@pytest.mark.parametrize("n", [1, 2, 5, 30, 100])
def test_exponential_moment_of_the_kl_is_xi(n: int) -> None:
    """E exp(n kl(k/n || p)) = xi(n) for every p, so that no smaller constant covers."""
    k = np.arange(n + 1)
    moments = (binom.pmf(k, n, P) * np.exp(n * kl(k / n, P))).sum(axis=1)
    np.testing.assert_allclose(moments, float(xi(n)), rtol=1e-9)
    assert moments.max() <= 2 * np.sqrt(n) * (1 + 1e-9)
    assert moments.max() > 0.99 * float(xi(n))


def test_constants_of_the_square_root_forms() -> None:
    """Pinsker's 2 and its refinement 1/(2p), with nothing to spare in either."""
    q, p = np.meshgrid(np.linspace(0, 1, 401), np.linspace(1e-3, 1 - 1e-3, 999))
    divergence, squared = kl(q, p), (p - q) ** 2
    assert np.all(divergence >= 2 * squared - 1e-12)
    assert not np.all(divergence >= 2.01 * squared - 1e-12)
    above = p > q
    refined = squared / (2 * p)
    assert np.all((divergence - refined)[above] >= -1e-12)
    assert not np.all((divergence - 1.05 * refined)[above] >= -1e-12)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 50, 400])
def test_moment_of_mcallester(n: int) -> None:
    """E exp(2 (n - 1) (k/n - p)^2) <= n, by exact sums; at n = 2 not below two thirds of it."""
    k = np.arange(n + 1)
    logs = binom.logpmf(k, n, P) + 2 * (n - 1) * (k / n - P) ** 2
    moments = np.exp(logs).sum(axis=1)
    assert moments.max() <= n
    if n == 2:
        assert moments.max() > 0.6 * n


@pytest.mark.parametrize("c", [0.05, 0.5, 2.0, 8.0])
def test_moment_of_catoni(c: float) -> None:
    """E exp(n phi - c k) = 1 for phi = -ln(1 - p (1 - exp(-c))): nothing above phi would do."""
    n = 25
    k = np.arange(n + 1)
    phi = -np.log1p(P * np.expm1(-c))
    weights = binom.pmf(k, n, P)
    moments = (weights * np.exp(n * phi - c * k)).sum(axis=1)
    np.testing.assert_allclose(moments, 1.0, rtol=1e-9)
    lowered = (weights * np.exp(n * phi * 1.01 - c * k)).sum(axis=1)
    assert lowered.max() > 1.0


@pytest.mark.parametrize("lam", [0.1, 0.5, 1.0])
def test_moment_of_the_variance_form(lam: float) -> None:
    """E exp(lam (p - X) - (e - 2) lam^2 p (1 - p)) <= 1 for lam up to 1, and e - 2 is needed."""
    p = np.linspace(1e-6, 1 - 1e-6, 20_001)

    def worst(constant: float) -> float:
        moment = p * np.exp(lam * (p - 1)) + (1 - p) * np.exp(lam * p)
        return float((moment * np.exp(-constant * lam**2 * p * (1 - p))).max())

    assert worst(np.e - 2) <= 1 + 1e-12
    if lam == 1.0:
        assert worst(np.e - 2.05) > 1 + 1e-9


@pytest.mark.parametrize("n", [2, 5, 20, 60])
def test_variance_step_of_the_variance_form(n: int) -> None:
    """E exp(a n (s^2 - V) - a^2 n^2 s^2 / (2 (n - 1))) <= 1 for the sample variance V of coins."""
    k = np.arange(n + 1)
    sample = k * (n - k) / (n * (n - 1))
    weights, true = binom.pmf(k, n, P), P * (1 - P)

    def worst(constant: float) -> float:
        largest = 0.0
        for a in np.geomspace(0.01, 2.0, 25) * (n - 1) / n:
            exponent = a * n * (true - sample) - a**2 * n**2 * true / (constant * (n - 1))
            largest = max(largest, float((weights * np.exp(exponent)).sum(axis=1).max()))
        return largest

    assert worst(2.0) <= 1 + 1e-12
    assert worst(8.0) > 1 + 1e-9
