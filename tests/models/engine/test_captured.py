"""Local steps that a GPU launches as one graph are those that Python launches, to the last bit."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from formula_federation import NEEDS_GPU, image_task, placed
from torch import Tensor, nn

from latecomer.eval.devices import claim
from latecomer.models.engine import training as engine
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.engine.vectorised import Graphs, capturable
from latecomer.models.methods import METHODS, make_method
from latecomer.models.methods.pefll import PeFLL
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State
from latecomer.models.task.task import Task, make_task

GPU = torch.device("cuda")
CONFIG = TrainConfig(rounds=6, cohort=5, local_steps=6, batch_size=4)
TASK = image_task()


@pytest.fixture
def there(images: Clients) -> Clients:
    """The noisy images on a GPU."""
    claim("cuda")
    return placed(images, GPU)


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


def test_pefll_minimises_cross_entropy_but_for_bounds_and_heirs_with_another_objective() -> None:
    class Heir(PeFLL):
        """Minimises something else."""

        def objective(self, *given: Any) -> Tensor:
            return 2 * super().objective(*given)

    by_bound = PeFLL(posterior="gaussian", training_objective="bound")
    said = [method.minimises_cross_entropy for method in (PeFLL(), by_bound, Heir())]
    assert said == [True, False, False]


def trained(
    method: Any, clients: Clients, graphs: bool, monkeypatch: pytest.MonkeyPatch, **how: Any
) -> State:
    launched: list[Any] = []
    run = Graphs.run

    def spied(self: Graphs, *given: Any) -> Any:
        launched.append(given)
        return run(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Graphs, "run", spied)
        if not graphs:
            patch.setattr(engine, "Graphs", lambda: None)
        state = train(method, TASK, clients, how.pop("config", CONFIG), seed=3, **how)
    assert bool(launched) == (graphs and capturable(method, TASK, GPU))
    return state


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS_GPU) for name in METHODS])
def test_graphs_change_no_bit(name: str, there: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (
        trained(make_method(name), there, graphs, monkeypatch) for graphs in (True, False)
    )
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
    how: dict[str, Any], there: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = make_method("pefll")
    one, other = (trained(method, there, graphs, monkeypatch, **how) for graphs in (True, False))
    assert all(torch.equal(one.server[key], other.server[key]) for key in one.server)
