"""One hypernetwork, target networks of several sizes: each as if it were alone."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from formula_federation import accuracy, generator, images
from torch import Tensor
from torch.nn import functional as F

from latecomer.models.engine.local_steps import LocalSGD, local_sgd
from latecomer.models.engine.method import FixedWeights, Method
from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.generators.hypernetworks import (
    cut,
    dealt,
    initial,
    largest,
    padded,
    shapes_of,
    sized_hypernetwork,
)
from latecomer.models.methods import make_method
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import Params, State, part, row
from latecomer.models.task.task import Task, make_task
from latecomer.models.traffic import Traffic, random_population, traffic, traffic_by_size

SIZES = ("lenet-s", "lenet", "lenet-l")
SIDE = 20
CONFIG = TrainConfig(rounds=3, cohort=5, local_steps=4, batch_size=4)
SHORT = TrainConfig(rounds=2, cohort=3, local_steps=2, batch_size=4)
pictures = partial(images, side=SIDE, dtype=torch.float64, means_seed=9)
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("pfedhn", {}),
    ("pfedhn", {"descriptors": "class_proportions"}),
    ("pfedhn_pc", {}),
    ("pfedhn_pc", {"head_layers": 3}),
    ("pfl_sampled", {}),
    ("pfl_nearest", {}),
    ("pfl_ensemble", {}),
]


def make(target: str = "lenet-l", dtype: torch.dtype = torch.float64, **size: Any) -> Task:
    return make_task(
        input_shape=(1, SIDE, SIDE),
        n_classes=4,
        target=target,
        hypernetwork={"hidden": 1, "width": 6, **size},
        dtype=dtype,
    )


def padding(table: Params, shapes: dict[str, tuple[int, ...]]) -> Tensor:
    """Return what lies beyond ``shapes`` in one client's tensors."""
    beyond = []
    for key, value in table.items():
        outside = torch.ones(value.shape, dtype=torch.bool)
        outside[tuple(slice(side) for side in shapes[key])] = False
        beyond.append(value[outside])
    return torch.cat(beyond)


def test_a_round_is_the_chain_rule_over_nets_trained_alone() -> None:
    """The whole of a round, with no padding anywhere in the reference."""
    task, clients = make(), pictures()
    config = replace(CONFIG, rounds=1, cohort=6)
    method = make_method("pfedhn", sizes=SIZES, local_lr=0.05, server_lr=0.1, local_momentum=0.5)
    schedule = Schedule(3, clients, config)
    cohort = schedule.cohort(0)
    before = method.init(task, clients, cohort, schedule.initial_noise())
    after = train(method, task, clients, config, seed=3)

    eta = {k: v.clone().requires_grad_() for k, v in part(before.server, "hyper").items()}
    embedding = before.clients["embedding"].clone().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    met = set()
    for place, member in enumerate(cohort.members.tolist()):
        name = SIZES[member % 3]
        met.add(name)
        alone = make(name)
        hidden = embedding[member] @ eta["trunk0.weight"].T + eta["trunk0.bias"]
        hidden = F.relu(hidden) @ eta["trunk1.weight"].T + eta["trunk1.bias"]
        theta = {
            key: (
                hidden @ eta[f"heads.{name}.{key}.weight"].T + eta[f"heads.{name}.{key}.bias"]
            ).view(shape)
            for key, shape in alone.shapes.items()
        }
        x, y = clients.inputs(cohort.rows[place, :, 0]), clients.labels(cohort.rows[place, :, 0])

        def loss(p: Params, step: int, task: Task = alone, x: Tensor = x, y: Tensor = y) -> Tensor:
            return task.loss(p, x[step], y[step])

        rule = LocalSGD(0.05, 0.5, 5e-5, 50.0)
        reached, _ = local_sgd(loss, theta, n_steps=4, rule=rule)
        for key, value in theta.items():
            total = total - (value * (reached[key] - value.detach())).sum()
    assert met == set(SIZES)
    slopes = torch.autograd.grad(total, [*eta.values(), embedding])
    for (key, value), slope in zip(eta.items(), slopes, strict=False):
        expected = value - 0.1 * (slope / 6 + 1e-3 * value)
        torch.testing.assert_close(after.server[f"hyper.{key}"], expected, rtol=1e-12, atol=1e-14)
    drawn = cohort.members
    expected = embedding - 0.1 * (slopes[-1] + 1e-3 * embedding)
    torch.testing.assert_close(
        after.clients["embedding"][drawn], expected[drawn], rtol=1e-12, atol=1e-14
    )


