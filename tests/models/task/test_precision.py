"""Local steps in less precision: what is rounded, what is not, and what they come to."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from formula_federation import (
    NEEDS_GPU,
    Population,
    accuracy,
    apart,
    image_task,
    images,
    kept_rounds,
    placed,
    recorded_changes,
    same,
    tables,
)
from torch import Tensor, nn

from latecomer.eval.devices import claim
from latecomer.models.engine.method import Method
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train, train_on
from latecomer.models.methods import METHODS, make_method
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.methods.pefll import PeFLL
from latecomer.models.task import client_axis, targets
from latecomer.models.task.precision import tf32_products
from latecomer.models.task.state import part
from latecomer.models.task.targets import apply
from latecomer.models.task.task import Task, make_task

BF16 = TrainConfig(rounds=3, cohort=5, local_steps=6, batch_size=4, precision="bf16")
FLOAT32 = replace(BF16, precision=None)
EPS = torch.finfo(torch.bfloat16).eps
SWITCHES = (torch.backends.cuda.matmul, torch.backends.cudnn)
# Where each path computes the losses of PeFLL's local steps.
LOSSES: dict[str, tuple[Any, str]] = {
    "serial": (PeFLL, "objective"),
    "vectorised": (client_axis, "losses"),
}


def changes_of_a_round(
    name: str, patch: pytest.MonkeyPatch, *runs: tuple[str, str | None], task: Task | None = None
) -> list[Tensor]:
    """Return what a round changes of each client's weights, ``[c, n]``, by path and precision."""
    method = make_method(name)
    changes = recorded_changes(method, patch)
    for path, precision in runs:
        config = replace(BF16, rounds=1, precision=precision)
        train(method, task or image_task(), images((12,) * 7), config, seed=1, path=path)
    return changes[:: len(changes) // len(runs)]


def spied(hook: Callable[..., Any], look: Callable[[Any], None]) -> Callable[..., Any]:
    """Return a hook that shows what it is given."""

    def shown(*given: Any, **options: Any) -> Any:
        look(given)
        return hook(*given, **options)

    return shown


@pytest.mark.parametrize("name", [name for name in METHODS if make_method(name).local.lr > 0])
def test_both_paths_round_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within what bfloat16 allows: half an eps for each of three layers, both ways, on each path.

    Both multiply the same rounded factors; what they sum in another order may round differently.
    """
    runs = ("serial", "bf16"), ("vectorised", "bf16"), ("serial", None)
    serial, vectorised, exact = changes_of_a_round(name, monkeypatch, *runs)
    assert apart(vectorised, serial) <= 3 * 2 * EPS
    # It is rounding that they agree on.
    assert apart(serial, exact) > EPS / 10


@pytest.mark.parametrize("name", ["fedavg", "fedprox"])
def test_a_net_of_another_package_rounds_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch casts its products itself: with a cache that is not the weights' of an earlier step."""
    net = nn.Sequential(nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 16), nn.GELU())
    net.append(nn.Linear(16, 4))
    task = make_task(input_shape=(1, 8, 8), n_classes=4, target=net)
    runs = ("serial", "bf16"), ("vectorised", "bf16"), ("serial", None)
    serial, vectorised, exact = changes_of_a_round(name, monkeypatch, *runs, task=task)
    assert apart(vectorised, serial) <= 2 * 2 * EPS
    assert EPS / 10 < apart(serial, exact) <= 2 * 2 * EPS


@pytest.mark.parametrize("path", ["serial", "vectorised"])
def test_weights_are_rounded_anew_at_every_step(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as casting weights and inputs by hand; weights and the rest stay float32."""
    seen = set()

    def by_hand(self: Task, params: Any, x: Tensor) -> Tensor:
        narrow = {key: value.bfloat16() for key, value in params.items()}
        made = apply(self.target, narrow, x.bfloat16())
        seen.add(made.dtype)
        return made.float()

    method, clients = FedAvg(local_lr=0.05), images((12,) * 7)
    found = train(method, image_task(), clients, BF16, seed=0, path=path)
    with monkeypatch.context() as patch:
        patch.setattr(Task, "logits", by_hand)
        expected = train(method, image_task(), clients, FLOAT32, seed=0, path="serial")
    assert seen == {torch.bfloat16}
    for key, value in part(expected.server, "target").items():
        assert found.server[f"target.{key}"].dtype == torch.float32
        torch.testing.assert_close(found.server[f"target.{key}"], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("path", ["serial", "vectorised"])
def test_only_local_steps_are_rounded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the networks that make weights, nor fine-tuning, nor what is served."""
    tasks = []
    for hook in ("start", "finish", "aggregate"):
        seen = spied(getattr(PeFLL, hook), lambda given: tasks.append(given[1].narrow))
        monkeypatch.setattr(PeFLL, hook, seen)
    steps = []
    owner, name = LOSSES[path]
    told = (lambda given: given[1].narrow) if path == "serial" else (lambda given: given[-1])
    seen = spied(getattr(owner, name), lambda given: steps.append(told(given)))
    monkeypatch.setattr(owner, name, seen)
    task, clients = image_task(), images((12,) * 7)
    state = train(make_method("pefll"), task, clients, BF16, seed=0, path=path)
    assert tasks == [None] * 3 * BF16.rounds
    assert set(steps) == {torch.bfloat16}
    assert {value.dtype for _, value in tables(state)} == {torch.float32}
    assert task.narrow is None
    logits = make_method("pefll").personalize(
        task, state, clients.support_of(0), generator=torch.Generator().manual_seed(0)
    )(clients.query_of(0).x)
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, logits.bfloat16().float())


