"""Training that goes on from a checkpoint: the numbers of training that was never stopped."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from formula_federation import VARIANTS, Population, kept_rounds

from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import RoundLog, initial_state, one_round, train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

ROUNDS = 6
CONFIG = TrainConfig(rounds=ROUNDS, cohort=3, local_steps=4, batch_size=4)
CASES: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in METHODS]
CASES += [*VARIANTS, ("odpfl_hn", {"training": "two_phase"})]


def same(left: State, right: State) -> None:
    for one, other in ((left.server, right.server), (left.clients, right.clients)):
        assert list(one) == list(other)
        for key, value in one.items():
            assert value.dtype == other[key].dtype
            assert value.stride() == other[key].stride(), key
            assert torch.equal(value, other[key]), key


@pytest.mark.parametrize(("name", "hyper"), CASES)
def test_resumed_training_is_uninterrupted_training(
    task: Task, make_population: Population, name: str, hyper: dict[str, Any]
) -> None:
    method, clients = make_method(name, **hyper), make_population()
    whole_logs: list[RoundLog] = []
    parts = method, task, clients, CONFIG
    whole, kept = kept_rounds(*parts, seed=3, on_round=whole_logs.append)
    assert [checkpoint.rounds_done for checkpoint in kept] == list(range(1, ROUNDS + 1))
    for stop in (1, 3, 4, 5, ROUNDS):
        logs: list[RoundLog] = []
        rest = train(*parts, seed=3, on_round=logs.append, resume=kept[stop - 1])
        same(rest, whole)
        assert logs == whole_logs[stop:]


@pytest.mark.parametrize(("name", "hyper"), CASES)
def test_no_round_overwrites_what_it_was_given(
    task: Task, make_population: Population, name: str, hyper: dict[str, Any]
) -> None:
    parts = make_method(name, **hyper), task, make_population(), CONFIG
    _, kept = kept_rounds(*parts, seed=3)
    begun = kept[2]
    before = begun.copy()
    train(*parts, seed=3, resume=begun)
    same(begun.state, before.state)


@pytest.mark.parametrize("path", ["serial", "vectorised"])
@pytest.mark.parametrize(("name", "hyper"), CASES)
def test_a_round_in_place_is_the_round(
    task: Task, make_population: Population, name: str, hyper: dict[str, Any], path: str
) -> None:
    method, clients = make_method(name, **hyper), make_population()
    if path == "vectorised" and method.serial_only:
        pytest.skip("trains serially")
    phase, schedule = method.phases(task)[0], Schedule(3, clients, CONFIG)
    state = begun = initial_state(method, task, clients, CONFIG, seed=3)
    before, once = begun.copy(), replace(begun.copy(), disposable=True)
    for number in range(2):
        cohort = schedule.cohort(number, method.batches_per_step, task=task)
        parts = clients, cohort, phase
        noise = [schedule.noise(number) for _ in range(2)]
        state, loss = one_round(method, task, state, *parts, noise[0], path=path)
        once, again = one_round(method, task, once, *parts, noise[1], path=path)
        assert loss == again
        assert not once.disposable
        same(once, state)
        once = replace(once, disposable=True)
    for name, value in {**begun.server, **begun.clients}.items():
        assert torch.equal(value, {**before.server, **before.clients}[name]), name


def test_the_networks_of_pefll_move_in_place(task: Task, make_population: Population) -> None:
    """Copying them and their moments took a twelfth of a round on vectors."""
    seen: set[tuple[int, ...]] = set()
    train(
        make_method("pefll"),
        task,
        make_population(),
        CONFIG,
        seed=3,
        on_checkpoint=lambda found: seen.add(
            tuple(v.data_ptr() for k, v in found.state.server.items() if "steps" not in k)
        ),
    )
    assert len(seen) == 1
