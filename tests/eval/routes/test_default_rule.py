"""The rule of held-out clients where none is named, and named ones that a client voids."""

from typing import Any

import pytest

from latecomer.bounds import blend, product_mixture
from latecomer.bounds.held_out.betting import BET_WEIGHTS
from latecomer.errors import InputError
from latecomer.eval.routes.kinds.r0 import HeldOut
from latecomer.eval.routes.r0_held_out import Drawn, issue_certificates
from latecomer.eval.scoring.scores import ClientScore, Condition
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import load_study

POOL = {"kind": "by_class", "clients": 60, "classes_per_client": 2, "certify": 20, "novel": 10}
FRESH = {**POOL, "kind": "environment", "held_out": 0.3}
WHOLE = Condition("none", None)
GIBBS = {"name": "pefll", "posterior": "gaussian"}


def study(*entries: dict, **changed: Any):
    given = {
        "study": "default",
        "data": {"name": "digits"},
        "split": POOL,
        "methods": ["fedavg"],
        "certificates": list(entries),
    }
    return parse_study({**given, **changed})


@pytest.mark.parametrize(
    ("changed", "rule", "seed"),
    [
        ({}, "blend", 0),
        ({"split": FRESH}, "blend", 0),
        ({"split": FRESH, "methods": [GIBBS]}, "blend", 0),
        ({"methods": ["fedavg", GIBBS]}, "product_mixture", None),
    ],
)
def test_the_default_covers_every_predictor(changed: dict, rule: str, seed: int | None) -> None:
    (entry,) = study({}, **changed).certificates
    assert (entry.rule, entry.orders_seed, entry.delta) == (rule, seed, 0.05)
    split, predictors = changed.get("split", POOL)["kind"], ("gibbs", "deterministic")
    if changed.get("methods"):
        entry.check_predictors("certificates.0", split, predictors)


def test_scores_as_drawn_are_asked_for_by_name() -> None:
    (entry,) = study({"realised": True}, methods=[GIBBS]).certificates
    assert entry.rule == "blend"
    with pytest.raises(InputError, match="realised: true, or use product_mixture"):
        study({"rule": "blend"}, methods=[GIBBS]).certificates[0].check_predictors(
            "certificates.0", "by_class", ["gibbs"]
        )


def test_a_bad_method_is_named_before_a_default_is_sought() -> None:
    with pytest.raises(InputError, match="no method is called 'fedavgg'"):
        study({}, methods=["fedavgg"])


@pytest.mark.parametrize(
    ("name", "rule"),
    [("quickstart", "blend"), ("certificates-published", "product_mixture")],
)
def test_shipped_studies_without_kept_cells_take_the_default(name: str, rule: str) -> None:
    assert load_study(name).certificates[0].rule == rule


@pytest.mark.parametrize("sampling", ["iid", "finite-pool"])
@pytest.mark.parametrize("predictor", ["deterministic", "gibbs"])
@pytest.mark.parametrize("in_order", [True, False])
def test_a_rule_that_a_client_voids_names_it_and_what_the_default_gives(
    sampling, predictor, in_order
):
    scores = [ClientScore(7 * i, 20, 10, 1, 0.3) for i in range(29)] + [
        ClientScore(5, 20, 10, 10, 2.0)
    ]
    drawn = Drawn(sampling, 60, in_order=in_order)
    entry = HeldOut(rule="product", delta=0.05)
    found = issue_certificates(entry, {predictor: {WHOLE: scores}}, drawn=drawn, classes="all")
    (told,) = [fact for fact in found.facts if "has the largest loss" in fact["text"]]
    losses = [score.error for score in scores]
    # Scores by clients' numbers, as rows list natural ones, stand in no order that a draw made.
    if not in_order or (predictor == "gibbs" and sampling == "finite-pool"):
        default = product_mixture(losses=losses, delta=0.05, weights=BET_WEIGHTS)
    else:
        pool = None if sampling == "iid" else 60
        default = blend(losses=losses, delta=0.05, pool_size=pool, seed=0, in_order=True)
    assert told["text"].startswith("Client '5' has the largest loss, with which rule product")
    assert told["value"] == float(default) < 1
    survived = HeldOut(rule="product_mixture", delta=0.05)
    for rule, each in ((entry, scores[:-1]), (survived, scores)):
        quiet = issue_certificates(rule, {predictor: {WHOLE: each}}, drawn=drawn, classes="all")
        assert not any("largest loss" in fact["text"] for fact in quiet.facts)
