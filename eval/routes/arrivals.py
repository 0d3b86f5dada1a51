"""Clients in the order they arrive, their inputs scaled by the data of the first clients."""

from dataclasses import replace

import torch

from latecomer.eval.federation.groups import Federation, standardisation
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.models.engine.training import subset
from latecomer.models.task.clients import Clients


def arrivals(federation: Federation, plan: Plan) -> tuple[Clients, Clients]:
    """Return the clients in the order they arrive, and the novel ones, inputs scaled alike.

    Inputs are standardised by the support data of the first clients alone: scaled by all seen
    clients' data, a system would know something of clients before it scores them.
    """
    split = federation.split
    scale = standardisation(federation.dataset, split.seen[: plan.first])
    seen = federation.seen.clients
    if plan.independent:
        seen = _joined(seen, federation.certification.clients)
    mean, sd = (torch.from_numpy(v).to(seen.device) for v in (scale.mean, scale.sd))
    order = subset(seen, range(plan.first + plan.clients))
    return replace(order, mean=mean, sd=sd), replace(federation.novel.clients, mean=mean, sd=sd)


def joined(federation: Federation) -> tuple[Clients, Clients, Clients]:
    """Return seen and held-out clients as one population, and whom that is measured on.

    These are the new clients and the seen ones with their validation data as query; all three
    are scaled alike.
    """
    split = federation.split
    scale = standardisation(federation.dataset, [*split.seen, *split.certification])
    everyone = _joined(federation.seen.clients, federation.certification.clients)
    mean, sd = (torch.from_numpy(v).to(everyone.device) for v in (scale.mean, scale.sd))
    everyone, novel, validation = (
        replace(clients, mean=mean, sd=sd)
        for clients in (everyone, federation.novel.clients, federation.validation.clients)
    )
    return everyone, novel, validation


def _joined(left: Clients, right: Clients) -> Clients:
    def rows(name: str) -> torch.Tensor:
        tables = [getattr(left, name), getattr(right, name)]
        width = max(table.shape[1] for table in tables)
        padded = [torch.nn.functional.pad(t, (0, width - t.shape[1])) for t in tables]
        return torch.cat(padded)

    def column(name: str) -> torch.Tensor:
        return torch.cat([getattr(left, name), getattr(right, name)])

    return replace(
        left,
        support=rows("support"),
        query=rows("query"),
        support_sizes=column("support_sizes"),
        query_sizes=column("query_sizes"),
        ids=column("ids"),
    )
