"""Dense cohorts whose gradients are written out: the serial path's results, method by method."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from formula_federation import VARIANTS, Population, dense_task
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from latecomer.models.engine import vectorised
from latecomer.models.engine.local_steps import LocalSGD, local_sgd
from latecomer.models.engine.method import Context, Method
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import initial_state, train
from latecomer.models.engine.vectorised import cohort_sgd, has_written_slopes, slopes_sgd
from latecomer.models.methods import METHODS, make_method
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.methods.fedprox import FedProx
from latecomer.models.task import client_axis
from latecomer.models.task.client_axis import Weighted, each_once, losses_and_slopes
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, row, stack
from latecomer.models.task.targets import DenseNet, initial
from latecomer.models.task.task import Task, make_task

CPU = torch.device("cpu")
SIZES = (3, 20, 7, 11, 5, 1, 9)
BY_BOUND = {"posterior": "gaussian", "training_objective": "bound"}
MORE: list[tuple[str, dict[str, Any]]] = [
    *VARIANTS,
    ("pefll", BY_BOUND),
    ("fedprox", {"mu": 2.0}),
    ("fedavg", {"clip_norm": 0.3}),
    ("ditto", {"clip_norm": 0.3, "lam": 3.0}),
    ("apfl", {"clip_norm": 0.3}),
    ("odpfl_hn", {"training": "two_phase"}),
]
CASES: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in METHODS] + MORE
# Batches of 4 are drawn from most clients; in batches of 32 everyone's samples are repeated.
FEW, ALL = (TrainConfig(2, 5, 4, size) for size in (4, 32))
NETS = {"dense": ((12, 10), 0.0), "dropout": ((12, 10), 0.2), "linear": ((), 0.0)}


def needs_a_body(method: Method, task: Task, clients: Clients) -> bool:
    """Tell whether the method refuses a net that is a head alone."""
    try:
        initial_state(method, task, clients, ALL, seed=4)
        method.phases(task)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    ("kind", "config"),
    [("dense", FEW), ("dense", ALL), ("dropout", FEW), ("linear", ALL)],
    ids=["dense", "dense, all samples", "dropout", "linear, all samples"],
)
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_two_rounds_in_double_precision(
    make_population: Population,
    name: str,
    settings: dict[str, Any],
    kind: str,
    config: TrainConfig,
) -> None:
    widths, dropout = NETS[kind]
    task = dense_task(dense=widths, dropout=dropout)
    clients, logs = make_population(SIZES, dtype=torch.float64), []
    method = make_method(name, **settings)
    if kind == "linear" and needs_a_body(method, task, clients):
        return
    states = [
        train(method, task, clients, config, seed=4, path=path, on_round=logs.append)
        for path in ("serial", "vectorised")
    ]
    for left, right in zip(*([s.server, s.clients] for s in states), strict=True):
        assert list(left) == list(right)
        for key, value in left.items():
            torch.testing.assert_close(right[key], value, rtol=1e-9, atol=1e-9, msg=key)
    for serial, other in zip(logs[:2], logs[2:], strict=True):
        assert other.loss == pytest.approx(serial.loss, rel=1e-9)


WRITTEN = ("fedavg", "fedprox", "ditto", "scaffold", "apfl", "pfedme", "per_fedavg")


def test_gradients_are_written_out_beside_their_objectives() -> None:
    assert all(make_method(name).written_out for name in (*WRITTEN, "glmm", "local", "pefll"))
    assert not make_method("pefll", **BY_BOUND).written_out


@dataclass(frozen=True, kw_only=True)
class Steeper(FedProx):
    """An objective of its own, whose gradient nobody wrote out."""

    name: ClassVar[str] = "steeper"

    def objective(self, *given: Any) -> Tensor:
        return 2 * super().objective(*given)


def test_an_inherited_gradient_is_of_another_objective(
    make_population: Population,
) -> None:
    assert not Steeper().written_out
    task = dense_task(dense=(5,))
    clients = make_population(SIZES, dtype=torch.float64)
    states = [
        train(Steeper(), task, clients, FEW, seed=0, path=path) for path in ("serial", "vectorised")
    ]
    for key, value in states[0].server.items():
        torch.testing.assert_close(states[1].server[key], value, rtol=1e-9, atol=1e-9)


class Own(DenseNet):
    """A net that may compute something else."""


def test_only_dense_nets_of_the_package_on_a_cpu_have_their_gradient_written_out() -> None:
    task = dense_task(dense=(5,))
    assert has_written_slopes(task, CPU)
    assert not has_written_slopes(task, torch.device("cuda"))
    assert not has_written_slopes(replace(task, narrow=torch.bfloat16), CPU)
    assert not has_written_slopes(replace(task, target=Own((6,), 4, dense=(5,))), CPU)
    assert not has_written_slopes(make_task(input_shape=(1, 8, 8), n_classes=4), CPU)


def test_a_dense_cohort_trains_without_autograd(
    make_population: Population, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*given: Any, **more: Any) -> None:
        raise AssertionError("went the other way")

    monkeypatch.setattr(vectorised, "cohort_sgd", never)
    monkeypatch.setattr(torch.autograd, "grad", never)
    task = dense_task(dense=(5,))
    clients = make_population(SIZES, dtype=torch.float64)
    for name in WRITTEN:
        fixed = {"mixture": "fixed"} if name == "apfl" else {}
        method = make_method(name, **fixed)
        train(method, task, clients, FEW, seed=0, path="vectorised")


@given(
    widths=st.lists(st.integers(1, 7), max_size=3),
    n_classes=st.integers(2, 5),
    dropout=st.sampled_from([0.0, 0.4]),
    seed=st.integers(0, 2**31),
)
def test_gradients_are_those_of_autograd(
    widths: list[int], n_classes: int, dropout: float, seed: int
) -> None:
    dropout = dropout if widths else 0.0
    net = DenseNet((2, 2, 1), n_classes, dense=tuple(widths), dropout=dropout).double()
    draw = torch.Generator().manual_seed(seed)
    params = {k: v.requires_grad_() for k, v in stack([initial(net, draw)] * 3).items()}
    x = torch.randn(3, 5, 2, 2, 1, generator=draw, dtype=torch.float64)
    y = torch.randint(0, n_classes, (3, 5), generator=draw)
    kept = torch.rand(3, 5, (widths or [1])[-1], generator=draw) > dropout if dropout else None
    expected = client_axis.losses(net, params, x, y, kept)
    slopes = dict(zip(params, torch.autograd.grad(expected.sum(), [*params.values()]), strict=True))
    still = {key: value.detach() for key, value in params.items()}
    losses, found = losses_and_slopes(net, still, Samples(x, y), kept)
    torch.testing.assert_close(losses, expected.detach())
    assert set(found) == set(params)
    for key, value in found.items():
        torch.testing.assert_close(value, slopes[key], rtol=1e-10, atol=1e-12)
    some = ["head.bias", *(["dense1.weight"] if len(widths) == 1 else [])]
    into = {key: torch.empty_like(still[key]) for key in some}
    _, part = losses_and_slopes(net, still, Samples(x, y), kept, wanted=some, into=into)
    assert {key: value is into[key] for key, value in part.items()} == dict.fromkeys(some, True)
    for key in some:
        torch.testing.assert_close(part[key], slopes[key], rtol=1e-10, atol=1e-12)


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    twice=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_samples_drawn_several_times_are_weighted(sizes: list[int], twice: bool, seed: int) -> None:
    draw, most = torch.Generator().manual_seed(seed), max(sizes)
    held = torch.randperm(40, generator=draw)[: len(sizes) * most].view(len(sizes), most)
    if twice:
        held[:, -1] = held[:, 0]
    places = [torch.randint(0, size, (3, 2, 7), generator=draw) for size in sizes]
    rows = torch.stack([own[at] for own, at in zip(held, places, strict=True)])
    # What lies beyond a client's size is anything, also a row that it holds.
    beyond = torch.arange(most) >= torch.tensor(sizes)[:, None]
    held = torch.where(beyond, held[:, :1], held)
    once, shares = each_once(rows, held, torch.tensor(sizes), torch.float64)
    values = torch.randn(40, generator=draw, dtype=torch.float64)
    weighted = (shares * values[once][:, None, None]).sum(-1)
    torch.testing.assert_close(weighted, values[rows].mean(-1))


def test_weighted_samples_have_the_gradient_of_the_minibatch() -> None:
    net, draw = DenseNet((3,), 4, dense=(5,)).double(), torch.Generator().manual_seed(0)
    params = stack([initial(net, draw), initial(net, draw)])
    x = torch.randn(2, 3, 3, generator=draw, dtype=torch.float64)
    y = torch.randint(0, 4, (2, 3), generator=draw)
    drawn = torch.tensor([0, 2, 2, 1, 0, 2])
    share = torch.tensor([2, 1, 3], dtype=torch.float64).expand(2, 3) / 6
    found = losses_and_slopes(net, params, Weighted(x, y, share))
    expected = losses_and_slopes(net, params, Samples(x[:, drawn], y[:, drawn]))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("written", [True, False])
def test_clipping_is_each_clients_own_and_each_parts(written: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    start = {
        "a": torch.randn(4, 3, 2, generator=draw, dtype=torch.float64),
        "own.a": torch.randn(4, generator=draw, dtype=torch.float64),
    }
    steep = torch.tensor([0.01, 1.0, 30.0, 1000.0], dtype=torch.float64)
    rule = LocalSGD(lr=0.01, momentum=0.9, weight_decay=0.1, clip=1.5, apart="own")

    def bumpy(p: Params, step: int) -> Tensor:
        return (step + 1) * (p["a"].sin().sum((-1, -2)) + p["own.a"] ** 2)

    def slopes(p: Params, step: int, into: Params) -> tuple[Tensor, Params]:
        of_a = (steep * (step + 1)).view(4, 1, 1) * p["a"].cos()
        return steep * bumpy(p, step), {"own.a": steep * (step + 1) * 2 * p["own.a"], "a": of_a}

    how = {"n_steps": 5, "rule": rule}
    reached, sums = (
        slopes_sgd(slopes, start, **how)
        if written
        else cohort_sgd(lambda p, step: steep * bumpy(p, step), start, **how)
    )
    for place in range(4):

        def own(p: Params, step: int, factor: Tensor = steep[place]) -> Tensor:
            return factor * bumpy(p, step)

        expected, mean = local_sgd(own, row(start, place), n_steps=5, rule=rule)
        assert sums[place].item() == pytest.approx(5 * mean.item())
        for key, value in expected.items():
            torch.testing.assert_close(reached[key][place], value, rtol=1e-12, atol=1e-14)


def test_the_default_gradient_is_that_of_cross_entropy_alone() -> None:
    samples = (Samples(torch.zeros(1, 1, 1), torch.zeros(1, 1, dtype=torch.int64)),)
    answer = torch.ones(1), {"w": torch.ones(1)}
    assert FedAvg().cohort_slopes({}, Context(), samples, lambda *_: answer) is answer
