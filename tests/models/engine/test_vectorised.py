"""The vectorised path: the serial path's results, method by method and net by net."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from formula_federation import (
    NEEDS_GPU,
    VARIANTS,
    accuracy,
    apart,
    assert_alike,
    image_task,
    images,
    placed,
    recorded_changes,
)
from torch import Tensor, nn

from latecomer.eval.devices import claim
from latecomer.models.engine.method import Context
from latecomer.models.engine.schedule import Phase, Stage, TrainConfig
from latecomer.models.engine.training import DivergedError, RoundLog, train
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.methods import METHODS, make_method
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task import client_axis, targets
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.heads import body_names, head_names
from latecomer.models.task.state import Params, row, stack
from latecomer.models.task.targets import TARGETS
from latecomer.models.task.task import Task, make_task

CONFIG = TrainConfig(rounds=3, cohort=5, local_steps=6, batch_size=4)
MORE = [*VARIANTS, ("fedprox", {"mu": 2.0}), ("fedavg", {"clip_norm": 0.3})]
DEVICES = ["cpu", pytest.param("cuda", marks=NEEDS_GPU)]
CASES: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in METHODS] + MORE
CLIENTS, TASK = images(dtype=torch.float64), image_task(torch.float64)
NEEDS_ONEDNN = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN"
)


def on(device: str, clients: Clients) -> Clients:
    """Put clients on a device, with float32 as exact as the name says."""
    claim(device)
    return placed(clients, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_three_rounds_in_double_precision(name: str, settings: dict[str, Any], device: str) -> None:
    method, clients, logs = make_method(name, **settings), on(device, CLIENTS), []
    # The third step is the second with momentum: more repeat it.
    config = replace(CONFIG, local_steps=3)
    how: dict[str, Any] = {"seed": 4, "on_round": logs.append}
    states = [
        train(method, TASK, clients, config, path=path, chunk_size=size, **how)
        for path, size in (("serial", None), ("vectorised", None), ("vectorised", 2))
    ]
    assert_alike(states[0], states[1], 1e-9)
    assert_alike(states[1], states[2], 1e-9)
    taken = "serial" if method.serial_only else "vectorised"
    assert [log.path for log in logs] == ["serial"] * 3 + [taken] * 6
    assert all(bool(log.reason) == (log.path == "serial") for log in logs[3:])
    for serial, other in zip(logs[:3] * 2, logs[3:], strict=True):
        assert other.loss == pytest.approx(serial.loss, rel=1e-9)


@pytest.mark.parametrize("path", ["vectorised", pytest.param("blocked", marks=NEEDS_ONEDNN)])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "settings"), [case for case in CASES if make_method(case[0]).local.lr > 0]
)
def test_first_change_of_the_weights_in_single_precision(
    name: str, settings: dict[str, Any], device: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (path, device) == ("blocked", "cuda"):
        pytest.skip("oneDNN is for a CPU")
    method, logs = make_method(name, **settings), list[RoundLog]()
    changes = recorded_changes(method, monkeypatch)
    config, clients = replace(CONFIG, rounds=1), on(device, images())
    for taken in ("serial", path):
        train(method, image_task(), clients, config, seed=1, path=taken, on_round=logs.append)
    assert [(log.path, log.reason) for log in logs] == [("serial", ""), (path, "")]
    assert apart(changes[len(changes) // 2], changes[0]) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [("fedavg", {"local_lr": 0.02}), ("pefll", {"local_lr": 0.02, "server_lr": 2e-3})],
)
def test_accuracy_after_training_in_single_precision(name: str, settings: dict[str, Any]) -> None:
    method, clients = make_method(name, **settings), images((20,) * 25, queries=4)
    task, config = image_task(), replace(CONFIG, rounds=25)
    right = []
    for path in ("serial", "vectorised", "blocked"):
        state = train(method, task, clients, config, seed=0, path=path)
        right.append(round(100 * accuracy(method, task, state, clients, seen=True)))
    assert right[0] > 60
    assert max(right) - right[0] <= 1
    assert right[0] - min(right) <= 1


def buildable() -> list[tuple[str, tuple[int, ...]]]:
    """Every net with every shape of input that it takes."""
    found: list[tuple[str, tuple[int, ...]]] = []
    for name in TARGETS:
        for shape in [(7,), (1, 8, 8), (1, 28, 28), (3, 32, 32)]:
            try:
                targets.build(name, shape, 5)
            except ValueError:
                continue
            found.append((name, shape))
    assert {name for name, _ in found} == set(TARGETS)
    return found


@pytest.mark.parametrize(("name", "shape"), buildable())
def test_nets_over_the_client_axis(name: str, shape: tuple[int, ...]) -> None:
    task = make_task(input_shape=shape, n_classes=5, target=name, dtype=torch.float64)
    check_net(task.target, shape)


class Foreign(nn.Module):
    """A net of somebody else's, with a parameter that is a single number."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(1, 3, 3, stride=2)
        self.norm = nn.GroupNorm(1, 3)
        self.head = nn.Linear(27, 4)
        self.scale = nn.Parameter(torch.ones(()))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.scale)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.head(self.norm(self.body(x)).tanh().flatten(1))
        return self.scale * made


