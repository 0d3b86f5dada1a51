"""What a round asks of a device: nothing that the host must wait for, and one copy to it.

Without a GPU at hand the device is ``meta``, whose tensors have no values: whatever the host would
have to wait for (a number, a copy back, a shape that depends on values) is an error there, and so
is mixing its tensors with the host's. A GPU has a check of synchronisations of its own.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from formula_federation import (
    NEEDS_GPU,
    VARIANTS,
    dense_task,
    image_task,
    images,
    kept_rounds,
    placed,
)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from latecomer.eval.devices import claim
from latecomer.models.engine import schedule as schedule_module
from latecomer.models.engine import training as engine
from latecomer.models.engine.local_steps import clip_by_norm
from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import DivergedError, one_round, train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task import targets
from latecomer.models.task.clients import Clients, Minibatches
from latecomer.models.task.state import State, move
from latecomer.models.task.task import Task

META, CUDA = torch.device("meta"), torch.device("cuda")
# What is computed on the host by its nature, and why a round of theirs waits.
ON_HOST = {
    "fedma": "units are matched by the Hungarian algorithm",
    "flux": "clients are grouped once",
    "feroma": "which samples a client tells its profile of is drawn, and sent in a copy of its own",
    "pfedfda": "the share of a client's own estimate is the best of several by value",
    "pefll-bound": "a bound and its derivatives are computed in float64",
}
CONFIG = TrainConfig(rounds=3, cohort=5, local_steps=6, batch_size=4)
# Every operation on ``meta`` takes a quarter of a millisecond; steps after the first, which has no
# momentum yet, and clients after the second ask for nothing that those have not asked for.
ON_META = TrainConfig(rounds=3, cohort=2, local_steps=3, batch_size=4)
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in METHODS),
    *VARIANTS,
    ("pefll", {"posterior": "gaussian", "training_objective": "bound"}),
    ("odpfl_hn", {"training": "two_phase"}),
    ("odpfl_hn", {"encoder": "dss"}),
]


class Copies(TorchDispatchMode):
    """Counts copies between the host and another device."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        if "copy" in str(func) and isinstance(found, Tensor):
            devices = {one.device.type for one in (*args, found) if isinstance(one, Tensor)}
            if len(devices) > 1:
                self.seen.append(f"{func} {tuple(found.shape)}")
        return found


def case(name: str, settings: dict[str, Any]) -> str:
    bound = settings.get("training_objective", "pefll") != "pefll"
    return f"{name}-bound" if bound else name


@contextmanager
def without_looking_at_losses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Tensor]]:
    """Leave out the one look at values that a round takes, and say how often it would have."""
    looked: list[Tensor] = []

    def look(*given: Any) -> float:
        looked.append(given[-1])
        return 0.0

    with monkeypatch.context() as patch:
        patch.setattr(engine, "_mean_loss", look)
        yield looked


WITH_DROPOUT = dense_task((1, 8, 8), dropout=0.2, dtype=torch.float32)


@pytest.mark.parametrize("path", ["vectorised", "serial"])
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_a_round_waits_for_the_device_only_to_look_at_its_losses(
    name: str, settings: dict[str, Any], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_at_a_round(name, settings, path, monkeypatch)


@pytest.mark.parametrize("path", ["vectorised", "serial"])
@pytest.mark.parametrize("name", ["fedavg", "fedprox", "per_fedavg", "pefll"])
def test_so_does_a_round_in_bf16(name: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rounded, apply = [], targets.rounded

    def seen(*given: Any) -> Any:
        rounded.append(given)
        return apply(*given)

    monkeypatch.setattr(targets, "rounded", seen)
    look_at_a_round(name, {}, path, monkeypatch, precision="bf16")
    assert len(rounded) >= ON_META.local_steps


@pytest.mark.parametrize("path", ["vectorised", "serial"])
@pytest.mark.parametrize("name", ["fedavg", "per_fedavg", "pefll"])
def test_so_does_a_round_with_dropout(
    name: str, path: str, monkeypatch: pytest.MonkeyPatch, dropped: list[Tensor]
) -> None:
    look_at_a_round(name, {}, path, monkeypatch, task=WITH_DROPOUT)
    assert len(dropped) >= ON_META.local_steps


def test_masks_sent_with_the_rows_are_those_drawn_when_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, clients = WITH_DROPOUT, images()
    expected = Schedule(0, clients, CONFIG).cohort(2)
    with monkeypatch.context() as patch:
        patch.setattr(Clients, "device", property(lambda clients: META))
        patch.setattr(schedule_module, "sent", lambda value, device: value)
        found = Schedule(0, clients, CONFIG).cohort(2, task=task)
    for name in ("members", "sizes", "descriptor_rows", "rows"):
        assert torch.equal(getattr(found, name), getattr(expected, name))
    for places in (slice(None), slice(1, 3)):
        kept, drawn = found.kept_units(task, places), expected.kept_units(task, places)
        assert found.kept is not None
        assert kept is not None
        assert drawn is not None
        assert torch.equal(kept, drawn)


def look_at_a_round(
    name: str,
    settings: dict[str, Any],
    path: str,
    monkeypatch: pytest.MonkeyPatch,
    precision: str | None = None,
    task: Task | None = None,
) -> None:
    """Take a round on the ``meta`` device and hold it to what it may ask for."""
    if case(name, settings) in ON_HOST:
        pytest.skip(ON_HOST[case(name, settings)])
    method, here = make_method(name, **settings), images()
    task = image_task() if task is None else task
    on_host = Schedule(3, here, ON_META)
    first = on_host.cohort(0, method.batches_per_step)
    state = method.init(task, here, first, on_host.initial_noise())
    state = State(move(state.server, META), move(state.clients, META))
    clients, schedule = placed(here, META), on_host
    schedule._clients = clients
    with without_looking_at_losses(monkeypatch) as looked:
        for phase in method.phases(task):
            with Copies() as copies:
                cohort = schedule.cohort(1, method.batches_per_step, task=task)
            assert len(copies.seen) == 1
            with Copies() as copies:
                parts = method, task, state, clients, cohort, phase, schedule.noise(1)
                state, _ = one_round(*parts, path=path, precision=precision)
            assert not copies.seen
    n_phases = len(method.phases(task))
    assert [tuple(losses.shape) for losses in looked] == [(ON_META.cohort,)] * n_phases
    assert {value.device.type for value in {**state.server, **state.clients}.values()} == {"meta"}


def test_what_would_make_the_host_wait_is_noticed() -> None:
    task, here = image_task(), images()
    schedule = Schedule(3, here, CONFIG)
    state = FedAvg().init(task, here, schedule.cohort(0), schedule.initial_noise())
    state, clients = State(move(state.server, META)), placed(here, META)
    schedule._clients = clients
    (phase,) = FedAvg().phases(task)
    parts = FedAvg(), task, state, clients, schedule.cohort(1), phase, schedule.noise(1)
    # The look at the losses, which the test above leaves out.
    with pytest.raises(RuntimeError, match="meta"):
        one_round(*parts, path="vectorised")
    with Copies() as copies:
        torch.zeros(3).to(META)
    assert len(copies.seen) == 1


def test_gradients_are_clipped_alike_wherever_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)
    slopes = [torch.randn(*shape, generator=draw) for shape in ((3, 4), (5,))]
    on_host = [clip_by_norm(slopes, largest) for largest in (0.5, 1e3)]
    elsewhere = property(lambda tensor: META)
    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "device", elsewhere, raising=False)
        there = [clip_by_norm(slopes, largest) for largest in (0.5, 1e3)]
    for left, right in zip(on_host, there, strict=True):
        for one, other in zip(left, right, strict=True):
            torch.testing.assert_close(other, one, rtol=1e-6, atol=0)
    assert all(torch.equal(a, b) for a, b in zip(there[1], slopes, strict=True))