@pytest.mark.parametrize("path", ["serial", "vectorised"])
def test_left_out_it_changes_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch is asked for nothing, and a task of local steps is the task."""

    def refused(*given: Any, **options: Any) -> None:
        raise AssertionError("nothing may be narrowed")

    monkeypatch.setattr(torch, "autocast", refused)
    monkeypatch.setattr(targets, "rounded", refused)
    before = [switch.allow_tf32 for switch in SWITCHES]
    stepped = []
    seen = spied(FedAvg.objective, lambda given: stepped.append(given[1]))
    monkeypatch.setattr(Method, "objective", seen)
    task = image_task()
    train(make_method("fedavg"), task, images((12,) * 7), FLOAT32, seed=0, path=path)
    assert all(one is task for one in stepped)
    assert [switch.allow_tf32 for switch in SWITCHES] == before
    assert TrainConfig() == TrainConfig(precision=None)


@pytest.mark.parametrize("path", ["serial", "vectorised"])
@pytest.mark.parametrize("name", ["fedavg", "per_fedavg", "pfedhn_pc", "pefll"])
def test_resumed_training_is_uninterrupted_training(name: str, path: str) -> None:
    parts = make_method(name), image_task(), images((12,) * 7), BF16
    whole, kept = kept_rounds(*parts, seed=3, path=path)
    for stop in (1, 2):
        assert same(train(*parts, seed=3, path=path, resume=kept[stop - 1]), whole)
    exact = train(*parts[:3], FLOAT32, seed=3, path=path)
    assert not same(exact, whole)


def test_training_on_is_in_the_same_precision() -> None:
    method, task, clients = make_method("fedavg"), image_task(), images((12,) * 7)
    state = train(method, task, clients, FLOAT32, seed=0)
    further = [
        train_on(method, task, state, clients, config, seed=0, first_round=3)
        for config in (BF16, BF16, FLOAT32)
    ]
    assert same(further[0], further[1])
    assert not same(further[0], further[2])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedavg", "pefll"])
def test_it_learns_as_much(name: str, task: Task, make_population: Population) -> None:
    """Toy clients of 2 of 4 classes, 32 of them x 8 test samples: within two standard errors."""
    clients = make_population((12,) * 32)
    config = TrainConfig(rounds=30, cohort=5, local_steps=8, batch_size=8)
    accuracies = []
    for precision in (None, "bf16"):
        method = make_method(name)
        budget = replace(config, precision=precision)
        state = train(method, task, clients, budget, seed=0)
        accuracies.append(accuracy(method, task, state, clients, seen=True))
    chance, samples = 0.25, len(clients) * 8
    assert accuracies[0] > 2 * chance
    error = (accuracies[0] * (1 - accuracies[0]) / samples) ** 0.5
    assert abs(accuracies[1] - accuracies[0]) <= 2 * error


def test_what_cannot_be_had_is_refused(make_population: Population, task: Task) -> None:
    with pytest.raises(ValueError, match=r"^precision must be bf16, tf32 or None, got precision='"):
        TrainConfig(precision="fp16")
    clients = make_population()
    method, config = make_method("fedavg"), replace(BF16, precision="tf32")
    said = r"^precision must be bf16 or left out on a cpu device, got precision='tf32'$"
    with pytest.raises(ValueError, match=said):
        train(method, task, clients, config, seed=0)
    state = train(method, task, clients, FLOAT32, seed=0)
    with pytest.raises(ValueError, match=said):
        train_on(method, task, state, clients, config, seed=0, first_round=3)
    exact = image_task(torch.float64)
    with pytest.raises(ValueError, match=r"must be left out for weights of torch\.float64, got"):
        train(method, exact, images((12,) * 7), BF16, seed=0)


@pytest.mark.parametrize("found", [(False, False), (True, False)])
def test_switches_are_left_as_they_were(found: tuple[bool, bool]) -> None:
    before = [switch.allow_tf32 for switch in SWITCHES]
    try:
        for switch, value in zip(SWITCHES, found, strict=True):
            switch.allow_tf32 = value
        with tf32_products(allowed=False):
            assert tuple(switch.allow_tf32 for switch in SWITCHES) == found
        with pytest.raises(KeyError), tf32_products(allowed=True):  # noqa: PT012
            assert [switch.allow_tf32 for switch in SWITCHES] == [True, True]
            raise KeyError
        assert tuple(switch.allow_tf32 for switch in SWITCHES) == found
    finally:
        for switch, value in zip(SWITCHES, before, strict=True):
            switch.allow_tf32 = value


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=NEEDS_GPU)])
@pytest.mark.parametrize("path", ["serial", "vectorised"])
def test_tf32_is_of_local_steps_alone(
    device: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(device)
    clients, method = placed(images((12,) * 7), device), make_method("pefll")
    seen: list[tuple[bool, bool]] = []

    def look(given: Any) -> None:
        seen.append((SWITCHES[0].allow_tf32, SWITCHES[1].allow_tf32))

    owner, name = LOSSES[path]
    monkeypatch.setattr(owner, name, spied(getattr(owner, name), look))
    config = replace(BF16, precision="tf32")
    told: list[tuple[bool, bool]] = []

    def between(_: Any) -> None:
        told.append((SWITCHES[0].allow_tf32, SWITCHES[1].allow_tf32))

    parts = method, image_task(), clients, config
    train(*parts, seed=0, path=path, on_checkpoint=between)
    assert set(seen) == {(True, True)}
    assert told == [(False, False)] * config.rounds
    assert [switch.allow_tf32 for switch in SWITCHES] == [False, False]
