"""The gradient steps that reports say a newcomer takes are those that it takes."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import pytest
from formula_federation import model_of

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.methods.registry import method_facts
from latecomer.models.task.task import Task

CONFIG = TrainConfig(rounds=1, cohort=4, local_steps=2, batch_size=6)


@dataclass(frozen=True, eq=False)
class Counting(Task):
    """A task that counts the losses a gradient is taken of."""

    counted: ClassVar[list[int]] = []

    def loss(self, params, x, y):
        if any(value.requires_grad for value in params.values()):
            self.counted.append(1)
        return super().loss(params, x, y)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("shorter", [False, True])
def test_newcomers_take_as_many_steps_as_are_told(name, shorter, task, make_population):
    declared = method_facts()[name]["serving"]
    told = {setting: 3 for setting in declared} if shorter else declared
    clients = make_population()
    method = make_method(name, **(told if shorter else {}))
    assert all(getattr(method, setting) == many for setting, many in told.items())
    state = train(method, task, clients, CONFIG, seed=0)
    Counting.counted.clear()
    counting = Counting(**{key: getattr(task, key) for key in task.__dataclass_fields__})
    model_of(method, counting, state, clients.support_of(0))
    assert len(Counting.counted) == (prod(told.values()) if told else 0)
    assert bool(told) == method.trains_newcomers
