"""Whether models that are called personalised differ: told apart, and told of where they do not."""

import pytest
import torch

from latecomer.eval.measures.likeness import BLIND_BELOW, model_spread
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.studies.checking import parse_study

STUDY = {
    "study": "sameness",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 22, "novel": 2, "classes_per_client": 2},
    "train": {"rounds": 15, "cohort": 5, "local_steps": 8, "batch_size": 16},
    "seeds": [0],
}


def rows_of(method, **train):
    study = {**STUDY, "methods": [method], "train": {**STUDY["train"], **train}}
    (cell,) = [cell for cell in parse_study(study).cells() if cell.kind == "method"]
    return evaluate_cell(cell.config).rows


def sameness(method):
    found = {row["metric"]: row for row in rows_of(method)}
    return found["model_spread"], found["swap_cost"]


@pytest.mark.slow
def test_one_model_for_all_has_no_spread_and_a_strangers_costs_nothing():
    spread, swap = sameness("fedavg")
    # A global method is not personalised and has nothing to be warned of.
    assert (spread["value"], swap["value"], spread["message"]) == (0.0, 0.0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        {"name": "pefll", "server_lr": 1e-3, "local_lr": 0.02},
        {"name": "pfedhn", "local_lr": 0.02, "novel_rounds": 1, "novel_steps": 5},
        {"name": "odpfl_hn", "local_lr": 0.02, "server_lr": 1e-3},
    ],
    ids=lambda method: method["name"],
)
def test_hypernetworks_that_look_at_their_clients_are_not_called_blind(method):
    spread, swap = sameness(method)
    assert spread["value"] > 3 * BLIND_BELOW
    assert swap["value"] > 0.02
    assert spread["message"] == ""
    assert spread["n_clients"] == swap["n_clients"] == 20


@pytest.mark.slow
def test_odpfl_hn_as_it_was_is_caught():
    paper = {"name": "odpfl_hn", "standardise": "none", "server_optimizer": "sgd"}
    spread, swap = sameness({**paper, "local_lr": 0.02})
    assert spread["value"] < BLIND_BELOW / 2
    assert abs(swap["value"]) < 0.01
    assert "the same model" in spread["message"]


@pytest.mark.slow
def test_methods_that_train_to_serve_a_seen_client_are_left_out():
    # Doing so once more would cost more than it tells.
    found = {row["metric"] for row in rows_of({"name": "per_fedavg"}, rounds=1)}
    assert {"model_spread", "swap_cost"}.isdisjoint(found)


def test_spread_is_relative_and_rotates_with_nothing():
    draw = torch.Generator().manual_seed(0)
    models = [{"a": torch.randn(3, 2, generator=draw), "b": torch.randn(4)} for _ in range(5)]
    found = model_spread(models)
    assert 0 < found <= 1
    assert model_spread([{k: 7 * v for k, v in one.items()} for one in models]) == pytest.approx(
        found
    )
    rows = torch.stack([torch.cat([one["a"].flatten(), one["b"]]) for one in models]).double()
    apart = (rows - rows.mean(0)).square().sum() / rows.square().sum()
    assert found == pytest.approx(float(apart.sqrt()))
