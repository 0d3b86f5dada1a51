"""How often sets miss in worlds of clients, at the doors' defaults; what pooling costs.

A world draws clients who hold 2 to 50 points; a score stands for 1 - p of the true label, so that
the miss rate of fresh clients at a threshold is known exactly.
"""

import numpy as np
import pytest
from scipy.stats import binom

from latecomer.certify.predicted_sets import LABEL_SCORES, label_sets
from latecomer.eval.routes.kinds.sets import SetsOfLabels
from latecomer.eval.routes.set_thresholds import thresholds_of

DEFAULTS = SetsOfLabels(route="sets")
TRIALS = 120
KINDS = ("alike", "different", "hopeless")


def clients_of(rng, kind, k):
    """Scores of k clients in [0, 1]: alike, each at a level of its own, or 5% missed for ever."""
    for size in rng.integers(2, 51, k):
        own = rng.random(size)
        if kind == "different":
            yield 0.9 * rng.random() + 0.1 * own
        else:
            hopeless = kind == "hopeless" and rng.random() < 0.05
            yield 0.95 + 0.05 * own if hopeless else 0.9 * own


def missed(kind, t):
    """Miss rate of fresh clients' points at a threshold, exactly."""
    if kind == "different":  # a trapezium: .9 of one uniform number and .1 of another
        grid = (np.arange(2000) + 0.5) / 2000
        return float(np.clip(1 - (t - 0.1 * grid) / 0.9, 0, 1).mean())
    share = 0.05 if kind == "hopeless" else 0.0
    return float(share * np.clip((1 - t) / 0.05, 0, 1) + (1 - share) * np.clip(1 - t / 0.9, 0, 1))


def simulated(kind, k):
    """Miss rates of fresh clients by each form of threshold, one for each of `TRIALS` worlds."""
    rng = np.random.default_rng([11, k, KINDS.index(kind)])
    rates = {"": [], "@confident": [], "@pooled": []}
    for _ in range(TRIALS):
        made = thresholds_of(
            list(clients_of(rng, kind, k)),
            score="probability",
            alpha=DEFAULTS.alpha,
            delta=DEFAULTS.delta,
        )
        for form, issued in made.issued.items():
            rates[form].append(missed(kind, float(issued)))
    return {form: np.array(found) for form, found in rates.items()}


@pytest.mark.nightly
@pytest.mark.theory
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [10, 20, 50])
def test_sets_hold_what_they_promise(kind, k):
    found = simulated(kind, k)
    error = found[""].std(ddof=1) / np.sqrt(TRIALS)
    assert found[""].mean() <= DEFAULTS.alpha + 2 * error
    failed = (found["@confident"] > DEFAULTS.alpha).sum()
    assert failed <= binom.isf(1e-4, TRIALS, DEFAULTS.delta)
    if kind == "different":
        # Points of one client are no fresh clients: pooling misses more than it says.
        spread = found["@pooled"].std(ddof=1) / np.sqrt(TRIALS)
        assert found["@pooled"].mean() - found[""].mean() > 4 * (spread + error) / 2
        assert found["@pooled"].mean() > DEFAULTS.alpha


@pytest.mark.parametrize("k", [9, 20, 57])
def test_clients_of_one_point_get_the_threshold_of_split_conformal_prediction(k):
    """The ceil((n + 1)(1 - alpha))-th smallest score, as published.

    Numpy's quantile ``higher`` at that rank over n is the same or one rank up.
    """
    rng = np.random.default_rng(k)
    chance = rng.random(k)
    points = [{"client": i, "label": 1, "p_0": 1 - p, "p_1": p} for i, p in enumerate(chance)]
    rank = int(np.ceil((k + 1) * 0.9))
    scores = 1 - np.array([p["p_1"] for p in points])
    published = float(np.sort(scores)[rank - 1])
    higher = float(np.quantile(scores, rank / k, method="higher"))
    assert higher in np.sort(scores)[rank - 1 : rank + 1]
    assert label_sets(points, alpha=0.1).threshold == published
    both = LABEL_SCORES["probability"].of(np.stack([1 - chance, chance], axis=1))[:, 1]
    made = thresholds_of([[one] for one in both], score="probability", alpha=0.1, delta=0.05)
    assert float(made.issued[""]) == float(made.issued["@pooled"]) == published
