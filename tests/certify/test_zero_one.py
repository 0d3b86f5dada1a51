"""Scores declared to be 0 or 1: exact counts, at every door that takes rules by name."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from latecomer.bounds import clopper_pearson, kl, pool_fraction
from latecomer.errors import InputError
from latecomer.eval import certify_losses, certify_shifted
from latecomer.eval.routes.scored_clients import Scored, certify_scores
from latecomer.eval.scoring.scores import ClientScore

TEN = {f"c{i}": float(i < 10) for i in range(100)}


def test_ten_of_a_hundred_hopeless_clients() -> None:
    found = certify_losses(TEN, rule="zero_one").certificate
    assert found is not None
    assert round(float(found), 3) == 0.164
    assert float(found) == float(clopper_pearson(n_errors=10, n_samples=100, delta=0.05))
    assert (found.population, found.sampling) == ("unseen-client", "iid")
    assert {event: float(share) for event, share in found.delta.items()} == {"clients": 0.05}
    mixed = certify_losses(TEN, rule="product_mixture").certificate
    assert mixed is not None
    assert float(mixed) > float(found) + 0.02
    pooled = certify_losses(TEN, rule="zero_one", pool_size=150)
    exact = pool_fraction(n_exceeding=10, n_sampled=100, pool_size=150, delta=0.05)
    assert pooled.certificate is not None
    assert float(pooled.certificate) == float(exact)
    assert any("as measured" in text for text in pooled.certificate.assumptions)
    assert pooled.others == pytest.approx((150 * float(exact) - 10) / 50)
    scaled = certify_losses({c: 4 * v for c, v in TEN.items()}, rule="zero_one", loss_max=4.0)
    assert scaled.certificate is not None
    assert float(scaled.certificate) == pytest.approx(4 * float(found))


def test_other_scores_are_refused_however_few() -> None:
    with pytest.raises(InputError, match=r"losses must be 0 or 1 .* got 0\.5") as caught:
        certify_losses({**TEN, "half": 0.5}, rule="zero_one")
    assert "\n" not in str(caught.value)
    scores = [ClientScore(i, 5, 2, int(i == 0), 0.3) for i in range(20)]
    with pytest.raises(InputError, match="rule zero_one"):
        certify_scores(Scored(scores, "iid", None, "deterministic"), rule="zero_one", level=0.05)


def test_scores_of_studies_by_count() -> None:
    scores = [ClientScore(i, 5, 1, int(i < 3), 0.3) for i in range(30)]
    iid = Scored(scores, "iid", None, "deterministic")
    found = certify_scores(iid, rule="zero_one", level=0.05)
    assert float(found) == float(clopper_pearson(n_errors=3, n_samples=30, delta=0.05))
    pool = Scored(scores, "finite-pool", 50, "deterministic")
    exact = pool_fraction(n_exceeding=3, n_sampled=30, pool_size=50, delta=0.05)
    assert float(certify_scores(pool, rule="zero_one", level=0.05)) == float(exact)


RADII = {"kl": 0.1, "tv": 0.1, "chi2": 0.3, "subgroup": 0.3}


@pytest.mark.parametrize("ball", RADII)
def test_balls_of_0_1_scores_are_the_worst_law_at_the_bound(ball: str) -> None:
    """One event covers every radius, no shift among them: the share of ones is below its limit."""
    none = 1.0 if ball == "subgroup" else 0.0
    asked: dict[str, Any] = {"ball": ball, "rule": "zero_one", "target": 0.5}
    found = certify_shifted(TEN, radii=[none, RADII[ball]], **asked)
    p = float(certify_losses(TEN, rule="zero_one").certificate)  # type: ignore[arg-type]
    start, value = found.certificate.value
    assert start == p
    radius = RADII[ball]
    worst = {
        "tv": p + radius,
        "chi2": p + np.sqrt(radius * p * (1 - p)),
        "subgroup": p / radius,
    }
    if ball == "kl":
        assert radius <= float(kl(q=value, p=p)) < radius + 1e-4
    else:
        assert worst[ball] <= value < worst[ball] + 1e-4
    assert found.certificate.sampling == "iid"
    at = certify_shifted(TEN, radii=[found.breaking], **asked)
    assert at.certificate.value[0] == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("k", [5, 17, 40])
def test_coverage_is_exact_and_one_client_less_fails(k: int) -> None:
    """Over all binomial worlds; the twin leaves out the first client who is served badly."""
    limits = [
        float(certify_losses([1.0] * n + [0.0] * (k - n), rule="zero_one").certificate)  # type: ignore[arg-type]
        for n in range(k + 1)
    ]
    worlds = np.linspace(0.001, 0.999, 400)
    n = np.arange(k + 1)
    chance = binom.pmf(n, k, worlds[:, None])
    failed = (chance * (np.array(limits) < worlds[:, None])).sum(axis=1)
    assert failed.max() <= 0.05 + 1e-12
    fewer = np.array([limits[max(0, count - 1)] for count in n])
    assert (chance * (fewer < worlds[:, None])).sum(axis=1).max() > 0.05
