"""A federation, a net and weights that formulas give, so that others can compute rounds of them."""

from collections.abc import Iterable, Mapping, Sequence

import torch

from latecomer.models.engine.method import Method
from latecomer.models.engine.schedule import Cohort, Phase
from latecomer.models.engine.training import one_round
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import Params, State
from latecomer.models.task.task import Task, make_task

FEATURES, CLASSES, STEPS, BATCH = 6, 4, 4, 4


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
    return Clients(
        x=torch.cat(x),
        y=torch.cat(y),
        support=support,
        support_sizes=torch.tensor(sizes),
        query=support,
        query_sizes=torch.tensor(sizes),
        ids=torch.arange(len(sizes)),
        mean=torch.zeros((), dtype=torch.float64),
        sd=torch.ones((), dtype=torch.float64),
    )


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
