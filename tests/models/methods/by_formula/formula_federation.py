"""Federations, nets and weights that formulas give, so that others can compute rounds of them.

And pictures that are drawn, with what tests of rounds compare.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from latecomer.models.engine.method import Method, Predictor
from latecomer.models.engine.schedule import Cohort, Phase
from latecomer.models.engine.training import Checkpoint, one_round, train
from latecomer.models.methods import make_method
from latecomer.models.methods.registry import method_facts
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State
from latecomer.models.task.targets import DenseNet
from latecomer.models.task.task import Task, make_task

FEATURES, CLASSES, STEPS, BATCH = 6, 4, 4, 4
Population = Callable[..., Clients]
"""What the fixture ``make_population`` is: from support sizes to clients."""
NEEDS_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


# Variants of methods whose objective or state differs from the defaults'.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("per_fedavg", {"variant": "hessian_free"}),
    ("pefll", {"posterior": "gaussian"}),
    ("pfedhn", {"descriptors": "class_proportions"}),
]


def by_formula(
    shapes: Mapping[str, Iterable[int]], scale: float = 0.3, phase: float = 0.0
) -> Params:
    """Return ``scale sin(.7310585786 j + .1 (i + 1) + phase)``: tensor i from 0, entry j from 1."""
    table: Params = {}
    for i, (name, shape) in enumerate(shapes.items()):
        size = torch.Size(shape)
        j = torch.arange(1, size.numel() + 1, dtype=torch.float64)
        table[name] = (scale * torch.sin(0.7310585786 * j + 0.1 * (i + 1) + phase)).view(size)
    return table


def holding(x: Tensor, y: Tensor, rows: Tensor, sizes: Tensor, **more: Tensor) -> Clients:
    """Return clients whose query samples are their support's, unless told; inputs are as given."""
    scale = {"mean": x.new_zeros(()), "sd": x.new_ones(())}
    told = {"query": rows, "query_sizes": sizes, "ids": torch.arange(len(rows)), **scale, **more}
    return Clients(x=x, y=y, support=rows, support_sizes=sizes, **told)


def federation(sizes: Sequence[int]) -> Clients:
    """Return clients with ``sizes[c]`` samples, ``x = sin(.37 j + .5 c)``, of two classes each."""
    x, y, rows, used = [], [], [], 0
    for client, size in enumerate(sizes):
        j = torch.arange(1, size * FEATURES + 1, dtype=torch.float64)
        x.append(torch.sin(0.37 * j + 0.5 * client).view(size, FEATURES))
        y.append((client + torch.arange(size) % 2) % CLASSES)
        rows.append(torch.arange(used, used + size))
        used += size
    support = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return holding(torch.cat(x), torch.cat(y), support, torch.tensor(sizes))


def a_task() -> Task:
    """Return the dense net of two hidden layers and small hypernetworks, in float64."""
    sizes = {"hidden": 1, "width": 7}
    return make_task(
        input_shape=(FEATURES,), n_classes=CLASSES, hypernetwork=sizes, dtype=torch.float64
    )


def cohort_of(
    clients: Clients, members: Sequence[int], *, number: int = 0, several: int = 1
) -> Cohort:
    """Return a round whose minibatches follow each other through a client's samples."""
    chosen = torch.tensor(members)
    places = torch.arange(STEPS * several * BATCH).view(STEPS, several, BATCH)
    sizes = clients.support_sizes[chosen].tolist()
    own = [(clients.support[one], size) for one, size in zip(members, sizes, strict=True)]
    return Cohort(
        round=number,
        members=chosen,
        sizes=clients.support_sizes[chosen],
        descriptor_rows=torch.stack([rows[torch.arange(BATCH) % size] for rows, size in own]),
        rows=torch.stack([rows[places % size] for rows, size in own]),
    )


def next_state(
    method: Method,
    state: State,
    clients: Clients,
    members: Sequence[int],
    path: str,
    *,
    number: int = 0,
    phase: Phase | None = None,
) -> State:
    """Return the state after a round, whose noise is drawn from a generator seeded ``number``."""
    task = a_task()
    cohort = cohort_of(clients, members, number=number, several=method.batches_per_step)
    now, noise = phase or method.phases(task)[0], torch.Generator().manual_seed(number)
    return one_round(method, task, state, clients, cohort, now, noise, path=path)[0]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(
    sizes: Sequence[int] = (3, 20, 7, 11, 5, 1, 9),
    *,
    side: int = 8,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    n_own: int = 2,
    queries: int = 8,
    means_seed: int | None = None,
) -> Clients:
    """Return noisy images around four class means, ``n_own`` classes a client."""
    each, n, draw = max(sizes) + queries, len(sizes), generator(seed)
    client = torch.arange(n).repeat_interleave(each)
    y = (torch.arange(each).repeat(n) % n_own + client) % 4
    of_means = draw if means_seed is None else generator(means_seed)
    means = torch.randn(4, 1, side, side, generator=of_means, dtype=dtype)
    noise = torch.randn(n * each, 1, side, side, generator=draw, dtype=dtype)
    rows = torch.arange(n * each).view(n, each)
    return holding(
        means[y] + 0.5 * noise,
        y,
        rows[:, : max(sizes)].contiguous(),
        torch.tensor(sizes),
        query=rows[:, max(sizes) :].contiguous(),
        query_sizes=torch.full((n,), queries),
        ids=torch.arange(100, 100 + n),
    )


