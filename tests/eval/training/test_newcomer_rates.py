"""The rate that newcomers train at is chosen on seen clients, and on nothing else."""

from dataclasses import replace

import pytest
import torch

from latecomer.errors import InputError
from latecomer.eval.federation.groups import Group, build_federation
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.settings.cell import federation_settings
from latecomer.eval.studies.cells import cells_of
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training.curve import REFITTED, tune_newcomers
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.task import make_task

PLAIN = {"rounds": 10, "cohort": 5, "local_steps": 5, "batch_size": 16}
STUDY = {
    "study": "rates",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 24, "novel": 6, "classes_per_client": 2},
    "methods": [{"name": "pfedhn", "novel_rounds": 4, "novel_steps": 5}, "pefll"],
    "train": PLAIN | {"tune_newcomers": [1e-4, 0.3]},
    "seeds": [0],
}


def cells(**changes):
    resolved = parse_study({**STUDY, **changes}).resolved()
    found = [cell for cell in cells_of(resolved, "") if cell.config["kind"] == "method"]
    return {cell.config["method"]["name"]: cell for cell in found}


@pytest.fixture(scope="module")
def trained():
    federation = build_federation(federation_settings(parse_study(STUDY)))
    method = make_method("pfedhn", novel_rounds=4, novel_steps=5)
    task = make_task(input_shape=(1, 8, 8), n_classes=10)
    config = TrainConfig(**PLAIN)
    return method, task, train(method, task, federation.seen.clients, config, seed=0), federation


@pytest.mark.slow
def test_the_rate_of_least_error_is_taken_written_down_and_used():
    outcome = evaluate_cell(cells()["pfedhn"].config)
    (row,) = [row for row in outcome.rows if row["metric"] == "novel_lr"]
    table = outcome.artifacts["newcomer_rates"].table
    best = min(table, key=lambda one: one["error"])
    assert row["value"] == best["rate"]
    assert row["n_clients"] == REFITTED
    assert f"{best['rate']:g}: {best['error']:.3f}" in row["message"]
    assert [one["rate"] for one in table] == [1e-4, 0.3]
    # Newcomers are served at it: as by a study that sets this rate itself.
    fixed = {**STUDY["methods"][0], "novel_lr": row["value"]}
    again = evaluate_cell(cells(methods=[fixed], train=PLAIN)["pfedhn"].config)

    def errors(outcome):
        return [
            row["value"]
            for row in outcome.rows
            if row["group"] == "novel" and row["metric"] == "error"
        ]

    assert errors(outcome) == errors(again)


def test_methods_whose_newcomers_do_not_train_are_as_they_are():
    rows = evaluate_cell(cells()["pefll"].config).rows
    assert "novel_lr" not in {row["metric"] for row in rows}
    trains = {name for name in METHODS if make_method(name).trains_newcomers}
    tuned = {"pfedhn", "pfedhn_pc", "fedper", "fedrep", "lg_fedavg", "per_fedavg", "pfedme"}
    newer = {"fedavg_ft", "fedbabu", "ditto", "apfl"}
    assert trains == {*tuned, *newer, "local"}
    assert not make_method("pfedhn", descriptors="class_proportions").trains_newcomers


def test_cells_of_methods_that_ask_for_no_rate_do_not_hang_on_the_rates():
    with_rates, without = cells(), cells(train=PLAIN)
    assert with_rates["pefll"].id == without["pefll"].id
    assert with_rates["pfedhn"].id != without["pfedhn"].id


@pytest.mark.slow
def test_no_query_no_novel_and_no_certification_client_is_looked_at(trained):
    method, task, state, federation = trained
    poison = torch.full_like(federation.novel.clients.query, -1)
    unread = replace(federation.novel.clients, query=poison, support=poison[:, :1])
    seen = federation.seen.clients
    blind = replace(seen, query=torch.full_like(seen.query, -1))
    changed = replace(
        federation,
        novel=Group("novel", "none", None, unread),
        seen=Group("seen", "none", None, blind),
    )
    chosen = [
        tune_newcomers(method, task, state, one, [0.01, 0.3], classes="all", seed=0)
        for one in (federation, changed)
    ]
    assert chosen[0] == chosen[1]


@pytest.mark.slow
def test_refitted_clients_are_served_as_newcomers_not_as_themselves(trained, monkeypatch):
    method, task, state, federation = trained
    monkeypatch.setattr(type(method), "serve", None)
    tune_newcomers(method, task, state, federation, [0.1], classes="all", seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": {**STUDY["split"], "validation": 0.0}}, "train.tune_newcomers needs split.val"),
        ({"train": {**STUDY["train"], "tune_newcomers": []}}, "train.tune_newcomers"),
        ({"train": {**STUDY["train"], "tune_newcomers": [0.0]}}, "train.tune_newcomers"),
        (
            {"certificates": [{"route": "r4", "first": 8, "clients": 8, "rounds_per_block": 1}]},
            "train.tune_newcomers chooses for the study's models, not .* of route r4",
        ),
    ],
)
def test_what_cannot_be_chosen_is_refused_before_any_work(changes, message):
    with pytest.raises(InputError, match=message):
        cells(**changes)


def test_a_study_that_does_not_ask_has_the_cells_it_had():
    assert "tune_newcomers" not in cells(train=PLAIN)["pefll"].config["train"]
