"""What certificates say: every kind names four things, and all sentences stand side by side."""

from pathlib import Path
from runpy import run_path

import pytest

from latecomer.certify.rule import MEAN_RULES, RULES, rules_for
from latecomer.certify.sentences import FILE
from latecomer.eval.names import parts_of, statement

TESTS = Path(__file__).parents[1]
GOLDEN = TESTS / "golden" / "statements.txt"
EVERY_KIND = TESTS.parent / "docs" / "building" / "every_kind.py"
KINDS = dict(run_path(str(EVERY_KIND))["examples"]())
ORDERED = {name for name, rule in RULES.items() if rule.ordered or rule.orders} | {"best_of"}
OVER = (
    *("choice of these 30 clients", "random order of these 30 clients", "the next one together"),
    "choice of all clients who ever arrive",
)
WHOSE = ("clients", "the next client")
SERVED = ("served by", "a checkpoint drawn uniformly")
MEANT = ("as measured on", "expected errors", "expected losses")


@pytest.mark.parametrize("name", KINDS)
def test_a_sentence_names_chance_population_predictor_and_scores(name):
    parts, said = parts_of(KINDS[name]), statement(KINDS[name])
    for part, words in (
        (parts.over, OVER),
        (parts.population, WHOSE),
        (parts.predictor, SERVED),
        (parts.scores, MEANT),
    ):
        assert part in said
        assert any(word in part for word in words), part
    assert "ith probability at least 9" in said
    assert "25.0%" in said
    assert "\n" not in said
    assert "  " not in said


@pytest.mark.parametrize("name", KINDS)
def test_what_is_random_in_the_rule_or_the_predictor_is_named(name):
    one = KINDS[name]
    rule = one["bound"].split(":")[1].split("@")[0]
    over = parts_of(one).over
    if "next" not in over:
        assert ("order" in over) == (
            rule in ORDERED or (one["bound"] == "r4:product" and not one["independent"])
        )
        assert ("draws of" in over) == (one["predictor"] == "gibbs")


@pytest.mark.parametrize("name", [name for name in KINDS if "finite pool" in name])
def test_a_pool_certificate_says_on_whose_points_errors_are_meant(name):
    one = KINDS[name]
    said, rule = statement(one), one["bound"].split(":")[1].split("@")[0]
    route = one["bound"].split(":")[0]
    if route in ("r0", "r1", "r4", "r5") and rule != "conformal":
        assert "as measured on these clients' own points" in said
    if route == "r0" and rule in MEAN_RULES:
        assert ("expected errors" in said) == (not RULES[rule].realised)
        assert "For the 10 clients of them that were not scored" in said
        assert ("with the draws made" in said) == RULES[rule].realised


def test_every_rule_of_held_out_clients_has_a_sentence():
    told = {one["bound"].split(":")[1].split("@")[0] for one in KINDS.values()}
    assert set(rules_for("r0")) <= told


def test_checkpoints_are_averaged_and_none_is_certified_by_itself():
    for name in ("r4:product, finite pool", "r4:product, independent clients"):
        said = statement(KINDS[name])
        assert "the mean over the checkpoints that scored" in said
        assert "over that draw as well" in said
        assert "nothing about the last checkpoint" in said
    assert "not trained on by then" not in statement(KINDS["r4:product, independent clients"])


def test_routes_on_an_environment_name_the_finite_law_and_the_overlap():
    for bound in ("r1:product", "r4:product", "r5:occam"):
        said = statement(KINDS[f"{bound}, independent clients"])
        assert "drawn from the finite set laid aside" in said
        assert "18.0% of the query samples of the new clients" in said


def test_what_is_no_proof_says_so_and_why():
    one = KINDS["r0:product_wor, finite pool, deterministic"]
    said = statement(one | {"rigorous": False, "reason": "declared after the scores existed"})
    assert said.startswith("Not a proof here: with probability")
    assert "The reason: declared after the scores existed." in said
    published = {"bound": "pefll_32", "population": "seen-clients", "sampling": "iid",
                 "predictor": "gibbs", "rigorous": False, "reason": "x", "value": 3.0,
                 "delta": 0.05, "n_clients": 9}  # fmt: skip
    assert statement(published).startswith("As published: with probability at least 95%, the mean")
    assert "randomness is drawn anew" in statement(published)
    assert "population not stated" in statement(published | {"population": ""})


def test_clients_outside_the_split_and_shifts_are_named():
    one = KINDS["r0:product, finite pool, deterministic"]
    assert "3 clients left out of the split" in statement(one | {"left_out": 3.0})
    assert ", under blur 1," in statement(one | {"shift": "blur", "severity": 1.0})
    assert "at most the value below" in statement(one, "the value below")


def test_a_threshold_is_told_in_all_of_its_digits():
    one = KINDS["r0:fraction_above@0.2, finite pool, deterministic"]
    said = statement(one | {"bound": "r0:fraction_above@0.125"})
    assert "whose error is above 12.5%," in said, "of 12% more clients have a larger error"


def test_a_file_of_losses_speaks_of_losses_and_of_its_own_order():
    for one in (one for one in KINDS.values() if one["bound"].startswith(FILE)):
        said = statement(one)
        assert "loss" in said
        assert "error" not in said
        assert "their order" not in said, "a table tells no order of drawing"


def test_all_sentences_side_by_side():
    told = "".join(f"{name}\n    {statement(one)}\n" for name, one in KINDS.items())
    assert told == GOLDEN.read_text("utf-8"), "read the changed sentences, then write them anew"
