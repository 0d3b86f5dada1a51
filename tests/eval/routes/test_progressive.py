"""Route R4 on digits: order of events, what the certificate is made of, what it may not see."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from routed import errors_of, facts_of, outcome_of, spoilt, told, total_of

from latecomer.bounds.held_out.losses import product
from latecomer.certify.rule import rules_for
from latecomer.errors import InputError
from latecomer.eval.routes import arrivals
from latecomer.eval.routes.kinds.r4 import Progressive
from latecomer.eval.routes.r4_cell import evaluate_progressive
from latecomer.eval.routes.r4_progressive import (
    Plan,
    certify_progress,
    score_then_train,
)
from latecomer.eval.routes.registry import read_cell
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training import setup

FIRST, CLIENTS = 6, 8
CELL = yaml.safe_load("""
study: tiny
kind: progressive
data: {name: digits}
split: {kind: by_class, clients: 24, certify: 0, novel: 10, seed: 0, query: .25, validation: 0.0,
  reserve: 0.0, classes_per_client: 2}
model: {hypernetwork: {hidden: 1, width: 20}}
method: {name: pefll, label: pefll, server_lr: .002, local_lr: .05}
train: {rounds: 3, cohort: 3, local_steps: 3, batch_size: 8}
evaluation: {classes: known}
shifts: {}
bounds: []
seed: 0
certificates: [{route: r4, rule: product, delta: .05, first: 6, clients: 8, block: 1,
  rounds_per_block: 1}]
