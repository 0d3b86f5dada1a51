"""Local steps that a GPU launches as one graph are those that Python launches, to the last bit."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from latecomer.eval.devices import claim
from latecomer.models.engine import training as engine
from latecomer.models.engine.captured import Graphs, capturable
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State
from latecomer.models.task.task import Task, make_task

NEEDS_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
GPU = torch.device("cuda")
SIZES = (3, 20, 7, 11, 5, 1, 9)
CONFIG = TrainConfig(rounds=6, cohort=5, local_steps=6, batch_size=4)
TASK = make_task(
    input_shape=(1, 8, 8), n_classes=4, hypernetwork={"hidden": 1, "width": 10, "spectral": False}
)


def images(device: torch.device) -> Clients:
    draw, each, n = torch.Generator().manual_seed(0), max(SIZES) + 4, len(SIZES)
    rows = torch.arange(n * each).view(n, each)
    return Clients(
        x=torch.randn(n * each, 1, 8, 8, generator=draw).to(device),
        y=torch.randint(4, (n * each,), generator=draw).to(device),
        support=rows[:, : max(SIZES)].contiguous().to(device),
        support_sizes=torch.tensor(SIZES).to(device),
        query=rows[:, max(SIZES) :].contiguous().to(device),
        query_sizes=torch.full((n,), 4).to(device),
        ids=torch.arange(n),
        mean=torch.zeros((), device=device),
        sd=torch.ones((), device=device),
    )


def test_nothing_is_recorded_of_what_may_look_at_values() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    from_outside = make_task(input_shape=(1, 8, 8), n_classes=4, target=net)

    class Another(Task):
        """Computes something else."""

    another = Another(**{name: getattr(TASK, name) for name in TASK.__dataclass_fields__})
    fedavg = make_method("fedavg")
    assert capturable(fedavg, TASK, GPU)
    assert not capturable(fedavg, TASK, torch.device("cpu"))
    assert not capturable(fedavg, from_outside, GPU)
    assert not capturable(fedavg, another, GPU)
    assert not capturable(make_method("fedprox"), TASK, GPU)


def trained(method: Any, graphs: bool, monkeypatch: pytest.MonkeyPatch, **how: Any) -> State:
    launched: list[Any] = []
    run = Graphs.run

    def spied(self: Graphs, *given: Any) -> Any:
        launched.append(given)
        return run(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Graphs, "run", spied)
        if not graphs:
            patch.setattr(engine, "Graphs", lambda: None)
        state = train(method, TASK, images(GPU), how.pop("config", CONFIG), seed=3, **how)
    assert bool(launched) == (graphs and capturable(method, TASK, GPU))
    return state


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS_GPU) for name in METHODS])
def test_graphs_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    claim("cuda")
    one, other = (trained(make_method(name), graphs, monkeypatch) for graphs in (True, False))
    for left, right in ((one.server, other.server), (one.clients, other.clients)):
        assert left.keys() == right.keys()
        assert all(torch.equal(left[key], right[key]) for key in left)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"chunk_size": 2}, marks=NEEDS_GPU),
        pytest.param({"config": replace(CONFIG, precision="bf16")}, marks=NEEDS_GPU),
        pytest.param({"config": replace(CONFIG, precision="tf32")}, marks=NEEDS_GPU),
    ],
)
def test_so_with_chunks_and_narrow_products(
    how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim("cuda")
    method = make_method("pefll")
    one, other = (trained(method, graphs, monkeypatch, **how) for graphs in (True, False))
    assert all(torch.equal(one.server[key], other.server[key]) for key in one.server)
