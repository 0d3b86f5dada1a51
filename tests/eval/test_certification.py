import numpy as np
import pytest

from latecomer.bounds.holdout import product, wsr_wor
from latecomer.eval.certification import (
    RULES,
    certificate_facts,
    certificate_rows,
    certify_scores,
    sampling_of,
)
from latecomer.eval.errors import InputError
from latecomer.eval.metrics import ClientScore
from latecomer.eval.rows import make_row

SCORES = [ClientScore(i, 15 + i % 2, 10, i % 3, 0.2) for i in range(20)]
LOSSES = [s.error for s in SCORES]
POOL = {"sampling": "finite-pool", "pool_size": 30, "predictor": "deterministic"}


def test_product_certificate_is_the_calculators_value_with_its_tags() -> None:
    found = certify_scores(SCORES, rule="product", level=0.05, **POOL)
    assert float(found) == float(product(losses=LOSSES, delta=0.05))
    assert (found.population, found.sampling, found.predictor) == (
        "unseen-client",
        "finite-pool",
        "deterministic",
    )
    assert found.rigorous
    assert float(found.delta_total) == pytest.approx(0.05)
    assert any("15 to 16 support samples" in text for text in found.assumptions)
    assert any("30 clients not trained on" in text for text in found.assumptions)


def test_pool_size_reaches_the_rule_without_replacement() -> None:
    found = certify_scores(SCORES, rule="wsr_wor", level=0.05, **POOL)
    assert float(found) == float(wsr_wor(losses=LOSSES, delta=0.05, pool_size=30))


def test_every_rule_but_the_quantile_is_about_unseen_clients() -> None:
    for rule in RULES.values():
        if rule.finite_pool:
            found = certify_scores(SCORES, rule=rule.name, level=0.2, **POOL)
            expected = "next-client" if rule.name == "conformal" else "unseen-client"
            assert found.population == expected


def test_conformal_is_about_the_next_client() -> None:
    found = certify_scores(SCORES, rule="conformal", level=0.1, **POOL)
    assert found.population == "next-client"
    assert not any("the mean is over" in text for text in found.assumptions)
    assert float(found) == sorted(LOSSES)[int(np.ceil(0.9 * 21)) - 1]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rule": "wsr"}, "use wsr_wor"),
        ({"rule": "wsr_wor", "sampling": "iid"}, "for finite pools"),
        ({"rule": "prodct"}, "did you mean 'product'"),
        ({"pool_size": 20}, "neither trained on nor certified"),
        ({"pool_size": None}, "neither trained on nor certified"),
    ],
)
def test_a_rule_whose_proof_does_not_cover_the_case_is_refused(
    changed: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        certify_scores(SCORES, **({"rule": "product", "level": 0.05, **POOL} | changed))


def test_rows_hold_the_total_and_terms_that_add_up() -> None:
    found = certify_scores(SCORES, rule="product", level=0.05, **POOL)
    rows = certificate_rows(found, bound="r0:product", common={"group": "certification"})
    for row in rows:
        make_row(**row)
    total = [row["value"] for row in rows if row["term"] == ""]
    terms = [row["value"] for row in rows if row["term"]]
    assert total == [float(found)]
    assert sum(terms) == pytest.approx(total[0], abs=1e-12)
    assert all(row["rigorous"] is True for row in rows)


def test_facts_state_ledger_assumptions_and_inputs() -> None:
    found = certify_scores(SCORES, rule="product", level=0.05, **POOL)
    facts = certificate_facts(found, bound="r0:product", inputs=[("n", 20.0, "counted")])
    kinds = {fact["kind"] for fact in facts}
    assert kinds == {"total", "term", "delta", "assumption", "input", "source"}
    assert sum(f["value"] for f in facts if f["kind"] == "delta") == pytest.approx(0.05)
    assert len({tuple(fact) for fact in facts}) == 1, "one table needs one set of columns"


def test_only_environment_splits_are_independent_draws() -> None:
    assert sampling_of("environment") == "iid"
    assert {sampling_of(kind) for kind in ("by_class", "dirichlet", "natural")} == {"finite-pool"}
    assert all(rule.finite_pool or rule.iid for rule in RULES.values())