def recorded(method: Method, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Params]]:
    """Note members and weights reached of every cohort."""
    found: list[tuple[Tensor, Params]] = []
    finish = type(method).finish

    def spy(self: Method, task: Task, state: State, cohort: Any, start: Any, final: Params) -> Any:
        found.append((cohort.members, start.params))
        found.append((cohort.members, final))
        return finish(self, task, state, cohort, start, final)

    monkeypatch.setattr(type(method), "finish", spy)
    return found


@pytest.mark.thinned
@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_both_paths_agree_and_padding_stays_exactly_zero(
    name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    method = make_method(name, sizes=SIZES, local_lr=0.05, server_lr=0.1, **settings)
    task, clients = make(), pictures()
    found = recorded(method, monkeypatch)
    states = [
        train(method, task, clients, CONFIG, seed=4, path=path, chunk_size=size)
        for path, size in (("serial", None), ("vectorised", None), ("vectorised", 2))
    ]
    tables = [{**state.server, **state.clients} for state in states]
    for other in tables[1:]:
        assert list(other) == list(tables[0])
        for key, value in tables[0].items():
            torch.testing.assert_close(other[key], value, rtol=1e-9, atol=1e-9)
    assert len(found) == 3 * 3 * 2
    for members, table in found:
        for place, member in enumerate(members.tolist()):
            shapes = shapes_of(task, SIZES[member % 3])
            own = row(table, place)
            assert not bool(padding(own, shapes).any())
            assert (
                float(torch.cat([v.flatten() for v in cut(own, shapes).values()]).abs().min()) > 0
            )


@pytest.mark.parametrize("spectral", [False, True])
@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_one_size_is_the_method_without_sizes(
    name: str, settings: dict[str, Any], spectral: bool
) -> None:
    task, clients = make("lenet", spectral=spectral), pictures()
    served = []
    for sizes in ((), ("lenet",)):
        method = make_method(name, sizes=sizes, **settings)
        state = train(method, task, clients, SHORT, seed=2)
        x, support = clients.query_of(0).x, clients.support_of(0)
        seen = method.serve(task, state, 3, support, generator=generator())(x)
        novel = pictures(seed=5).support_of(1)
        short = {"novel_rounds": 1, "novel_steps": 2} if method.trains_newcomers else {}
        quick: Any = replace(method, **short)
        served.append((seen, quick.personalize(task, state, novel, generator=generator())(x)))
    assert torch.equal(served[0][0], served[1][0])
    assert torch.equal(served[0][1], served[1][1])


def test_a_size_learns_from_its_own_clients_and_all_share_the_trunk() -> None:
    method = make_method("pfedhn", sizes=SIZES, server_weight_decay=0.0)
    task, clients = make(), pictures()
    schedule = Schedule(0, clients, CONFIG)
    cohort = schedule.cohort(0)
    only = torch.tensor([0, 3])  # of the first size, both
    cohort = replace(cohort, members=only, sizes=clients.support_sizes[only])
    before = method.init(task, clients, cohort, schedule.initial_noise())
    start = method.start(task, before, clients, cohort, generator())
    final = {key: value + 0.01 * value.sign() for key, value in start.params.items()}
    finish = method.finish(task, before, cohort, start, final)
    after = method.aggregate(task, before, cohort, start, finish.uploads)
    moved = {k for k, v in before.server.items() if not torch.equal(v, after.server[k])}
    moved = {key.removeprefix("hyper.") for key in moved if key.startswith("hyper.")}
    assert {key for key in moved if key.startswith("trunk")}
    assert {key.split(".")[1] for key in moved if key.startswith("heads")} == {"lenet-s"}


def test_seen_clients_get_sizes_in_turn_whatever_the_seed_and_the_method() -> None:
    clients = pictures((4,) * 8)
    for name, seed in (("pfedhn", 0), ("pfedhn", 5), ("pfl_nearest", 0)):
        method = make_method(name, sizes=SIZES)
        state = train(method, make(), clients, replace(CONFIG, rounds=1), seed=seed)
        assert [method.target_of(state, i) for i in range(8)] == [*SIZES, *SIZES, *SIZES[:2]]
    assert dealt(SIZES, 75).bincount().tolist() == [25, 25, 25]  # pFedHN's Table 2


@pytest.mark.parametrize("name", ["pfedhn", "pfedhn_pc"])
@pytest.mark.parametrize("novel_size", ["largest", "lenet-s", "lenet"])
@pytest.mark.parametrize("size", [1, 6])
def test_newcomers_are_served_the_declared_size(name: str, novel_size: str, size: int) -> None:
    settings: dict[str, Any] = {"novel_rounds": 2, "novel_steps": 2, "novel_batch_size": 3}
    settings |= {"head_layers": 3} if name == "pfedhn_pc" else {}
    method = make_method(name, sizes=SIZES, novel_size=novel_size, **settings)
    task = make()
    state = train(method, task, pictures(), replace(CONFIG, rounds=1), seed=0)
    expected = "lenet-l" if novel_size == "largest" else novel_size
    assert method.target_of(state, None) == expected
    novel = pictures((size,), n_own=1, seed=3).support_of(0)
    served = method.personalize(task, state, novel, generator=generator())
    assert isinstance(served, FixedWeights)
    shapes = shapes_of(task, expected)
    assert not bool(padding(served.weights, shapes).any())
    assert all(bool(value.any()) for value in cut(served.weights, shapes).values())
    alone = make(expected).logits(cut(served.weights, shapes), novel.x)
    logits = served(novel.x)
    torch.testing.assert_close(logits, alone, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["pfl_sampled", "pfl_nearest", "pfl_ensemble"])
def test_foreign_models_of_any_size_serve_without_labels(name: str) -> None:
    method, task = make_method(name, sizes=SIZES), make()
    state = train(method, task, pictures(), replace(CONFIG, rounds=1), seed=0)
    assert method.target_of(state, None) == ""
    support, x = pictures(seed=3).support_of(1), pictures().query_of(0).x
    poisoned = Samples(support.x, (support.labels() + 1) % 4)
    given = (support, Samples(support.x, None), poisoned)
    logits = [method.personalize(task, state, s, generator=generator(1))(x) for s in given]
    assert logits[0].shape == (8, 4)
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


def test_smallest_clients_train() -> None:
    method = make_method("pfedhn_pc", sizes=SIZES)
    state = train(method, make(), pictures((1, 2, 1, 9, 1), n_own=1), CONFIG, seed=0)
    assert all(bool(v.isfinite().all()) for v in [*state.server.values(), *state.clients.values()])


@pytest.mark.nightly
def test_every_size_learns() -> None:
    """In float64: rounding of float32, which differs between processors, decides about a client."""
    fitting = {"novel_rounds": 8, "novel_steps": 8, "novel_batch_size": 8}
    method = make_method("pfedhn", sizes=SIZES, local_lr=0.02, server_lr=0.1, **fitting)
    task = make(dtype=torch.float64, width=20)
    seen = pictures((12,) * 12)
    novel = pictures((12,) * 3, seed=7)
    state = train(method, task, seen, TrainConfig(50, 4, 5, 8), seed=0)

    for place, name in enumerate(SIZES):
        own = range(place, 12, 3)
        assert accuracy(method, task, state, seen, seen=True, indices=own) >= 0.85, name
        served: Any = replace(method, novel_size=name)  # type: ignore[call-arg]
        assert accuracy(served, task, state, novel, seen=False) >= 0.85, name


def weights(size: str) -> int:
    filters = {"lenet-s": 8, "lenet": 16, "lenet-l": 32}[size]
    convolutions = 25 * filters + filters + 25 * filters * 2 * filters + 2 * filters
    return convolutions + (2 * filters * 4 * 120 + 120) + (120 * 84 + 84) + (84 * 4 + 4)


@pytest.mark.slow
def test_traffic_counts_each_sizes_own_weights() -> None:
    task = make(dtype=torch.float32)
    method, dim = make_method("pfedhn", sizes=SIZES), 1 + 40 // 4
    found = traffic_by_size(method, task)
    assert found == {size: Traffic(4 * weights(size), 4 * weights(size), 2 * dim) for size in SIZES}
    mean = round(sum(4 * weights(size) for size in SIZES) / 3)
    assert traffic(method, task) == Traffic(mean, mean, 2 * dim)
    for size in SIZES:
        alone = traffic(make_method("pfedhn"), make(size, torch.float32))
        assert found[size] == alone
    personal = make_method("pfedhn_pc", sizes=SIZES, head_layers=3)
    plain = make_method("pfedhn_pc", head_layers=3)
    for size, one in traffic_by_size(personal, task, random_population(task, 9)).items():
        small = make(size, torch.float32)
        assert one == traffic(plain, small, random_population(small, 9))


def test_largest_holds_all_the_others() -> None:
    assert largest(SIZES) == "lenet-l"
    assert largest(["lenet"]) == "lenet"
    assert largest([]) == ""
    # Dropout, kernels and depths must be one net's; images and vectors do not mix.
    for pair in (
        ["dense", "dense500"],
        ["small", "lenet"],
        ["four-conv", "lenet"],
        ["dense", "mlp"],
    ):
        with pytest.raises(ValueError, match=r"^sizes must be nets of which the largest has all"):
            largest(pair)


def test_padding_keeps_what_a_net_computes() -> None:
    task, x = make(), torch.randn(3, 1, SIDE, SIDE, generator=generator(), dtype=torch.float64)
    for size in SIZES:
        drawn = initial(task, size, generator(1))
        assert {key: tuple(value.shape) for key, value in drawn.items()} == task.shapes
        own = cut(drawn, shapes_of(task, size))
        alone = make(size)
        expected = alone.initial(generator(1))
        assert all(torch.equal(own[key], value) for key, value in expected.items())
        torch.testing.assert_close(
            task.logits(drawn, x), alone.logits(own, x), rtol=1e-13, atol=1e-15
        )
    assert torch.equal(padded(torch.ones(2, 1), (3,)), torch.tensor([[1.0, 0, 0], [1, 0, 0]]))


def test_what_one_hypernetwork_makes_follows_the_sizes_in_any_order() -> None:
    task = make()
    net = sized_hypernetwork(task, 5, SIZES)
    eta = net.initial(generator())
    inputs = torch.randn(4, 5, generator=generator(1), dtype=torch.float64)
    size = torch.tensor([2, 0, 2, 1])
    made = net(eta, inputs, size)
    for place in range(4):
        (_, alone), own = net.parts[int(size[place])], net.by_size(eta)[int(size[place])]
        expected = row(alone(own, inputs[place : place + 1]), 0)
        found = cut(row(made, place), dict(alone.shapes))
        for key, value in expected.items():
            torch.testing.assert_close(found[key], value, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": ["small", "lenet"]}, r"^sizes must be nets of which .* got sizes=small, lenet$"),
        ({"sizes": ["lenet", "lenet"]}, r"^sizes must be a list of different names among lenet, "),
        ({"sizes": "lenet"}, r"^sizes must be a list .*, got sizes='lenet'$"),
        ({"sizes": [3]}, r"^sizes must be a list .*, got sizes=\[3\]$"),
        (
            {"sizes": ["lenet-s", "lenet"], "novel_size": "lenet-l"},
            r"^novel_size must be largest or lenet-s or lenet, one of sizes, got ",
        ),
        ({"novel_size": "lenet"}, r"^novel_size must be largest, without sizes, got "),
    ],
)
def test_mistakes_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_method("pfedhn", **settings)


def test_a_target_that_is_not_the_largest_size_and_too_few_clients_are_refused() -> None:
    method = make_method("pfedhn", sizes=SIZES)
    with pytest.raises(ValueError, match=r"^target must be lenet-l, the largest of sizes=lenet-s,"):
        train(method, make("lenet"), pictures(), CONFIG, seed=0)
    few = replace(CONFIG, cohort=2)
    with pytest.raises(ValueError, match=r"^sizes must be at most as many as the 2 seen clients"):
        train(method, make(), pictures((4, 4)), few, seed=0)
