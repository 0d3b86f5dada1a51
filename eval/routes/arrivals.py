"""Clients in the order they arrive, their inputs scaled by the data of the first clients."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from latecomer.eval.federation.groups import Federation, standardisation
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.eval.splits.split import ClientRows
from latecomer.models.engine.training import subset
from latecomer.models.task.clients import Clients


def arrivals(federation: Federation, plan: Plan) -> tuple[Clients, Clients]:
    """Return the clients in the order they arrive, and the novel ones, inputs scaled alike.

    Inputs are standardised by the support data of the first clients alone: scaled by all seen
    clients' data, a system would know something of clients before it scores them.
    """
    seen = federation.seen.clients
    if plan.independent:
        seen = _joined(seen, federation.certification.clients)
    order = subset(seen, range(plan.first + plan.clients))
    whose = federation.split.seen[: plan.first]
    order, novel = _scaled(federation, whose, order, federation.novel.clients)
    return order, novel


def joined(federation: Federation) -> tuple[Clients, Clients, Clients]:
    """Return seen and held-out clients as one population, and whom that is measured on.

    These are the new clients and the seen ones with their validation data as query; all three
    are scaled alike.
    """
    split = federation.split
    everyone = _joined(federation.seen.clients, federation.certification.clients)
    measured = federation.novel.clients, federation.validation.clients
    everyone, novel, validation = _scaled(
        federation, [*split.seen, *split.certification], everyone, *measured
    )
    return everyone, novel, validation


def _scaled(
    federation: Federation, whose: Sequence[ClientRows], *populations: Clients
) -> Iterator[Clients]:
    scale = standardisation(federation.dataset, whose)
    for clients in populations:
        mean, sd = (torch.from_numpy(v).to(clients.device) for v in (scale.mean, scale.sd))
        yield replace(clients, mean=mean, sd=sd)


def _joined(left: Clients, right: Clients) -> Clients:
    def both(name: str) -> torch.Tensor:
        tables = [getattr(left, name), getattr(right, name)]
        if tables[0].dim() > 1:
            width = max(table.shape[1] for table in tables)
            tables = [torch.nn.functional.pad(t, (0, width - t.shape[1])) for t in tables]
        return torch.cat(tables)

    return replace(
        left,
        support=both("support"),
        query=both("query"),
        support_sizes=both("support_sizes"),
        query_sizes=both("query_sizes"),
        ids=both("ids"),
    )
