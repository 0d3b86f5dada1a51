"""Measuring along a training, and keeping the round that validation data choose."""

from dataclasses import replace

import pytest
import torch

from latecomer.errors import InputError
from latecomer.eval.federation.groups import build_federation
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.settings.cell import federation_settings
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training.curve import Curve, Plan, measured, restored, stored
from latecomer.models.engine.training import Checkpoint
from latecomer.models.task.state import State

RAW = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 10, "classes_per_client": 2, "novel": 3},
    "train": {"rounds": 7, "cohort": 2, "local_steps": 2, "batch_size": 4},
    "methods": [{"name": "local", "novel_steps": 2}],
    "evaluation": {"every": 3},
}


class Slot:
    """Keeps every checkpoint; goes on from one."""

    def __init__(self, resume=None):
        self.resume, self.offered = resume, []

    def slot(self, name, *, seed, rounds, device="cpu"):
        return self

    def load(self):
        return self.resume

    def offer(self, checkpoint, *, long_ahead):
        self.offered.append(checkpoint.copy())


def _config(**changes):
    study = parse_study({**RAW, **changes})
    return next(cell.config for cell in study.cells() if cell.kind == "method")


def _plan(errors_by_round, chooses=True, every=1):
    """Return a plan and a score that looks the validation error up by round."""
    federation = build_federation(federation_settings(parse_study(RAW)))
    plan = Plan({"validation": federation.validation}, every, len(errors_by_round), chooses)

    def score(state, groups):
        wrong = errors_by_round[int(state.server["round"]) - 1]
        return [[ClientScore(0, 5, 10, wrong, 0.5)] for _ in groups]

    return plan, score


def _run(plan, score, rounds):
    curve = Curve()
    for done in range(1, rounds + 1):
        state = State({"round": torch.tensor(done)})
        curve = measured(curve, plan, Checkpoint(done, state), score)
    return curve


def test_the_first_of_the_lowest_validation_errors_is_kept():
    curve = _run(*_plan([5, 2, 4, 2, 3]), rounds=5)
    assert (curve.round, curve.error) == (2, 0.2)
    assert int(curve.state.server["round"]) == 2
    assert [record["error"] for record in curve.records] == [0.5, 0.2, 0.4, 0.2, 0.3]


def test_measurements_fall_on_multiples_and_on_the_end():
    curve = _run(*_plan([1] * 7, chooses=False, every=3), rounds=7)
    assert [record["round"] for record in curve.records] == [3, 6, 7]
    assert curve.state is None


@pytest.mark.parametrize("chooses", [True, False])
def test_a_checkpoint_holds_the_curve_and_gives_it_back(chooses):
    plan, score = _plan([5, 2, 4], chooses)
    curve = _run(plan, score, rounds=3)
    own = State({"hyper.w": torch.ones(2)}, {"own": torch.zeros(3)})
    again, plain = restored(stored(curve, Checkpoint(3, own)), torch.device("cpu"))
    assert (again.records, again.round) == (curve.records, curve.round)
    assert plain.state.server.keys() == own.server.keys()
    assert plain.state.clients.keys() == own.clients.keys()
    if chooses:
        assert again.error == curve.error
        assert torch.equal(again.state.server["round"], curve.state.server["round"])


def test_a_state_that_is_served_as_it_was_kept_is_on_the_device_of_the_clients():
    # Else a training that a stop interrupts on a GPU serves a round before the stop from the CPU.
    curve = _run(*_plan([5, 2, 4], True), rounds=3)
    kept = stored(curve, Checkpoint(3, State({"hyper.w": torch.ones(2)}, {})))
    served = restored(kept, torch.device("meta"))[0].state
    assert {value.device.type for value in served.server.values()} == {"meta"}


CONVERGENCE = {
    "methods": [{"name": "pefll", "descriptor_dim": 3}],
    "model": {"hypernetwork": {"hidden": 1, "width": 8}},
    "split": {**RAW["split"], "novel": 7},
    "train": {**RAW["train"], "rounds": 3},
    "evaluation": {"every": 2, "measures": ["convergence"]},
}


@pytest.mark.parametrize(
    "changes",
    [
        {"train": {**RAW["train"], "selection": "last"}},
        {"train": {**RAW["train"], "selection": "validation"}},
        pytest.param(CONVERGENCE, marks=pytest.mark.slow),
    ],
    ids=["last", "validation", "measured along the training"],
)
def test_going_on_from_any_round_gives_the_rows_of_a_run_without_a_stop(changes):
    config = _config(**changes)
    whole = Slot()
    expected = evaluate_cell(config, None, whole)
    for checkpoint in whole.offered:
        found = evaluate_cell(config, None, Slot(checkpoint))
        assert found.rows == expected.rows
        assert found.artifacts["training_curve"] == expected.artifacts["training_curve"]


def test_selection_never_reads_query_data(monkeypatch):
    """Wrong query labels everywhere change errors, never the choice."""
    import latecomer.eval.training.setup as parts

    config = _config(train={**RAW["train"], "selection": "validation"})
    plain = evaluate_cell(config)

    def poisoned(settings):
        federation = build_federation(settings)

        def wrong(group):
            clients = group.clients
            y = clients.y.clone()
            used = [clients.query[i, :n] for i, n in enumerate(clients.query_sizes.tolist())]
            rows = torch.cat(used)
            y[rows] = (y[rows] + 1) % 10
            return replace(group, clients=replace(clients, y=y))

        return replace(federation, novel=wrong(federation.novel), seen=wrong(federation.seen))

    parts._federation.cache_clear()
    monkeypatch.setattr(parts, "build_federation", poisoned)
    found = evaluate_cell(config)
    parts._federation.cache_clear()

    def choice(outcome):
        return [row["value"] for row in outcome.rows if row["metric"] == "selected_round"]

    assert choice(found) == choice(plain)
    assert len(choice(plain)) == 1
    assert found.rows != plain.rows


def test_choosing_among_rounds_measures_every_30_rounds_unless_told():
    study = parse_study(
        {**RAW, "train": {"rounds": 90, "selection": "validation"}, "evaluation": {}}
    )
    assert study.evaluation.every == 30


def test_choosing_needs_validation_data():
    split = {**RAW["split"], "validation": 0.0}
    with pytest.raises(InputError, match=r"train.selection=validation needs split.validation"):
        parse_study({**RAW, "split": split, "train": {**RAW["train"], "selection": "validation"}})


def test_nothing_is_measured_unless_asked():
    outcome = evaluate_cell(_config(evaluation={}))
    assert "training_curve" not in outcome.artifacts
