"""The bare loops do the engine's work, and nothing of it is the project's code."""

import ast
from dataclasses import dataclass
from pathlib import Path

import bare_dense
import bare_nets
import bare_rounds
import contestants
import pytest
import torch
from contestants import BareFederation, BarePeFLL, in_layout, local_rule
from populations import N_CLASSES, cifar_shaped

from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.methods.pefll import PeFLL
from latecomer.models.task.state import part
from latecomer.models.task.task import make_task

SHAPES = {bare_nets.lenet: (3, 28, 28), bare_nets.small: (1, 8, 8), bare_nets.dense: (12,)}
SMALL = (bare_nets.small, bare_nets.dense)
CASES = [
    *((net, variant) for net in SHAPES for variant in bare_rounds.VARIANTS),
    *((net, bare_rounds.ONE_ROW) for net in SMALL),
]
EVERY_CASE = pytest.mark.parametrize(
    ("net", "variant"), CASES, ids=[f"{net.__name__}, {variant}" for net, variant in CASES]
)
CONFIG = TrainConfig(rounds=2, cohort=3, local_steps=4, batch_size=6)
RULE = {"local_lr": 0.1, "local_momentum": 0.9, "local_weight_decay": 1e-3}


@pytest.fixture
def task(net):
    return make_task(
        input_shape=SHAPES[net],
        n_classes=N_CLASSES,
        hypernetwork={"width": 12},
        dtype=torch.float64,
    )


@pytest.fixture
def clients(net):
    return cifar_shaped(6, 20, 1, shape=SHAPES[net], dtype=torch.float64)


@pytest.fixture
def schedule(clients):
    return Schedule(0, clients, CONFIG)


def watched(kind):
    """Return ``kind`` with a list of what its cohorts upload."""
    uploaded = []

    @dataclass(frozen=True, kw_only=True)
    class Watched(kind):
        def aggregate(self, task, state, cohort, start, uploads):
            uploaded.append(uploads)
            return super().aggregate(task, state, cohort, start, uploads)

    return Watched, uploaded


@EVERY_CASE
def test_bare_pefll_round_is_the_engines(task, clients, schedule, net, variant):
    kind, uploaded = watched(PeFLL)
    state = train(kind(), task, clients, CONFIG, seed=0)
    bare = BarePeFLL.of(make_method("pefll"), task, clients, schedule, variant, net)
    data = BareFederation.of(clients, variant, torch.float64)
    for number in range(CONFIG.rounds):
        drawn = schedule.cohort(number)
        first = data.x[drawn.descriptor_rows], data.y[drawn.descriptor_rows]
        changes = bare.round(first, data.cohort(drawn.rows[:, :, 0]))
        for ours, theirs in zip(uploaded[number].values(), changes, strict=True):
            assert float(theirs.abs().max()) > 0
            torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-11)
    reached = [*part(state.server, "hyper").values(), *part(state.server, "encoder").values()]
    for ours, theirs in zip(reached, bare.eta, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


def test_the_blocked_bare_round_is_the_engines():
    shape = SHAPES[bare_nets.lenet]
    task = make_task(input_shape=shape, n_classes=N_CLASSES, hypernetwork={"width": 12})
    clients = cifar_shaped(6, 20, 1, shape=shape)
    schedule = Schedule(0, clients, CONFIG)
    kind, uploaded = watched(PeFLL)
    train(kind(), task, clients, CONFIG, seed=0, path="blocked")
    bare = BarePeFLL.of(make_method("pefll"), task, clients, schedule, bare_rounds.BLOCKED)
    data = BareFederation.of(clients, bare_rounds.BLOCKED)
    drawn = schedule.cohort(0)
    first = data.x[drawn.descriptor_rows], data.y[drawn.descriptor_rows]
    changes = bare.round(first, data.cohort(drawn.rows[:, :, 0]))
    for ours, theirs in zip(uploaded[0].values(), changes, strict=True):
        assert float((ours - theirs).norm()) <= 1e-4 * float(theirs.norm())


def assert_the_engines(method, task, clients, variant, bare_round):
    """Hold a bare round, of weights, data and rows drawn, to what the engine trains."""
    state = train(method, task, clients, CONFIG, seed=0)
    schedule = Schedule(0, clients, CONFIG)
    start = method.init(task, clients, schedule.cohort(0), schedule.initial_noise()).server
    weights = [in_layout(value.clone(), variant) for value in part(start, "target").values()]
    data = BareFederation.of(clients, variant, torch.float64)
    for number in range(CONFIG.rounds):
        bare_round(weights, data, schedule.cohort(number).rows[:, :, 0])
    for ours, before, theirs in zip(
        part(state.server, "target").values(), part(start, "target").values(), weights, strict=True
    ):
        assert not torch.equal(before, theirs)
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize("rule", [RULE, RULE | {"local_momentum": 0.0, "local_weight_decay": 0.0}])
@EVERY_CASE
def test_bare_fedavg_round_is_the_engines(task, clients, net, variant, rule):
    method = FedAvg(**rule)

    def bare_round(weights, data, rows):
        bare_rounds.fedavg_round(net, weights, data.cohort(rows), variant, local_rule(method))

    assert_the_engines(method, task, clients, variant, bare_round)


@pytest.mark.parametrize("net", [bare_nets.dense])
@pytest.mark.parametrize("rule", [RULE, RULE | {"local_lr": 5.0, "local_momentum": 0.0}])
def test_the_dense_round_by_hand_is_the_engines(task, clients, rule):
    """With the larger rate slopes grow long enough to be cut."""
    method = FedAvg(**rule)

    def bare_round(weights, data, rows):
        bare_dense.fedavg_round(weights, data.x[rows], data.y[rows], local_rule(method))

    assert_the_engines(method, task, clients, bare_rounds.ONE_ROW, bare_round)


@pytest.mark.parametrize(
    ("modules", "lines"), [((bare_rounds, bare_nets), 120), ((bare_dense,), 50)]
)
def test_bare_rounds_are_short_and_import_torch_alone(modules, lines):
    texts = [Path(module.__file__).read_text("utf-8") for module in modules]
    assert len("".join(texts).splitlines()) <= lines
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    plain = [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
    partial = [n.module or "." for n in nodes if isinstance(n, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in plain + partial} == {"torch"}


def test_batches_are_the_same_at_once_and_one_by_one(monkeypatch):
    data = BareFederation.of(cifar_shaped(2, 9, 1, shape=(1, 8, 8)), "channels-last")
    rows = torch.tensor([[3, 1, 2], [8, 4, 3]])
    at_once = list(data.batches(rows))
    monkeypatch.setattr(contestants, "_A_FEW", 0)
    one_by_one = list(data.batches(rows))
    assert len(at_once) == len(one_by_one) == 2
    for (x, y), (same_x, same_y) in zip(at_once, one_by_one, strict=True):
        assert torch.equal(x, same_x)
        assert torch.equal(y, same_y)
        assert len(x) == 3
