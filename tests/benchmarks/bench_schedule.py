"""Drawing one cohort's minibatches from a FEMNIST-sized population (aim: 2 ms)."""

import torch

from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.task.clients import Clients

CLIENTS, SUPPORT = 3_597, 227


def test_cohort(benchmark):
    rows = torch.arange(CLIENTS * SUPPORT).view(CLIENTS, SUPPORT)
    sizes = torch.full((CLIENTS,), SUPPORT)
    clients = Clients(
        x=torch.zeros(CLIENTS * SUPPORT, 1, dtype=torch.uint8),
        y=torch.zeros(CLIENTS * SUPPORT, dtype=torch.int64),
        support=rows,
        support_sizes=sizes,
        query=rows[:, :1],
        query_sizes=torch.ones_like(sizes),
        ids=torch.arange(CLIENTS),
        mean=torch.zeros(1),
        sd=torch.ones(1),
    )
    schedule = Schedule(0, clients, TrainConfig(500, cohort=5, local_steps=50, batch_size=32))
    drawn = benchmark(schedule.cohort, 7)
    assert drawn.rows.shape == (5, 50, 1, 32)
