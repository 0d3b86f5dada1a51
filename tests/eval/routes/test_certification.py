from dataclasses import replace

import numpy as np
import pytest

from latecomer.bounds import CATALOGUE
from latecomer.bounds.held_out.betting import wsr_wor
from latecomer.bounds.held_out.losses import product
from latecomer.certify.rule import MEAN_RULES, RULES, rules_for
from latecomer.certify.statements import left_for_others
from latecomer.errors import InputError
from latecomer.eval.results.rows import make_row
from latecomer.eval.routes.contract import (
    certificate_facts,
    certificate_rows,
    pool_rows,
    price_rows,
)
from latecomer.eval.routes.scored_clients import Scored, certify_best, certify_scores
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.splits.registry import sampling_of

SCORES = [ClientScore(i, 15 + i % 2, 10, i % 3, 0.2) for i in range(20)]
LOSSES = [s.error for s in SCORES]


def scored(scores=SCORES, sampling="finite-pool", pool_size=30, **changes) -> Scored:
    return Scored(scores, sampling, pool_size, "deterministic", **changes)


DRAWN = Scored(SCORES, "finite-pool", 30, "gibbs")
INDEPENDENT = scored(sampling="iid", pool_size=None)


def test_product_certificate_is_the_calculators_value_with_its_tags() -> None:
    found = certify_scores(scored(), rule="product", level=0.05)
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
    found = certify_scores(scored(), rule="wsr_wor", level=0.05)
    assert float(found) == float(wsr_wor(losses=LOSSES, delta=0.05, pool_size=30))


def test_averages_are_over_fixed_permutations_of_the_order_of_the_split() -> None:
    turned = scored(SCORES[::-1])
    for rule, given, other in (
        ("product_wor_averaged", scored(), turned),
        ("betting_wor_averaged", scored(), turned),
        ("wsr_averaged", INDEPENDENT, scored(SCORES[::-1], "iid", None)),
    ):
        found = certify_scores(given, rule=rule, level=0.05)
        assert float(found) == float(certify_scores(given, rule=rule, level=0.05))
        # Adaptive bets on these scores are all 1, and then no order shows.
        turned_found = certify_scores(other, rule=rule, level=0.05)
        assert float(found) != float(turned_found) or rule == "wsr_averaged"
        calculator, pool = CATALOGUE[rule].function, {"pool_size": given.pool_size}
        asked = {"losses": LOSSES, "delta": 0.05, **(pool if given.pool_size else {})}
        assert float(found) == float(calculator(**asked, seed=0, in_order=True))
        again = certify_scores(replace(given, orders_seed=1), rule=rule, level=0.05)
        assert float(again) != float(found) or rule == "wsr_averaged"
        assert any("drawn by seed 1" in text for text in again.assumptions)
    along = certify_scores(scored(), rule="product_wor", level=0.05)
    assert float(along) != float(certify_scores(turned, rule="product_wor", level=0.05))


def test_scores_as_measured_are_named_in_a_pool_and_draws_where_asked() -> None:
    """Draws are named whatever serves: fine-tuning and privacy draw as well as a posterior."""
    meant = "errors are meant as measured on these clients' own points"
    for rule, said in (
        ("product", f"{meant}; expected errors are covered too"),
        ("product_wor", f"{meant}, with the draws made"),
    ):
        found = certify_scores(scored(), rule=rule, level=0.05)
        assert said in found.assumptions
    drawn = certify_scores(replace(DRAWN, realised=True), rule="product_wor", level=0.05)
    assert any(text.endswith("own points, with the draws made") for text in drawn.assumptions)
    assert float(certify_scores(DRAWN, rule="product", level=0.05)) > 0, "covers both readings"


def test_clients_too_small_for_the_split_are_named() -> None:
    found = certify_scores(scored(left_out=7), rule="product", level=0.05)
    assert any("the 7 clients left out of the split" in text for text in found.assumptions)


def test_every_rule_but_the_quantile_is_about_unseen_clients() -> None:
    for rule in rules_for("r0").values():
        if rule.bound is None:
            continue
        for given in (scored(), INDEPENDENT):
            if rule.finite_pool if given.sampling == "finite-pool" else rule.iid:
                found = certify_scores(given, rule=rule.name, level=0.2)
                expected = "next-client" if rule.name == "conformal" else "unseen-client"
                assert found.population == expected
                assert found.sampling == given.sampling
                assert float(found.delta_total) == pytest.approx(0.2)
                assert "samples" not in found.delta, "clients were drawn, not samples"


def test_conformal_is_about_the_next_client() -> None:
    found = certify_scores(scored(), rule="conformal", level=0.1)
    assert found.population == "next-client"
    assert not any("the mean is over" in text for text in found.assumptions)
    assert float(found) == sorted(LOSSES)[int(np.ceil(0.9 * 21)) - 1]


@pytest.mark.parametrize(
    ("given", "rule", "message"),
    [
        (scored(), "wsr_averaged", "a finite pool; leave the rule out"),
        (scored(), "emp_bernstein", "a finite pool; leave the rule out"),
        (INDEPENDENT, "wsr_wor", "for finite pools"),
        (INDEPENDENT, "product_wor", "for finite pools"),
        (INDEPENDENT, "product_wor_averaged", "for finite pools"),
        (INDEPENDENT, "betting_wor", "for finite pools"),
        (DRAWN, "product_wor", "scores of a pool as measured, not about the expected errors"),
        (DRAWN, "product_wor_averaged", "say realised: true, or use product_mixture"),
        (DRAWN, "wsr_wor", "say realised: true, or use product"),
        (DRAWN, "betting_wor", "say realised: true, or use product"),
        (scored(SCORES[:1], "iid", None), "emp_bernstein", "at least 2 clients, got 1"),
        (scored(), "prodct", "did you mean 'product'"),
        (scored(), "fraction_above", "rule must be one of product"),
        (scored(pool_size=29), "product", "at least 10 clients .* 20 held-out clients"),
        (scored(pool_size=20), "conformal", "neither trained on nor certified"),
        (scored(pool_size=None), "product", "neither trained on nor certified"),
    ],
)
def test_a_rule_whose_proof_does_not_cover_the_case_is_refused(given, rule, message):
    with pytest.raises(InputError, match=message) as caught:
        certify_scores(given, rule=rule, level=0.05)
    assert "\n" not in str(caught.value)


