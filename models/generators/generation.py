"""From a client's labelled samples to the weights of its model: encoder, then hypernetwork.

A generator's table holds the sections ``hyper`` and ``encoder`` (weights) and ``descriptor`` (the
scalar mean and standard deviation that descriptors are standardised with).
"""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Generator, Tensor

from latecomer.models.engine.newcomers import Messages, one_model
from latecomer.models.engine.schedule import Cohort
from latecomer.models.engine.threads import each, in_threads
from latecomer.models.generators.encoders import encoder
from latecomer.models.generators.hypernetworks import hypernetwork
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, detached, move, nest, part, row
from latecomer.models.task.task import Task

NETWORKS = ("hyper", "encoder")
"""Sections that hold weights; whatever else a table holds is not learnt."""


def initial_table(
    task: Task, dim: int, clients: Clients, first: Cohort, generator: Generator
) -> Params:
    """Draw both networks, and take the standardisation from one descriptor.

    As in PeFLL's published code, mean and standard deviation are scalars, taken over the ``dim``
    entries of the very first client's first descriptor, and frozen; with a single entry, and with
    equal ones, the standard deviation is 1.
    """
    hyper = move(hypernetwork(task, dim).initial(generator), clients.device)
    embedding = move(encoder(task, dim).initial(generator), clients.device)
    rows = first.descriptor_rows[:1]
    with torch.no_grad():
        raw = encoder(task, dim)(embedding, clients.inputs(rows), clients.labels(rows))
    mean = raw.mean()
    sd = raw.std() if dim > 1 else torch.zeros_like(mean)
    scale = {"mean": mean, "sd": torch.where(sd > 0, sd, torch.ones_like(sd))}
    return nest("hyper", hyper) | nest("encoder", embedding) | nest("descriptor", scale)


def weights_of(table: Mapping[str, Tensor]) -> Params:
    """Return the learnt entries of a generator's table, under their full names."""
    return {key: value for key, value in table.items() if key.split(".")[0] in NETWORKS}


def describe(task: Task, table: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Return the standardised descriptors ``[c, dim]`` of sets ``x [c, b, ...]``, ``y [c, b]``."""
    dim = table["hyper.trunk0.weight"].shape[1]
    raw = encoder(task, dim)(part(table, "encoder"), x, y)
    return (raw - table["descriptor.mean"]) / table["descriptor.sd"]


def generate(task: Task, table: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Params:
    """Return target weights ``[c, ...]`` for sets ``x [c, b, ...]``, ``y [c, b]``."""
    descriptors = describe(task, table, x, y)
    return hypernetwork(task, descriptors.shape[1])(part(table, "hyper"), descriptors)


def generate_each(
    task: Task, table: Mapping[str, Tensor], supports: Sequence[Samples]
) -> Iterator[Params]:
    """Yield each client's target weights ``[1, ...]``, the same as if it were served alone."""
    dim = table["hyper.trunk0.weight"].shape[1]
    encoder(task, dim)  # built here: threads would each do so
    apart = in_threads(task, table["descriptor.mean"].device, min(map(len, supports)))

    def described(own: Samples) -> Tensor:
        return describe(task, table, own.x[None], own.labels()[None])

    alone = each(described, supports, apart=apart)
    network = hypernetwork(task, dim)
    return network.each(part(table, "hyper"), alone)


def generate_one(task: Task, table: Mapping[str, Tensor], support: Samples) -> Params:
    """Return the target weights of one client from its whole support, without a graph."""
    with torch.no_grad():
        made = generate(task, detached(table), support.x[None], support.labels()[None])
    return row(made, 0)


def encoder_messages(task: Task, table: Mapping[str, Tensor]) -> Messages:
    """Return the messages of who is sent an encoder, tells its descriptor and is sent its model."""
    encoder_size = sum(value.numel() for value in part(table, "encoder").values())
    descriptor = int(table["hyper.trunk0.weight"].shape[1])
    return Messages(1, encoder_size + one_model(task).down, descriptor)
