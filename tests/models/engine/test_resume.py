"""Training that goes on from a checkpoint: the numbers of training that was never stopped."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from latecomer.models.engine.checkpoint import Checkpoint
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import RoundLog, train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.state import State
from latecomer.models.task.task import Clients, Task

ROUNDS = 6
CONFIG = TrainConfig(rounds=ROUNDS, cohort=3, local_steps=4, batch_size=4)
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("per_fedavg", {"variant": "hessian_free"}),
    ("pefll", {"posterior": "gaussian"}),
    ("pfedhn", {"descriptors": "class_proportions"}),
    ("odpfl_hn", {"training": "two_phase"}),
]
CASES: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in METHODS] + VARIANTS

Population = Callable[..., Clients]


def same(left: State, right: State) -> None:
    for one, other in ((left.server, right.server), (left.clients, right.clients)):
        assert list(one) == list(other)
        for key, value in one.items():
            assert value.dtype == other[key].dtype
            assert value.stride() == other[key].stride(), key
            assert torch.equal(value, other[key]), key


def reread(checkpoint: Checkpoint) -> Checkpoint:
    """Copy a checkpoint's tensors, as one that comes from a file."""
    server, clients = (
        {key: value.detach().clone() for key, value in table.items()}
        for table in (checkpoint.state.server, checkpoint.state.clients)
    )
    return Checkpoint(checkpoint.rounds_done, State(server, clients))


@pytest.mark.parametrize(("name", "hyper"), CASES)
def test_resumed_training_is_uninterrupted_training(
    task: Task, make_population: Population, name: str, hyper: dict[str, Any]
) -> None:
    method, clients = make_method(name, **hyper), make_population()
    kept: list[Checkpoint] = []
    whole_logs: list[RoundLog] = []
    whole = train(
        method,
        task,
        clients,
        CONFIG,
        seed=3,
        on_round=whole_logs.append,
        on_checkpoint=lambda found: kept.append(reread(found)),
    )
    assert [checkpoint.rounds_done for checkpoint in kept] == list(range(1, ROUNDS + 1))
    for stop in (1, 3, 4, 5, ROUNDS):
        logs: list[RoundLog] = []
        rest = train(
            method, task, clients, CONFIG, seed=3, on_round=logs.append, resume=kept[stop - 1]
        )
        same(rest, whole)
        assert logs == whole_logs[stop:]


@pytest.mark.parametrize(("name", "hyper"), CASES)
def test_a_state_stays_as_it_was_while_training_goes_on(
    task: Task, make_population: Population, name: str, hyper: dict[str, Any]
) -> None:
    """A process that is stopped within a round writes down the one before it."""
    held: list[tuple[State, State]] = []
    train(
        make_method(name, **hyper),
        task,
        make_population(),
        CONFIG,
        seed=3,
        on_checkpoint=lambda found: held.append((found.state, reread(found).state)),
    )
    for state, copy in held:
        same(state, copy)
