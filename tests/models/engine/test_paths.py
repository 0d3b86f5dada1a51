"""Which path is taken, and what is said where another was asked for."""

from dataclasses import replace

import pytest
import torch
from formula_federation import image_task
from torch import Tensor, nn

from latecomer.models.engine.vectorised import choose_path
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task.targets import ConvNet
from latecomer.models.task.task import Task, make_task

CPU, GPU = torch.device("cpu"), torch.device("cuda")
NET = {"channels": (4,), "dense": (8,), "kernel": 3, "padding": 1}


class Own(ConvNet):
    """A net that may compute something else."""


class Mixed(nn.Module):
    """A net with weights of two floating types."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 3)
        self.head = nn.Linear(3, 4).double()

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.head(self.body(x.flatten(1)).double())
        return made


def test_auto_follows_the_device() -> None:
    task, method = image_task(), FedAvg()
    assert choose_path("auto", None, method, task, CPU) == ("serial", "")
    assert choose_path("auto", None, method, task, GPU) == ("vectorised", "")


@pytest.mark.parametrize("path", ["serial", "blocked", "vectorised"])
def test_a_path_that_can_be_taken_is_taken(path: str) -> None:
    assert choose_path(path, 3, FedAvg(), image_task(), CPU) == (path, "")


def test_clients_with_weights_of_several_types_do_not_train_side_by_side() -> None:
    task = replace(image_task(), target=Mixed())
    assert choose_path("vectorised", 3, FedAvg(), task, CPU) == (
        "serial",
        "the target's weights have several floating types",
    )


@pytest.mark.parametrize(
    ("task", "device", "precision", "reason"),
    [
        (make_task(input_shape=(6,), n_classes=4), CPU, None, "has no convolutions"),
        (image_task(target=Own((1, 8, 8), 4, **NET)), CPU, None, "no convolutions of this package"),
        (image_task(torch.float64), CPU, None, "in float32"),
        (image_task(), CPU, "bf16", "in float32"),
        (image_task(), GPU, None, "for a CPU"),
    ],
)
def test_images_that_cannot_lie_in_blocks_go_the_serial_path(
    task: Task, device: torch.device, precision: str | None, reason: str
) -> None:
    taken, why = choose_path("blocked", None, FedAvg(), task, device, precision)
    assert taken == "serial"
    assert reason in why
