"""Training a hypernetwork and an encoder in turn, by way of an embedding of every seen client."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from latecomer.models.hypernetworks import hypernetwork, pull_back
from latecomer.models.local import clip_by_norm
from latecomer.models.method import Start
from latecomer.models.optimizers import sgd, sgd_memory
from latecomer.models.phases import Phase, Stage
from latecomer.models.schedule import Cohort
from latecomer.models.state import (
    Params,
    State,
    detached,
    gather,
    leaves,
    nest,
    part,
    repeat,
    scatter,
)
from latecomer.models.task import Task

LEARNT = {
    "train": ("hyper", "encoder"),
    "embeddings": ("hyper",),
    "encoder": ("encoder",),
    "finetune": ("hyper",),
}
"""Name of a phase -> sections of the server's state that move in it; all else rests."""


def embedding_phases(encoder_share: float, finetune_share: float) -> tuple[Phase, ...]:
    """Return the phases; shares are relative to the rounds of the first.

    Hypernetwork and embeddings learn together, as in pFedHN; then the encoder learns to predict
    the embeddings, for which no client takes a local step; then the hypernetwork is fine-tuned to
    the encoder's descriptors.

    >>> [phase.name for phase in embedding_phases(0.5, 0.5)]
    ['embeddings', 'encoder', 'finetune']
    """
    resting = (Stage(()),)
    last = Phase("finetune", finetune_share)
    return Phase("embeddings"), Phase("encoder", encoder_share, resting), last


def initial_embeddings(task: Task, n_clients: int, dim: int, generator: Generator) -> Params:
    """Draw standard normal embeddings ``[n, dim]``; returns them with their memory of SGD."""
    own = {"embedding": torch.randn(n_clients, dim, generator=generator, dtype=task.dtype)}
    return own | nest("sgd", sgd_memory(own))


def begin(task: Task, state: State, cohort: Cohort, describe: Callable[[Params], Tensor]) -> Start:
    """Make the cohort's weights from embeddings or descriptors, keeping the graph.

    In phase ``encoder`` no weights are made: clients get the encoder. ``describe`` maps a table
    with section ``encoder`` to the cohort's descriptors ``[c, dim]``.
    """
    sections = LEARNT[cohort.phase]
    moving = leaves({k: v for k, v in state.server.items() if k.split(".")[0] in sections})
    table = {**state.server, **moving}
    with torch.enable_grad():
        if cohort.phase == "embeddings":
            moving["embedding"] = state.clients["embedding"][cohort.members].requires_grad_()
            made = weights(task, table, moving["embedding"])
        elif cohort.phase == "encoder":
            sent = repeat(part(state.server, "encoder"), len(cohort))
            return Start(sent, memory=(moving, {"descriptor": describe(table)}))
        else:
            made = weights(task, table, describe(table))
    return Start(detached(made), memory=(moving, made))


def weights(task: Task, table: Params, descriptors: Tensor) -> Params:
    """Return what section ``hyper`` of a table makes of descriptors ``[c, dim]``."""
    return hypernetwork(task, descriptors.shape[1])(part(table, "hyper"), descriptors)


def toward(descriptors: Tensor, embeddings: Tensor) -> Tensor:
    """Return minus the slope of ``sum |descriptor - embedding|^2`` in the descriptors.

    >>> toward(torch.tensor([[1.0]]), torch.tensor([[3.0]]))
    tensor([[4.]])
    """
    return 2 * (embeddings - descriptors.detach())


def learn(
    state: State,
    cohort: Cohort,
    start: Start,
    uploads: Params,
    rule: tuple[float, float, float],
    clip: float,
) -> State:
    """Pull changes back and take one step of SGD on what moves; all else stays.

    Parameters
    ----------
    state : State
        Sections ``hyper``, ``encoder`` and ``sgd``; clients' embeddings where there are some.
    cohort : Cohort
        Its phase decides what ``uploads`` are.
    start : Start
        What :func:`begin` returned.
    uploads : dict of str to Tensor
        Changes of the weights; in phase ``encoder`` descriptors change toward the embeddings.
    rule : tuple of float
        Learning rate, momentum and weight decay.
    clip : float
        Largest norm of the networks' gradient, a mean over the cohort.
    """
    moving, made = start.memory
    clients = state.clients
    if cohort.phase == "encoder":
        goal = clients["embedding"][cohort.members]
        uploads = {"descriptor": toward(made["descriptor"], goal)}
    found = pull_back(made, uploads, [*moving.values()])
    slopes = dict(zip(moving, found, strict=True))
    if cohort.phase == "embeddings":
        own = {"embedding": moving["embedding"]}
        memory = gather(part(clients, "sgd"), cohort.members)
        moved, memory = sgd(own, {"embedding": slopes.pop("embedding")}, memory, *rule)
        clients = scatter(clients, cohort.members, moved | nest("sgd", memory))
    clipped = clip_by_norm([slope / len(cohort) for slope in slopes.values()], clip)
    against = dict(zip(slopes, clipped, strict=True))
    learnt = {key: moving[key] for key in against}
    moved, memory = sgd(learnt, against, part(state.server, "sgd"), *rule)
    return State({**state.server, **moved, **nest("sgd", memory)}, clients)