def check_net(net: nn.Module, shape: tuple[int, ...]) -> None:
    draw = torch.Generator().manual_seed(0)
    own = [targets.initial(net, draw) for _ in range(3)]
    params = {key: value.requires_grad_() for key, value in stack(own).items()}
    x = torch.randn(3, 5, *shape, generator=draw, dtype=torch.float64)
    y = torch.randint(0, 4, (3, 5), generator=draw)
    losses = client_axis.losses(net, params, x, y)
    slopes = torch.autograd.grad(losses.sum(), list(params.values()))
    logits = client_axis.logits(net, params, x)
    for place in range(3):
        single = {k: v.detach().requires_grad_() for k, v in row(params, place).items()}
        expected = targets.apply(net, single, x[place])
        torch.testing.assert_close(logits[place], expected, rtol=1e-10, atol=1e-12)
        loss = nn.functional.cross_entropy(expected, y[place])
        assert losses[place].item() == pytest.approx(loss.item(), rel=1e-10)
        for found, slope in zip(
            slopes, torch.autograd.grad(loss, list(single.values())), strict=True
        ):
            torch.testing.assert_close(found[place], slope, rtol=1e-9, atol=1e-12)


def test_foreign_nets_train_alike() -> None:
    net = Foreign().double()
    check_net(net, (1, 8, 8))
    task = make_task(input_shape=(1, 8, 8), n_classes=4, target=net, dtype=torch.float64)
    states = [
        train(FedAvg(), task, CLIENTS, CONFIG, seed=0, path=path)
        for path in ("serial", "vectorised")
    ]
    assert_alike(*states, 1e-9)


@dataclass(frozen=True, kw_only=True)
class Outsider(AveragedWeights):
    """Two phases, stages in one of them, and contexts of both kinds in the objective."""

    name: ClassVar[str] = "outsider"
    paper: ClassVar[str] = "none"
    personalization: ClassVar = "global"
    needs_labels: ClassVar[bool] = False

    def phases(self, task: Task) -> tuple[Phase, ...]:
        body, head = Stage(body_names(task), 2.0), Stage(head_names(task))
        return (Phase("one", 1.0, (head,)), Phase("two", 2.0, (body, head)))

    def start(self, *given: Any) -> Any:
        begun, cohort = super().start(*given), given[3]
        return replace(
            begun,
            own={"pull": cohort.members.double()},
            shared={**begun.shared, "round": torch.tensor(float(cohort.round))},
        )

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        assert list(params) == list(task.shapes)
        loss = task.loss(params, batches[0].x, batches[0].labels())
        pull = 0.01 * (context.own["pull"] + context.shared["round"] + step)
        return loss + pull * params["head.weight"].square().sum()


def test_phases_stages_and_contexts() -> None:
    states = [
        train(Outsider(), TASK, CLIENTS, CONFIG, seed=0, path=path, chunk_size=3)
        for path in ("serial", "vectorised")
    ]
    assert_alike(*states, 1e-9)


@dataclass(frozen=True, kw_only=True)
class Branching(Outsider):
    """Looks at a number, which no vmap allows."""

    name: ClassVar[str] = "branching"
    serial_only: ClassVar[str] = "its objective depends on the loss's size"

    def objective(self, *given: Any) -> Tensor:
        loss = super().objective(*given)
        return loss * 2 if loss.item() > 1 else loss


def test_what_cannot_be_vectorised_trains_serially_and_says_why() -> None:
    logs: list[RoundLog] = []
    states = [
        train(Branching(), TASK, CLIENTS, CONFIG, seed=0, path=path, on_round=logs.append)
        for path in ("serial", "vectorised")
    ]
    assert_alike(*states, 0)
    assert [log.reason for log in logs[:3]] == ["", "", ""]
    for log in logs[3:]:
        assert (log.path, log.reason) == (
            "serial",
            "branching trains client by client: its objective depends on the loss's size",
        )


def test_divergence_names_the_client() -> None:
    clients = CLIENTS
    errors = []
    for path in ("serial", "vectorised"):
        with pytest.raises(DivergedError) as caught:
            train(FedAvg(local_lr=1e200), TASK, clients, CONFIG, seed=0, path=path)
        errors.append((caught.value.method, caught.value.round, caught.value.client))
    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "fast"}, r"path must be one of auto, .*, vectorised, got path='fast'"),
        ({"chunk_size": 0}, r"chunk_size must be a whole number >= 1 or None, got chunk_size=0"),
        ({"chunk_size": True}, r"chunk_size must be .* got chunk_size=True"),
        ({"chunk_size": 2.0}, r"chunk_size must be .* got chunk_size=2.0"),
    ],
)
def test_mistakes_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(FedAvg(), TASK, CLIENTS, CONFIG, seed=0, **given)