def test_minibatches_gathered_at_once_are_those_gathered_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients = images()
    rows = Schedule(0, clients, CONFIG).cohort(0, 2).rows[1]
    one_by_one = Minibatches(clients, rows)
    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "device", property(lambda tensor: META), raising=False)
        at_once = Minibatches(clients, rows)
    for step in range(CONFIG.local_steps):
        for left, right in zip(one_by_one[step], at_once[step], strict=True):
            assert torch.equal(left.x, right.x)
            assert torch.equal(left.labels(), right.labels())


@pytest.mark.parametrize("name", ["fedavg", "fedma"])
def test_divergence_off_the_cpu_names_the_client_and_not_what_it_broke(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, begun = make_method(name, local_lr=1e200), []
    aggregate = type(method).aggregate

    def spied(*given: Any) -> State:
        begun.append(given)
        return aggregate(*given)

    monkeypatch.setattr(type(method), "aggregate", spied)
    with pytest.raises(DivergedError) as caught:
        run_once(method, monkeypatch, property(lambda clients: META))
    assert len(begun) == 1
    assert caught.value.client >= 100


def run_once(method: Any, patch: pytest.MonkeyPatch, elsewhere: property) -> None:
    """Take a round of clients that say they lie on another device."""
    task, clients = image_task(), images()
    schedule = Schedule(0, clients, CONFIG)
    cohort = schedule.cohort(0)
    state = method.init(task, clients, cohort, schedule.initial_noise())
    phase, noise = method.phases(task)[0], schedule.noise(0)
    start = method.start(task, state, clients, cohort, noise)
    patch.setattr(type(method), "start", lambda *given: start)
    patch.setattr(Clients, "device", elsewhere)
    one_round(method, task, state, clients, cohort, phase, noise, path="vectorised")


@pytest.mark.parametrize("precision", [None, "bf16", "tf32"])
@pytest.mark.parametrize(("name", "settings"), [pytest.param(*c, marks=NEEDS_GPU) for c in CASES])
def test_a_round_does_not_synchronise_with_a_gpu(
    name: str, settings: dict[str, Any], precision: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case(name, settings) in ON_HOST:
        pytest.skip(ON_HOST[case(name, settings)])
    method, task, clients = make_method(name, **settings), image_task(), placed(images(), CUDA)
    schedule = Schedule(3, clients, CONFIG)
    first = schedule.cohort(0, method.batches_per_step)
    state = method.init(task, clients, first, schedule.initial_noise())
    state = State(move(state.server, CUDA), move(state.clients, CUDA))

    def rounds(state: State) -> State:
        for phase in method.phases(task):
            cohort = schedule.cohort(1, method.batches_per_step, task=task)
            noise = schedule.noise(1)
            parts = method, task, state, clients, cohort, phase, noise
            state, _ = one_round(*parts, path="vectorised", precision=precision)
        return state

    with without_looking_at_losses(monkeypatch):
        # Libraries may wait while they set themselves up.
        state = rounds(state)
        torch.cuda.set_sync_debug_mode("error")
        try:
            rounds(state)
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
def test_stopping_and_going_on_changes_nothing(device: str) -> None:
    claim(device)
    clients, task = placed(images(), torch.device(device)), image_task()
    parts = make_method("pefll"), task, clients, CONFIG
    whole, kept = kept_rounds(*parts, seed=0, path="vectorised")
    after = train(*parts, seed=0, resume=kept[0], path="vectorised")
    for key, value in whole.server.items():
        assert value.device.type == device
        assert torch.equal(after.server[key], value)
