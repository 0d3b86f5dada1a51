"""A round in two threads against one, in turns: the ratio of times, and the same bits.

Two cores must be free; rounds in two threads that have to share one are no quicker. Each turn is a
short training, of which the quickest round counts, since others on the machine only lengthen it.
"""

import os
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import pytest
import torch
from contest import Finding
from populations import N_CLASSES, SHAPE, SMALL, cifar_shaped

from latecomer.models.engine.method import Method
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.threads import client_threads
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task.state import State
from latecomer.models.task.task import make_task

TURNS, ROUNDS = (1, 2) if SMALL else (5, 3)
STEPS = 4 if SMALL else 50
CASES: dict[str, tuple[Method, TrainConfig]] = {
    # The paper's setting: five clients are not shared evenly by two threads.
    "PeFLL": (make_method("pefll"), TrainConfig(ROUNDS, 5, STEPS, 32)),
    "FedAvg": (FedAvg(), TrainConfig(ROUNDS, 10, STEPS, 50)),
}
pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="two cores are needed",
)


def same(one: State, other: State) -> bool:
    return all(torch.equal(value, other.server[key]) for key, value in one.server.items())


@pytest.mark.parametrize("name", CASES)
def test_two_threads_and_one(name: str, benchmark: Any, judge: Callable[..., None]) -> None:
    """At most .6 of the time, to the same bits; on a machine that has two quiet cores."""
    method, config = CASES[name]
    clients = cifar_shaped(20, 500, 1)
    task = make_task(input_shape=SHAPE, n_classes=N_CLASSES, target="lenet")
    wall: dict[int, list[float]] = {1: [], 2: []}
    cpu: dict[int, list[float]] = {1: [], 2: []}
    states: dict[int, State] = {}

    def turn(threads: int) -> None:
        begun = [perf_counter(), process_time()]

        def after_round(_: Any) -> None:
            now = perf_counter(), process_time()
            wall[threads].append(now[0] - begun[0])
            cpu[threads].append(now[1] - begun[1])
            begun[:] = now

        with client_threads(threads):
            states[threads] = train(method, task, clients, config, seed=0, on_round=after_round)

    def turns() -> None:
        for _ in range(TURNS):
            turn(1)
            turn(2)

    benchmark.pedantic(turns, rounds=1)
    assert same(states[1], states[2])
    one, two = min(wall[1]), min(wall[2])
    absolute = {"one_s": one, "two_s": two, "one_cpu_s": min(cpu[1]), "two_cpu_s": min(cpu[2])}
    note = f"wall clock, quickest of {TURNS * ROUNDS} rounds"
    judge(Finding(f"{name} round in two threads / one", two / one, absolute=absolute, note=note))
