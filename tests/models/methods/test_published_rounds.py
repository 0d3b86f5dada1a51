"""Rounds of Ditto, APFL, SCAFFOLD and FedBABU against figures of published code, in float64."""

import json
from functools import partial
from pathlib import Path

import formula_federation
import pytest
import torch
from formula_federation import a_task, by_formula, cohort_of, federation, next_state

from latecomer.models.engine.method import Method
from latecomer.models.families.global_weights import own_weights
from latecomer.models.methods import make_method
from latecomer.models.task.state import State, part, row
from latecomer.models.task.task import Task

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/published_rounds.json").read_text())
SHAPES = GOLDEN["shapes"]
CLIENTS = federation([8, 8, 8])
PLAIN = {"local_momentum": 0.0, "local_weight_decay": 0.0, "clip_norm": 1e9}
PATHS = pytest.mark.parametrize("path", ["serial", "vectorised"])


def begun(method: Method, monkeypatch: pytest.MonkeyPatch) -> State:
    """Return the method's first state with weights given by the formula."""
    monkeypatch.setattr(Task, "initial", lambda task, generator: by_formula(SHAPES))
    return method.init(a_task(), CLIENTS, cohort_of(CLIENTS, [0]), torch.Generator())


assert_all_like = partial(formula_federation.assert_all_like, first=1e-15)


@PATHS
@pytest.mark.parametrize(("name", "setting"), [("ditto", "lam"), ("apfl", "alpha")])
def test_global_and_own_weights(
    name: str, setting: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = GOLDEN[name]
    fixed = {"mixture": "fixed"} if name == "apfl" else {}
    settings = {"local_lr": told["lr"], setting: told[setting], **PLAIN, **fixed}
    method = make_method(name, **settings)
    state = begun(method, monkeypatch)
    for one in told["rounds"]:
        state = next_state(method, state, CLIENTS, one["clients"], path)
        assert_all_like(part(state.server, "target"), one["global"])
        for index, own in enumerate(one["own"]):
            assert_all_like(own_weights(state, index), own)


@PATHS
def test_three_rounds_of_scaffold(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = GOLDEN["scaffold"]
    method = make_method("scaffold", local_lr=told["lr"], server_lr=told["server_lr"], **PLAIN)
    state = begun(method, monkeypatch)
    for one in told["rounds"]:
        state = next_state(method, state, CLIENTS, one["clients"], path)
        assert_all_like(part(state.server, "target"), one["global"])
        assert_all_like(part(state.server, "control"), one["control"])
        for index, own in enumerate(one["own"]):
            assert_all_like(row(part(state.clients, "control"), index), own)


@PATHS
def test_a_round_of_fedbabu(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = GOLDEN["fedbabu"]
    plain = PLAIN | {"local_momentum": told["momentum"]}
    method = make_method("fedbabu", local_lr=told["lr"], **plain)
    members = told["rounds"][0]["clients"]
    state = next_state(method, begun(method, monkeypatch), CLIENTS, members, path)
    assert_all_like(
        part(state.server, "body") | part(state.server, "head"), told["rounds"][0]["global"]
    )
    own = {name: told["rounds"][0]["global"][name] for name in state.clients}
    assert_all_like(row(state.clients, 1), own)


def test_what_ran_is_said() -> None:
    for name in ("ditto", "apfl", "scaffold", "fedbabu"):
        assert len(GOLDEN[name]["commit"]) == 40
        assert GOLDEN[name]["licence"] in ("MIT", "Apache-2.0")
