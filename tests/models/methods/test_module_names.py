"""Modules of one's own net may be called what methods call their own parts."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from formula_federation import Population, model_of, quick
from torch import Tensor, nn
from torch.nn import functional as F

from latecomer.models.engine.schedule import TrainConfig, fewest_rounds
from latecomer.models.engine.training import train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.state import State
from latecomer.models.task.task import Task, make_task

CONFIG = TrainConfig(rounds=2, cohort=3, local_steps=2, batch_size=2)
NEUTRAL = "z"
# Sections of a round's weights and context, beside those that the states themselves name.
IN_ROUNDS = {"own", "theta_i", "params", "shared", "target", "losses", "alpha"}


def chain(names: Sequence[str], head: str) -> Callable[[tuple[int, ...], int], nn.Module]:
    """Return a net of modules called ``names``, with what is called as its head in each."""

    def layer(width: int) -> nn.Module:
        return nn.ModuleDict({head: nn.Linear(width, 3)})

    class Net(nn.Module):
        def __init__(self, input_shape: tuple[int, ...], n_out: int) -> None:
            super().__init__()
            for place, name in enumerate(names):
                self.add_module(name, layer(3 if place else input_shape[0]))
            self.add_module(head, nn.Linear(3, n_out))

        def forward(self, x: Tensor) -> Tensor:
            *inner, last = self.children()
            for module in inner:
                x = F.leaky_relu(module[head](x), 0.7)
            made: Tensor = last(x)
            return made

    return Net


def task_of(make: Callable[[tuple[int, ...], int], nn.Module]) -> Task:
    size = {"hidden": 0, "width": 1}
    return make_task(input_shape=(6,), n_classes=4, target=make, hypernetwork=size)


@pytest.mark.parametrize("name", METHODS)
def test_names_decide_nothing(make_population: Population, name: str) -> None:
    method, clients = quick(name, 1), make_population((8,) * 4)

    def trained(task: Task) -> tuple[State, Tensor]:
        config = replace(CONFIG, rounds=max(2, fewest_rounds(method.phases(task))))
        state, support = train(method, task, clients, config, seed=0), clients.support_of(0)
        served = [model_of(method, task, state, support, one)(support.x) for one in (0, None)]
        return state, torch.stack(served)

    state, _ = trained(task_of(chain([NEUTRAL], "head")))
    sections = {part for key in (*state.server, *state.clients) for part in key.split(".")}
    taken = sorted((sections | IN_ROUNDS) - {NEUTRAL, "head", "weight", "bias"})
    _, plain = trained(task_of(chain([f"{NEUTRAL}{place}" for place in range(len(taken))], "head")))
    _, named = trained(task_of(chain(taken, "head")))
    assert torch.equal(plain, named)


def test_the_one_name_that_is_taken_is_told(make_population: Population) -> None:
    class Net(nn.Module):
        def __init__(self, input_shape: tuple[int, ...], n_out: int) -> None:
            super().__init__()
            self.has_body = nn.Parameter(torch.ones(input_shape))
            self.fc = nn.Linear(*input_shape, n_out)

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.fc(x * self.has_body)
            return made

    with pytest.raises(ValueError, match="no parameter of its own has_body for lg_fedavg, which"):
        train(make_method("lg_fedavg"), task_of(Net), make_population(), CONFIG, seed=0)
