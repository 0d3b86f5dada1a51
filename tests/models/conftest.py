"""Toy federations: vectors around class centres, every client with two of four classes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch

from latecomer.models.task import targets
from latecomer.models.task.clients import Clients
from latecomer.models.task.task import Task, make_task

N_CLASSES = 4
N_FEATURES = 6

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def make_population() -> Callable[..., Clients]:
    """Build clients; ``sizes`` are support sizes, every client has 8 query samples."""

    def build(
        sizes: tuple[int, ...] = (12,) * 8,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        classes_per_client: int = 2,
    ) -> Clients:
        draw = torch.Generator().manual_seed(seed)
        centres = 2.0 * torch.randn(
            N_CLASSES, N_FEATURES, generator=torch.Generator().manual_seed(99), dtype=dtype
        )
        labels, support, query, used = [], [], [], 0
        for client, size in enumerate(sizes):
            total = size + 8
            own = (torch.arange(total) % classes_per_client + client) % N_CLASSES
            labels.append(own)
            support.append(torch.arange(used, used + size))
            query.append(torch.arange(used + size, used + total))
            used += total
        y = torch.cat(labels)
        x = centres[y] + torch.randn(used, N_FEATURES, generator=draw, dtype=dtype)
        return Clients(
            x=x,
            y=y,
            support=torch.nn.utils.rnn.pad_sequence(support, batch_first=True),
            support_sizes=torch.tensor(sizes),
            query=torch.stack(query),
            query_sizes=torch.full((len(sizes),), 8),
            ids=torch.arange(100, 100 + len(sizes)),
            mean=torch.zeros(N_FEATURES, dtype=dtype),
            sd=torch.ones(N_FEATURES, dtype=dtype),
        )

    return build


@pytest.fixture(scope="session")
def make_toy_task() -> Callable[[], Task]:
    """Make the toy task: a dense net on six features."""
    size = {"hidden": 1, "width": 20}
    return partial(make_task, input_shape=(N_FEATURES,), n_classes=N_CLASSES, hypernetwork=size)


@pytest.fixture
def task(make_toy_task: Callable[[], Task]) -> Task:
    """Return a toy task of the test's own, whose net it may change."""
    return make_toy_task()


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The masks that nets were given so far, in order."""
    seen, drop = list[torch.Tensor](), targets.drop

    def watched(x: torch.Tensor, kept: torch.Tensor, share: float) -> torch.Tensor:
        seen.append(kept)
        return drop(x, kept, share)

    monkeypatch.setattr(targets, "drop", watched)
    return seen


@pytest.fixture
def images(make_population: Callable[..., Clients]) -> Clients:
    """The toy federation with noisy images of side 8 around its classes' means."""
    clients = make_population((12, 1, 7, 12, 3, 12, 9))
    draw = torch.Generator().manual_seed(0)
    means = torch.randn(4, 1, 8, 8, generator=draw)
    x = means[clients.y] + 0.5 * torch.randn(len(clients.y), 1, 8, 8, generator=draw)
    return replace(clients, x=x, mean=torch.zeros(()), sd=torch.ones(()))
