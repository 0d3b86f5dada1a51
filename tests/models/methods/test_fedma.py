"""FedMA: matching finds permutations, and averaging after it does not care about them."""

from itertools import permutations

import pytest
import torch
from formula_federation import Population, generator

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.families.matching import assign, match, reorder
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.methods.fedma import FedMA
from latecomer.models.task.heads import layers
from latecomer.models.task.state import Params, part
from latecomer.models.task.task import Task, make_task

CONFIG = TrainConfig(rounds=6, cohort=3, local_steps=4, batch_size=5)


def shuffled(task: Task, params: Params, seed: int) -> Params:
    chain, draw = layers(task), generator(seed)
    for k in range(len(chain) - 1):
        order = torch.randperm(len(params[f"{chain[k]}.weight"]), generator=draw)
        params = reorder(params, chain, k, order)
    return params


@pytest.mark.parametrize("shape", [(6,), (1, 8, 8), (3, 32, 32)])
def test_reordered_nets_compute_the_same_and_are_put_back(shape: tuple[int, ...]) -> None:
    task = make_task(input_shape=shape, n_classes=4, dtype=torch.float64)
    params = task.initial(generator())
    other = shuffled(task, params, 1)
    x = torch.randn(3, *shape, generator=generator(2), dtype=torch.float64)
    torch.testing.assert_close(task.logits(other, x), task.logits(params, x))
    assert not any(torch.equal(other[key], params[key]) for key in params if key != "head.bias")
    back = match(other, params, layers(task))
    assert all(torch.equal(back[key], params[key]) for key in params)


def test_the_order_is_the_best_of_all() -> None:
    units, reference = torch.randn(2, 5, 3, generator=generator())

    def cost(order: tuple[int, ...]) -> float:
        return float((units[list(order)] - reference).square().sum())

    best = min(permutations(range(5)), key=cost)
    assert tuple(assign(units, reference).tolist()) == best


def test_nets_that_are_no_chain_are_refused() -> None:
    params = {"a.weight": torch.zeros(3, 2), "b.weight": torch.zeros(2, 4)}
    with pytest.raises(ValueError, match="chain of layers to be matched: a has 3 units, b has 4"):
        match(params, params, ("a", "b"))


def test_layers_come_to_rest_from_below(task: Task) -> None:
    phases = FedMA(layerwise_share=0.4).phases(task)
    assert [phase.name for phase in phases] == ["all", "above-1", "above-2"]
    assert [phase.share for phase in phases] == pytest.approx([0.6, 0.2, 0.2])
    assert phases[1].stages[0].trained == tuple(task.shapes)[2:]
    assert phases[2].stages[0].trained == ("head.weight", "head.bias")


def test_without_swaps_or_rest_it_is_fedavg(make_population: Population) -> None:
    task = make_task(input_shape=(6,), n_classes=4, dtype=torch.float64)
    clients = make_population((3, 20, 7, 11, 5), dtype=torch.float64)
    method = FedMA(first_weights="shared", layerwise_share=0, local_lr=1e-3)
    found = train(method, task, clients, CONFIG, seed=0)
    parent = train(FedAvg(local_lr=1e-3), task, clients, CONFIG, seed=0)
    for key, value in part(parent.server, "target").items():
        torch.testing.assert_close(found.server[f"target.{key}"], value, rtol=1e-9, atol=1e-12)
