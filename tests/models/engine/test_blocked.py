"""The blocked path: the serial path with images in oneDNN's own layout, the same up to rounding."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from formula_federation import image_task, kept_rounds, same
from torch.nn import functional as F

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import RoundLog, train
from latecomer.models.methods import make_method
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task import targets
from latecomer.models.task.clients import Clients

CONFIG = TrainConfig(rounds=3, cohort=5, local_steps=6, batch_size=4)
HERE = torch.backends.mkldnn.is_available()

pytestmark = pytest.mark.skipif(not HERE, reason="torch was built without oneDNN")


@pytest.fixture
def layouts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Say of every convolution in order whether its images lay in oneDNN's own layout."""
    seen: list[bool] = []
    convolve = F.conv2d

    def watched(x: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        seen.append(x.is_mkldnn)
        return convolve(x, *rest, **named)

    monkeypatch.setattr(F, "conv2d", watched)
    return seen


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        ("lenet", (3, 32, 32)),
        ("four-conv", (1, 28, 28)),
        ("small", (1, 9, 9)),
        ("small", (3, 8, 8)),
    ],
)
def test_outputs_and_gradients_of_nets(target: str, shape: tuple[int, ...]) -> None:
    draw = torch.Generator().manual_seed(2)
    net = targets.build(target, shape, 4)
    x = torch.randn(6, *shape, generator=draw).contiguous(memory_format=torch.channels_last)
    weights = {k: v.requires_grad_() for k, v in targets.initial(net, draw).items()}
    found = []
    for blocked in (False, True):
        made = targets.apply(net, weights, x, blocked=blocked)
        slopes = torch.autograd.grad(made.square().sum(), list(weights.values()))
        found.append((made.detach(), *slopes))
    for dense, blocked in zip(*found, strict=True):
        assert not blocked.is_mkldnn
        torch.testing.assert_close(blocked, dense, rtol=1e-4, atol=1e-4 * float(dense.abs().max()))
    with torch.no_grad():
        made = targets.apply(net, weights, x, blocked=True)
    torch.testing.assert_close(made, found[0][0], rtol=1e-4, atol=1e-5)


def test_local_steps_and_nothing_else_use_the_layout(images: Clients, layouts: list[bool]) -> None:
    config = replace(CONFIG, rounds=1)
    method, task, clients = make_method("pefll"), image_task(), images
    state = train(method, task, clients, config, seed=1, path="blocked")
    in_steps = config.cohort * config.local_steps
    assert layouts.count(True) == in_steps
    layouts.clear()
    generator = torch.Generator().manual_seed(0)
    served = method.personalize(task, state, clients.support_of(0), generator=generator)
    served(clients.query_of(0).x)
    train(method, task, clients, config, seed=1, path="serial")
    assert layouts
    assert not any(layouts)


def test_a_resumed_training_is_the_training(images: Clients) -> None:
    parts, how = (make_method("pefll"), image_task(), images, CONFIG), {"seed": 1}
    whole, kept = kept_rounds(*parts, **how, path="blocked")
    assert same(train(*parts, **how, path="blocked", resume=kept[0]), whole)


def test_a_training_in_bfloat16_says_so(images: Clients) -> None:
    logs: list[RoundLog] = []
    config = replace(CONFIG, rounds=1, precision="bf16")
    train(FedAvg(), image_task(), images, config, seed=1, path="blocked", on_round=logs.append)
    assert logs[0].path == "serial"
    assert "float32" in logs[0].reason