""")
SPLIT, (WANTED,) = CELL["split"], CELL["certificates"]


def config(**changed: Any) -> dict[str, Any]:
    return CELL | changed


@pytest.fixture(scope="module")
def found() -> tuple[pd.DataFrame, dict[str, Any]]:
    return outcome_of(config())


def test_a_block_is_scored_before_it_is_trained_on() -> None:
    events: list[tuple[str, int]] = []

    def score(state: int, block: int) -> int:
        events.append(("score", block))
        return state

    def train(state: int, block: int) -> int:
        events.append(("train", block))
        return state + 1

    found = list(score_then_train(0, [1, 2], score, train))
    assert events == [("score", 1), ("train", 1), ("score", 2), ("train", 2)]
    assert found == [(0, 0), (1, 1), (2, None)]


def test_the_certificate_is_made_from_the_arriving_clients_scores_alone(found: Any) -> None:
    rows, artifacts = found
    scores = errors_of(rows, "arriving").value.tolist()
    assert len(scores) == CLIENTS
    total = total_of(rows)
    assert total.value.tolist() == [float(product(losses=scores, delta=0.05))]
    assert total.bound.tolist() == ["r4:product"]
    assert total.predictor.tolist() == ["random-checkpoint"]
    assert total.sampling.tolist() == ["martingale"]
    assert total.population.tolist() == ["unseen-client"]
    assert total.n_clients.tolist() == [CLIENTS]
    assert facts_of(artifacts, "delta").sum() == pytest.approx(0.05)
    assert facts_of(artifacts, "input")["mean_error"] == pytest.approx(np.mean(scores))
    assert any("18 for the first and 11 for the last" in text for text in told(artifacts))


def test_the_random_checkpoint_and_the_last_one_are_told_apart(found: Any) -> None:
    rows, artifacts = found
    assert set(rows.predictor) == {"random-checkpoint", "last-checkpoint"}
    assert not (rows[rows.metric == "certificate"].predictor == "last-checkpoint").any()
    novel = errors_of(rows, "novel")
    assert novel.groupby("predictor").size().to_dict() == {
        "random-checkpoint": 10,
        "last-checkpoint": 10,
    }
    steps = pd.DataFrame(artifacts["checkpoints"].table)
    assert steps.n_trained.tolist() == list(range(FIRST, FIRST + CLIENTS))
    assert steps["round"].tolist() == list(range(3, 3 + CLIENTS))
    drawn = novel[novel.predictor == "random-checkpoint"].value.mean()
    assert steps.novel_error.mean() == pytest.approx(drawn)


SPOILT = {True: {"labels": lambda y: (y + 1) % 10}, False: {"inputs": 100.0}}
"""What becomes of labels, or of inputs."""


@pytest.mark.parametrize("labels", [True, False])
def test_a_client_moves_no_score_taken_before_its_own(found, monkeypatch, labels):
    clean = setup.federation_of(read_cell(config()))
    place = FIRST + 4
    moved = spoilt(clean, clean.split.seen[place : place + 1], **SPOILT[labels])
    monkeypatch.setattr(setup, "federation_of", lambda _: moved)
    rows, artifacts = outcome_of(config())
    before, after = (errors_of(one, "arriving").value.tolist() for one in (found[0], rows))
    assert after[:4] == before[:4]
    steps = [pd.DataFrame(a["checkpoints"].table).novel_error.tolist() for _, a in (found,)]
    steps.append(pd.DataFrame(artifacts["checkpoints"].table).novel_error.tolist())
    assert steps[0][:5] == steps[1][:5], "checkpoints up to its own score are the same"
    assert after[4:] != before[4:] or steps[0][5:] != steps[1][5:], "poison that does nothing"


def test_inputs_scaled_by_all_seen_clients_would_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = setup.federation_of(read_cell(config()))
    spoiled = spoilt(clean, clean.split.seen[FIRST + 4 : FIRST + 5], **SPOILT[False])
    plan = Progressive(**WANTED).plan(clean.split)
    kept = [arrivals.arrivals(f, plan)[0].mean for f in (clean, spoiled)]
    assert bool((kept[0] == kept[1]).all())
    wide = replace(plan, first=FIRST + 5, clients=2)
    moved = [arrivals.arrivals(f, wide)[0].mean for f in (clean, spoiled)]
    assert not bool((moved[0] == moved[1]).all())


def test_same_configuration_gives_the_same_rows(found: Any) -> None:
    pd.testing.assert_frame_equal(found[0], outcome_of(config())[0])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"block": 3}, "block must divide clients=8, got block=3"),
        ({"clients": 9}, r"at most the 14 seen clients, got 6 \+ 9"),
        ({"first": 2, "clients": 8, "block": 4}, "block must be at most first=2"),
    ],
)
def test_a_plan_that_the_split_cannot_have_is_refused(changed, message):
    federation = setup.federation_of(read_cell(config()))
    with pytest.raises(InputError, match=message):
        Progressive(**{**WANTED, **changed}).plan(federation.split)


def test_a_finite_pool_needs_clients_that_nobody_trains_on() -> None:
    federation = setup.federation_of(read_cell(config(split={**SPLIT, "novel": 5})))
    with pytest.raises(InputError, match="at least 10 clients that are neither"):
        Progressive(**{**WANTED, "clients": 13}).plan(federation.split)


def test_independent_clients_come_from_the_certification_group() -> None:
    split = {"kind": "environment", "clients": 24, "certify": 8, "novel": 4}
    split |= {"classes_per_client": 2, "samples_per_client": 24}
    given = config(split=split, certificates=[{**WANTED, "first": 12, "rule": "product_mixture"}])
    rows, artifacts = outcome_of(given)
    federation = setup.federation_of(read_cell(given))
    expected = {str(client.id) for client in federation.split.certification}
    own = errors_of(rows, "arriving")
    assert set(own.client.astype(str)) == expected
    said = "fresh, independent draws of one environment"
    assert any(said in text for text in told(artifacts))
    with pytest.raises(InputError, match="first must be all 12 seen clients"):
        Progressive(**{**WANTED, "first": 6}).plan(federation.split)


def test_folds_score_all_points_and_seeds_can_share_delta() -> None:
    wanted = {**WANTED, "folds": 3, "per_seed": "union", "n_seeds": 2}
    rows, artifacts = outcome_of(config(certificates=[wanted]))
    own = errors_of(rows, "arriving")
    clients = setup.federation_of(read_cell(config())).seen.clients
    points = (clients.support_sizes + clients.query_sizes)[FIRST : FIRST + CLIENTS]
    assert own.n_query.tolist() == points.tolist()
    total = total_of(rows)
    assert total.delta.tolist() == [0.025]
    said = "one of 2 certificates that hold at once"
    assert any(said in text for text in told(artifacts))
    study = parse_study({**STUDY, "certificates": [{**WANTED, "folds": 90}]})
    split = setup.federation_of(read_cell(config())).split
    with pytest.raises(InputError, match=r"folds must be at most the \d+ points"):
        study.certificates[0].check_split("certificates.0", split)


@pytest.mark.slow
def test_clients_with_state_of_their_own_can_join() -> None:
    own = {"name": "fedper", "label": "fedper", "local_lr": 0.05, "novel_steps": 4}
    wanted = {**WANTED, "block": 2, "rule": "progressive"}
    rows, _ = outcome_of(config(method=own, certificates=[wanted]))
    assert len(errors_of(rows, "arriving").value.tolist()) == CLIENTS
    refused = {"name": "pfl_nearest", "label": "n", "n_inputs": 100}
    federation = setup.federation_of(read_cell(config()))
    sizes = federation.seen.clients.support_sizes
    assert sizes[:FIRST].max() != sizes[FIRST:].max(), "a split on which tables must differ"
    with pytest.raises(InputError, match="pfl_nearest cannot take in a client"):
        evaluate_progressive(read_cell(config(method=refused)))


@pytest.mark.parametrize("rule", rules_for("r4"))
def test_every_rule_gives_a_bound_above_the_mean(rule: str) -> None:
    plan = Plan(first=5, clients=40, block=1, pool=60, independent=False)
    scores = [ClientScore(i, 9, 10, i % 3, 0.1) for i in range(40)]
    issued = certify_progress(scores, plan=plan, rule=rule, delta=0.05)
    assert np.mean([s.error for s in scores]) < float(issued) < 1
    assert sum(float(part) for part in issued.terms.values()) == pytest.approx(float(issued))
    with pytest.raises(ValueError, match="those of 40 clients, got 39"):
        certify_progress(scores[1:], plan=plan, rule=rule, delta=0.05)


STUDY = {
    "study": "small",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 24, "novel": 10, "classes_per_client": 2},
    "methods": ["fedavg", "pefll"],
    "train": {"rounds": 3, "cohort": 3},
}


def test_a_route_is_a_cell_of_its_own_and_leaves_the_others_as_they_are() -> None:
    plain = parse_study(STUDY).cells("hash")
    wanted = {"route": "r4", "first": 6, "clients": 8, "rounds_per_block": 2}
    study = parse_study({**STUDY, "certificates": [wanted]})
    cells = study.cells("hash")
    assert [cell.id for cell in cells[:3]] == [cell.id for cell in plain]
    assert [cell.label for cell in cells[3:]] == [
        "fedavg r4:product_mixture",
        "pefll r4:product_mixture",
    ]
    assert {cell.kind for cell in cells[3:]} == {"progressive"}
    assert cells[3].rounds == 3 + 8 * 2
    assert parse_study(study.resolved()) == study


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"route": "r4", "clients": 8}, r"certificates\.0\.first must be given"),
        ({"route": "r9"}, r"certificates\.0\.route must be one of r0, .*got 'r9'"),
        ({"route": "r4", "frist": 3}, r"certificates\.0\.frist is no setting; did you mean"),
        ({"route": "r4", "first": 0, "clients": 8}, r"certificates\.0\.first: must be greater"),
        (
            {"route": "r4", "first": 2, "clients": 8, "rule": "wsr"},
            r"certificates\.0\.rule: must be 'product'",
        ),
    ],
)
def test_mistakes_in_a_route_name_the_key(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_study({**STUDY, "certificates": [entry]})