def test_what_the_certificate_is_about_is_said() -> None:
    found = certify_scores(scored(folds=5, shift="blur"), rule="product", level=0.05)
    assert any("5 folds of a client's own points" in text for text in found.assumptions)
    assert any("under blur, support and query alike" in text for text in found.assumptions)


def test_the_best_of_several_certificates_pays_for_the_choice() -> None:
    rules = ["product", "wsr_wor", "chernoff_kl"]
    found = certify_best(scored(), rules=rules, delta=0.06)
    each = [float(certify_scores(scored(), rule=rule, level=0.02)) for rule in rules]
    assert float(found) == min(each)
    assert sorted(found.delta) == [f"clients, {rule}" for rule in sorted(rules)]
    assert [float(share) for share in found.delta.values()] == pytest.approx([0.02] * 3)
    assert float(found.delta_total) == pytest.approx(0.06)
    free = min(float(certify_scores(scored(), rule=rule, level=0.06)) for rule in rules)
    assert float(found) > free, "a choice after the fact is not free"
    assert any("the smallest of 3 certificates" in text for text in found.assumptions)


@pytest.mark.parametrize("rules", [["product"], ["product", "product"], ["product", "conformal"]])
def test_the_best_of_what_is_no_choice_is_refused(rules: list[str]) -> None:
    with pytest.raises(InputError, match="two or more different ones of product"):
        certify_best(scored(), rules=rules, delta=0.05)


def test_rows_hold_the_total_and_terms_that_add_up() -> None:
    found = certify_scores(scored(), rule="product", level=0.05)
    rows = certificate_rows(found, bound="r0:product", common={"group": "certification"})
    for row in rows:
        make_row(**row)
    total = [row["value"] for row in rows if row["term"] == ""]
    terms = [row["value"] for row in rows if row["term"]]
    assert total == [float(found)]
    assert sum(terms) == pytest.approx(total[0], abs=1e-12)
    assert all(row["rigorous"] is True for row in rows)


def test_the_price_stands_beside_what_no_rule_can_undercut() -> None:
    even = [ClientScore(i, 15, 10, 1, 0.2) for i in range(30)]
    found = certify_scores(scored(even, pool_size=40), rule="product", level=0.05)
    common = {"group": "certification", "n_clients": 30}
    rows = price_rows(found, bound="r0:product", common=common, pool_size=40)
    for row in rows:
        make_row(**row)
    price = {row["term"]: row["value"] for row in rows}
    assert price["reference"] == pytest.approx((1 - 0.05 ** (1 / 30)) * 0.9)
    assert price["paid"] == pytest.approx(price["reference"]), "equal scores: nothing to gain"
    # Two of 40 clients stay unseen with probability 10 * 9 / (40 * 39) > 5%, three do not.
    assert price["reference_pool"] == 2 / 40
    independent = price_rows(found, bound="r0:product", common=common, pool_size=None)
    assert {row["term"] for row in independent} == {"paid", "reference"}


def test_what_a_pool_leaves_for_the_clients_that_were_not_scored() -> None:
    found = certify_scores(scored(), rule="product_wor", level=0.05)
    about = {"mean": float(np.mean(LOSSES)), "common": {"n_clients": 20}, "pool_size": 30}
    rows = pool_rows(found, bound="r0:product_wor", **about, left_out=2)
    for row in rows:
        make_row(**row)
    told = {row["term"]: row["value"] for row in rows}
    assert told["others"] == pytest.approx((30 * float(found) - sum(LOSSES)) / 10)
    assert 10 * told["others"] + sum(LOSSES) >= 30 * float(found), "rounded up"
    assert (told["size"], told["left_out"]) == (30.0, 2.0)
    assert left_for_others(bound=0.9, mean=0.0, n_clients=30, pool_size=40) == 1.0
    # A pool's bound that is the mean of what was scored leaves nothing.
    assert left_for_others(bound=0.0, mean=0.0, n_clients=30, pool_size=40) == pytest.approx(0)
    without = pool_rows(found, bound="r0:product_wor", **about)
    assert {row["term"] for row in without} == {"others", "size"}


def test_facts_state_ledger_assumptions_and_inputs() -> None:
    found = certify_scores(scored(), rule="product", level=0.05)
    facts = certificate_facts(found, bound="r0:product", inputs=[("n", 20.0, "counted")])
    kinds = {fact["kind"] for fact in facts}
    assert kinds == {"total", "term", "delta", "assumption", "input", "source"}
    assert sum(f["value"] for f in facts if f["kind"] == "delta") == pytest.approx(0.05)
    assert len({tuple(fact) for fact in facts}) == 1, "one table needs one set of columns"


def test_only_environment_splits_are_independent_draws() -> None:
    assert sampling_of("environment") == "iid"
    assert {sampling_of(kind) for kind in ("by_class", "dirichlet", "natural")} == {"finite-pool"}
    assert all(rule.finite_pool or rule.iid for rule in RULES.values())
    assert all(rule.bound is not None for rule in MEAN_RULES.values())
