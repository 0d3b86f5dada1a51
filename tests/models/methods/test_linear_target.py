"""Every method with a softmax regression as the clients' net, for vectors and for images."""

import pytest
import torch
from formula_federation import model_of, quick

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.task import make_task
from latecomer.models.traffic import random_population


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("shape", [(5,), (1, 8, 8)])
def test_every_method_trains_and_serves_a_softmax_regression(name: str, shape: tuple[int, ...]):
    method = quick(name, 2, **{"head_layers": 0} if name == "pfedhn_pc" else {})
    size = {"hidden": 1, "width": 8}
    task = make_task(input_shape=shape, n_classes=3, target="linear", hypernetwork=size)
    assert task.shapes == {"head.weight": (3, torch.Size(shape).numel()), "head.bias": (3,)}
    clients = random_population(task, 5)
    config = TrainConfig(rounds=3, cohort=2, local_steps=2, batch_size=3)
    state = train(method, task, clients, config, seed=0)
    logits = model_of(method, task, state, clients.support_of(4))(clients.query_of(4).x)
    assert logits.shape == (len(clients.query_of(4)), 3)
    assert bool(logits.isfinite().all())


def test_a_method_whose_network_would_make_no_layer_says_so() -> None:
    task = make_task(input_shape=(5,), n_classes=3, target="linear")
    config = TrainConfig(rounds=1, cohort=2, local_steps=1, batch_size=3)
    with pytest.raises(ValueError, match="head_layers must be below the 1 layers of the target"):
        train(make_method("pfedhn_pc"), task, random_population(task, 5), config, seed=0)
