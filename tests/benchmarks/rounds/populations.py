"""Synthetic populations in the shapes of CIFAR-10: speed does not depend on what is learnt."""

import os
from dataclasses import fields, replace
from functools import lru_cache

import numpy as np
import torch

from latecomer.models.task.clients import Clients
from latecomer.models.task.task import Task, make_task

SMALL = os.environ.get("LATECOMER_BENCH") == "small"
"""Whether suites that have a small size run at it, to see that they run: no ratio is judged."""

SHAPE = (3, 32, 32)
N_CLASSES = 10


def lenet_task() -> Task:
    """Return the task of LeNet on these shapes."""
    return make_task(input_shape=SHAPE, n_classes=N_CLASSES, target="lenet")


def moved(clients: Clients, device: str) -> Clients:
    """Return the population on a device; the clients' names stay on the host."""
    tables = {one.name: getattr(clients, one.name) for one in fields(clients) if one.name != "ids"}
    on_it = {k: v.to(device) for k, v in tables.items() if isinstance(v, torch.Tensor)}
    return replace(clients, **on_it)


@lru_cache(maxsize=1)
def kept_samples(n_clients: int, n_support: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a population's inputs, standardised, and labels: made once in every process."""
    torch.set_num_threads(1)
    made = cifar_shaped(n_clients, n_support, 0)
    return made.inputs(torch.arange(len(made.x))), made.y


def cifar_shaped(
    n_clients: int,
    n_support: int,
    n_query: int,
    *,
    shape: tuple[int, ...] = SHAPE,
    dtype: torch.dtype = torch.uint8,
    n_classes: int = N_CLASSES,
) -> Clients:
    """Build clients of noise with two classes each; every sample belongs to one client."""
    rng = np.random.default_rng(0)
    each = n_support + n_query
    own = rng.integers(0, n_classes, (n_clients, 2))
    y = own[np.arange(n_clients)[:, None], rng.integers(0, 2, (n_clients, each))]
    rows = torch.arange(n_clients * each).view(n_clients, each)
    x = torch.from_numpy(rng.integers(0, 256, (n_clients * each, *shape), np.uint8))
    scale = (shape[0], *(1 for _ in shape[1:]))
    exact = dtype if dtype.is_floating_point else torch.float32
    return Clients(
        x=x if dtype is torch.uint8 else x.to(dtype) / 255,
        y=torch.from_numpy(y.reshape(-1)),
        support=rows[:, :n_support].contiguous(),
        support_sizes=torch.full((n_clients,), n_support),
        query=rows[:, n_support:].contiguous(),
        query_sizes=torch.full((n_clients,), n_query),
        ids=torch.arange(n_clients),
        mean=torch.full(scale, 0.5, dtype=exact),
        sd=torch.full(scale, 0.25, dtype=exact),
    )
