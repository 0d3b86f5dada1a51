"""Coverage of the calculators behind R2, R3 and R5 in nearly tight worlds, with broken twins."""

import numpy as np
import pytest
from routed import limit

from latecomer.bounds import (
    kl_inverse_upper,
    occam_product,
    personal_prior_pooled,
    product,
    two_step_fixed,
)
from latecomer.bounds.certificate import Array
from latecomer.eval.routes.kinds.r3 import cut_support

pytestmark = pytest.mark.theory

DELTA, TRIALS, A_HAIR = 0.05, 4000, 1e-9
# So many samples that what the inner inversion adds is next to nothing.
MANY = 10**9


def pooled(errors: Array, n_priors: int) -> Array:
    """R3's bound of the mean over clients, every B so large that it shows their risks."""
    return personal_prior_pooled(
        empirical_risk=errors,
        squared_distances=[0.0] * 30,
        alpha=1.0,
        n_samples=MANY,
        delta=DELTA,
        client_share=0.9,
        n_priors=n_priors,
    ).value


def pooled_before(errors: Array, n_priors: int) -> Array:
    """As it was: the union over variances inside alone."""
    return kl_inverse_upper(errors, -np.log(0.9 * DELTA) / 30)


def failures(rule: object, n_priors: int, seed: int) -> int:
    """Clients' risks are 0 or 1, independent between variances; the best variance is taken.

    The share of 1 is the largest that the rule denies on thirty zeros.
    """
    assert callable(rule)
    rng = np.random.default_rng(seed)
    truth = float(rule(np.zeros(1), n_priors)[0]) + 1e-6
    errors = (rng.random((TRIALS, n_priors, 30)) < truth).mean(axis=2)
    return int((rule(errors.min(axis=1), n_priors) < truth).sum())


@pytest.mark.parametrize("n_priors", [1, 3, 10, 30])
def test_r3_pays_for_its_variances_in_both_steps(n_priors: int) -> None:
    holds, before = failures(pooled, n_priors, 61), failures(pooled_before, n_priors, 61)
    print(f"J={n_priors}: {holds / TRIALS:.4f} now, {before / TRIALS:.4f} before")
    assert 0.7 * DELTA * TRIALS <= holds <= limit(TRIALS, DELTA)
    assert (before > limit(TRIALS, DELTA)) == (n_priors > 1)


@pytest.mark.thinned
@pytest.mark.parametrize("by_class", [True, False])
@pytest.mark.parametrize("k", [300, 600])
def test_r3_needs_halves_that_do_not_tell_of_each_other(k: int, by_class: bool) -> None:
    """Support of two and two of two classes, half of it measured; predict what the rest lacks.

    Every client's true error is one half.  Cut at random, one client in three has its two other
    points of one class, predicts the other and is right on both.  Cut class by class nothing is
    to be learnt.
    """
    rng, trials = np.random.default_rng(62), 150
    labels, failed = np.array([0, 0, 1, 1]), 0
    for _ in range(trials):
        wrong = np.empty(k)
        for client in range(k):
            kept, held = cut_support(labels, 2, 2 if by_class else None, rng)
            missing = int(labels[kept].sum() < 1)
            wrong[client] = (labels[held] != missing).mean()
        issued = personal_prior_pooled(
            empirical_risk=wrong.mean(),
            squared_distances=[0.0] * k,
            alpha=1.0,
            n_samples=2,
            delta=DELTA,
        )
        failed += float(issued) < 0.5
    print(f"k={k}, cut {'by class' if by_class else 'at random'}: {failed / trials:.3f} failed")
    assert (failed <= limit(trials, DELTA)) == by_class


def test_two_step_fixed_is_nearly_tight() -> None:
    """Systems are right or wrong on whole clients, thirty of them, with many samples each."""
    rng = np.random.default_rng(63)

    def bound(errors: Array) -> Array:
        return two_step_fixed(
            empirical_risk=errors, sum_kl=0.0, sizes=[MANY] * 30, delta=DELTA, client_share=0.9
        ).value

    truth = float(bound(np.zeros(1))[0]) + 1e-6
    errors = (rng.random((TRIALS, 30)) < truth).mean(axis=1)
    failed = int((bound(errors) < truth).sum())
    print(f"two_step_fixed: {failed / TRIALS:.4f} failed")
    assert 0.8 * DELTA * TRIALS <= failed <= limit(TRIALS, DELTA)
    # The twin: a law chosen among ten by these clients' scores, and nothing paid for the choice.
    chosen = (rng.random((TRIALS, 10, 30)) < truth).mean(axis=2).min(axis=1)
    assert (bound(chosen) < truth).sum() > limit(TRIALS, DELTA)


def test_occam_product_is_nearly_tight_over_all_words_of_three_bits() -> None:
    """Eight words, whose clients are perfect or hopeless by themselves; the best is taken."""
    rng, k, bits = np.random.default_rng(64), 40, 3
    given = {"bits": bits, "delta": DELTA}
    truth = float(occam_product(losses=np.zeros(k), **given)) + A_HAIR
    hopeless = rng.random((TRIALS, 2**bits, k)) < truth
    values = occam_product(losses=hopeless.astype(np.float64), **given).value.min(axis=1)
    failed = int((values < truth).sum())
    print(f"occam_product: {failed / TRIALS:.4f} failed")
    assert 0.8 * DELTA * TRIALS <= failed <= limit(TRIALS, DELTA)
    # The twin forgets the bits: the product rule of the best word.
    forgotten = float(product(losses=np.zeros(k), delta=DELTA)) + A_HAIR
    clean = rng.random((TRIALS, 2**bits, k)) < forgotten
    twin = product(losses=clean.astype(np.float64), delta=DELTA).value.min(axis=1)
    assert (twin < forgotten).sum() > limit(TRIALS, DELTA)