def placed(clients: Clients, device: torch.device | str) -> Clients:
    """Put all tensors but the names on a device; not by the constructor, which looks at sizes."""
    there = object.__new__(Clients)
    for one in fields(Clients):
        value = getattr(clients, one.name)
        moves = isinstance(value, Tensor) and one.name != "ids"
        object.__setattr__(there, one.name, value.to(device) if moves else value)
    # Asked for once, when a population reaches its device; a round does not ask again.
    there.__dict__["sizes_on_host"] = clients.sizes_on_host
    return there


def dense_task(
    shape: tuple[int, ...] = (FEATURES,),
    *,
    dense: tuple[int, ...] = (12, 10),
    dropout: float = 0.0,
    dtype: torch.dtype = torch.float64,
) -> Task:
    """Return a dense net of the package with its widths and dropout."""
    net, size = DenseNet(shape, CLASSES, dense=dense, dropout=dropout), {"hidden": 1, "width": 10}
    return make_task(
        input_shape=shape, n_classes=CLASSES, target=net, hypernetwork=size, dtype=dtype
    )


def quick(name: str, steps: int = 3, **settings: Any) -> Method:
    """Make a method that serves newcomers after so few steps, where it takes any."""
    few = {} if "descriptors" in settings else dict.fromkeys(method_facts()[name]["serving"], steps)
    return make_method(name, **few | settings)


def kept_rounds(*parts: Any, **how: Any) -> tuple[State, list[Checkpoint]]:
    """Train, and return the state and what every round left."""
    kept: list[Checkpoint] = []
    return train(*parts, **how, on_checkpoint=lambda done: kept.append(done.copy())), kept


def model_of(
    method: Method,
    task: Task,
    state: State,
    support: Samples,
    member: int | None = None,
    *,
    seed: int = 0,
) -> Predictor:
    """Serve a seen client, or a newcomer (None), with the method's first predictor."""
    how: Any = {"predictor": method.predictors[0], "generator": generator(seed)}
    if member is None:
        return method.personalize(task, state, support, **how)
    return method.serve(task, state, member, support, **how)


def accuracy(
    method: Method,
    task: Task,
    state: State,
    clients: Clients,
    *,
    seen: bool,
    indices: Iterable[int] | None = None,
) -> float:
    """Return the share of clients' query samples, all or some clients', that are served right."""
    right = total = 0
    for index in range(len(clients)) if indices is None else indices:
        support, query, draw = clients.support_of(index), clients.query_of(index), generator(index)
        predict = (
            method.serve(task, state, index, support, generator=draw)
            if seen
            else method.personalize(task, state, support, generator=draw)
        )
        right += int((predict(query.x).argmax(1) == query.labels()).sum())
        total += len(query)
    return right / total


def image_task(dtype: torch.dtype = torch.float32, target: str | nn.Module = "auto") -> Task:
    size = {"hidden": 1, "width": 10}
    return make_task(
        input_shape=(1, 8, 8), n_classes=4, hypernetwork=size, dtype=dtype, target=target
    )


def tables(state: State) -> Iterator[tuple[str, Tensor]]:
    yield from state.server.items()
    yield from ((f"client {key}", value) for key, value in state.clients.items())


def assert_alike(left: State, right: State, tolerance: float) -> None:
    found = dict(tables(right))
    assert [key for key, _ in tables(left)] == list(found)
    for key, value in tables(left):
        torch.testing.assert_close(
            found[key], value, rtol=tolerance, atol=tolerance, msg=lambda m, key=key: f"{key}: {m}"
        )


def same(left: State, right: State) -> bool:
    """Tell whether two states are equal to the last bit."""
    one, other = dict(tables(left)), dict(tables(right))
    return list(one) == list(other) and all(torch.equal(one[key], other[key]) for key in one)


def recorded_changes(method: Method, patch: pytest.MonkeyPatch) -> list[Tensor]:
    """Return a list that each round adds what it changes of its clients' weights to, ``[c, n]``."""
    changes, finish = list[Tensor](), type(method).finish

    def recorded(
        self: Method, task: Task, state: State, cohort: Any, start: Any, final: Any
    ) -> Any:
        changes.append(torch.cat([(final[k] - v).flatten(1) for k, v in start.params.items()], 1))
        return finish(self, task, state, cohort, start, final)

    patch.setattr(type(method), "finish", recorded)
    return changes


def apart(left: Tensor, right: Tensor) -> float:
    """Return the largest difference of clients' changes, relative to the right one's length."""
    assert float(right.norm(dim=1).min()) > 0
    return float(((left - right).norm(dim=1) / right.norm(dim=1)).max())


def assert_all_like(found: Params, told: Mapping[str, Mapping[str, Any]], **close: float) -> None:
    assert list(found) == list(told)
    for name, figures in told.items():
        assert_like(found[name], figures, **close)


def assert_like(
    found: Tensor, figures: Mapping[str, Any], *, first: float = 1e-12, rounding: float = 1e-13
) -> None:
    """Compare a tensor with its shape, sum, sum of squares and first entries."""
    assert list(found.shape) == figures["shape"]
    flat = found.detach().reshape(-1)
    assert flat[:3].tolist() == pytest.approx(figures["first"], rel=1e-9, abs=first)
    assert flat.square().sum().item() == pytest.approx(figures["sum_of_squares"], rel=1e-9)
    # A sum of numbers that cancel is only as exact as its terms.
    terms = rounding * float(flat.abs().sum())
    assert flat.sum().item() == pytest.approx(figures["sum"], rel=1e-9, abs=terms)
