"""Bytes and numbers per client, against sums by hand on the digits net."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import Generator

from latecomer.models.engine.method import Personalization, Start
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.generators.encoders import encoder
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State, part, repeat
from latecomer.models.task.task import Task, make_task
from latecomer.models.traffic import Traffic, random_population, traffic

WEIGHTS = (72 + 8) + (8 * 16 * 32 + 32) + 330  # of the digits net
HEAD = 330
DIM = 1 + 40 // 4


def digits(dtype: torch.dtype = torch.float32) -> Task:
    return make_task(
        input_shape=(1, 8, 8), n_classes=10, hypernetwork={"hidden": 1, "width": 5}, dtype=dtype
    )


def encoder_weights() -> int:
    drawn = encoder(digits(), DIM).initial(torch.Generator().manual_seed(0))
    return sum(value.numel() for value in drawn.values())


BY_HAND = {
    # name: floats down, floats up, numbers kept
    "local": (0, 0, WEIGHTS),
    "fedavg": (WEIGHTS, WEIGHTS, 0),
    "fedavg_ft": (WEIGHTS, WEIGHTS, 0),
    "fedprox": (WEIGHTS, WEIGHTS, 0),
    "scaffold": (2 * WEIGHTS, 2 * WEIGHTS, WEIGHTS),  # control variates go and come too
    "ditto": (WEIGHTS, WEIGHTS, WEIGHTS),
    "apfl": (WEIGHTS, WEIGHTS, WEIGHTS + 1),  # and how much the own weights count
    "per_fedavg": (WEIGHTS, WEIGHTS, 0),
    "fedper": (WEIGHTS - HEAD, WEIGHTS - HEAD, HEAD),
    "fedrep": (WEIGHTS - HEAD, WEIGHTS - HEAD, HEAD),
    "fedbabu": (WEIGHTS - HEAD, WEIGHTS - HEAD, HEAD),  # the one head that everyone holds
    "flux": (WEIGHTS, WEIGHTS, 0),
    # Half of the rounds tell a profile of 22 groups of 10; its first 20 entries are kept.
    "feroma": (WEIGHTS, WEIGHTS + 110, WEIGHTS + 20),
    # Means of 10 classes and one covariance of 32 features; the head is computed from them.
    "pfedfda": (WEIGHTS - HEAD + 320 + 1024, WEIGHTS - HEAD + 320 + 1024, 0),
    "pfedhn": (WEIGHTS, WEIGHTS, 2 * DIM),  # an embedding and its momentum
    "pfedhn_pc": (WEIGHTS - HEAD, WEIGHTS - HEAD, 2 * DIM + HEAD),
    # encoder down, its slope up, descriptor up, its slope down
    "pefll": (WEIGHTS + encoder_weights() + DIM, WEIGHTS + encoder_weights() + DIM, 0),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_against_sums_by_hand(name: str) -> None:
    down, up, kept = BY_HAND[name]
    assert traffic(make_method(name), digits()) == Traffic(4 * down, 4 * up, kept)
    assert traffic(make_method(name), digits(torch.float64)) == Traffic(8 * down, 8 * up, kept)


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_can_be_counted(name: str) -> None:
    task = digits()
    found = traffic(make_method(name), task)
    assert (found.up > 0, found.down > 0) == (name != "local", name != "local")
    assert found == traffic(make_method(name), task, random_population(task, 40))


def test_a_head_that_clients_compute_is_counted_for_no_client() -> None:
    task, method = digits(), make_method("pfedfda")
    many = random_population(task, 3)
    # Ten samples of each class: a client's own covariance is no identity, and neither is the mean.
    x = task.random_inputs(100, torch.Generator().manual_seed(1))
    rows, sizes = torch.arange(100).expand(3, 100), torch.full((3,), 100)
    y = torch.arange(100) % 10
    many = replace(many, x=x, y=y, support=rows, query=rows, support_sizes=sizes, query_sizes=sizes)
    assert traffic(method, task, many) == traffic(method, task)


def test_phases_are_averaged_over_rounds() -> None:
    lg_fedavg = make_method("lg_fedavg", local_share=0.25)
    floats = round(0.75 * WEIGHTS + 0.25 * HEAD)
    assert traffic(lg_fedavg, digits()) == Traffic(4 * floats, 4 * floats, WEIGHTS - HEAD)


def test_number_of_clients_decides_the_descriptor() -> None:
    task = digits()
    few = traffic(make_method("pefll"), task, random_population(task, 8))
    encoder_head = 33  # a row of 32 weights and a bias for each entry of the descriptor
    more = traffic(make_method("pefll"), task)
    assert more.down - few.down == 4 * (DIM - 3) * (1 + encoder_head)


@dataclass(frozen=True, kw_only=True)
class Twice(AveragedWeights):
    """Sends its weights as context too, and a control variate that is no weight."""

    name: ClassVar[str] = "twice"
    paper: ClassVar[str] = "none"
    personalization: ClassVar[Personalization] = "global"
    needs_labels: ClassVar[bool] = False

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        weights = part(state.server, "target")
        control = {"control": weights["head.bias"][:7] / 2}
        return Start(repeat(weights, len(cohort)), shared=weights | control)


def test_context_is_counted_and_nothing_twice() -> None:
    assert traffic(Twice(), digits()) == Traffic(4 * (WEIGHTS + 7), 4 * WEIGHTS, 0)
