"""How the time of a round grows: exponents fitted to rounds of several sizes, taken in turns.

An exponent of 0 means that a round does not notice, of 1 that it takes twice as long for twice as
much.
"""

from contextlib import ExitStack
from dataclasses import replace
from math import prod
from statistics import median

import pytest
from contest import Finding, fitted_exponent
from contestants import engine
from populations import N_CLASSES, SHAPE, SMALL, cifar_shaped

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.methods import make_method
from latecomer.models.task.clients import Clients
from latecomer.models.task.task import make_task

USUAL = TrainConfig(rounds=10_000, cohort=5, local_steps=1 if SMALL else 10, batch_size=32)
SAMPLES, CLIENTS, REPEATS = (2_000, 20, 2) if SMALL else (20_000, 100, 5)
SIZES = {
    "clients": (20, 100, 200) if SMALL else (100, 1_000, 5_000),
    "cohort": (2, 4, 8),
    "local steps": (1, 2, 3) if SMALL else (5, 10, 20),
    "target weights": ("lenet-s", "lenet", "lenet-l"),
}


def population(n_clients: int) -> Clients:
    return cifar_shaped(n_clients, SAMPLES // n_clients, 0)


@pytest.mark.parametrize("grown", SIZES)
def test_scaling(grown, take_turns, judge):
    """PeFLL's round: flat in clients, linear in cohort and steps at most."""
    usual = population(CLIENTS)
    sizes, contestants = [], {}
    with ExitStack() as stack:
        for size in SIZES[grown]:
            target = str(size) if grown == "target weights" else "lenet"
            task = make_task(input_shape=SHAPE, n_classes=N_CLASSES, target=target)
            clients = population(int(size)) if grown == "clients" else usual
            config = {
                "cohort": lambda: replace(USUAL, cohort=size),  # noqa: B023 (called at once)
                "local steps": lambda: replace(USUAL, local_steps=size),  # noqa: B023
            }.get(grown, lambda: USUAL)()
            # The published length of a descriptor grows with the clients; the round is the same.
            method = make_method("pefll", descriptor_dim=26)
            contestants[str(size)] = stack.enter_context(engine(method, task, clients, config))
            weights = sum(prod(shape) for shape in task.shapes.values())
            sizes.append(float(weights if grown == "target weights" else size))
        turns = take_turns(contestants, repeats=REPEATS)
    seconds = [median(turn.cpu) for turn in turns.values()]
    exponent = fitted_exponent(sizes, seconds)
    absolute = {f"{size}_cpu_s": took for size, took in zip(turns, seconds, strict=True)}
    judge(Finding(f"exponent of a PeFLL round in {grown}", exponent, absolute=absolute))
