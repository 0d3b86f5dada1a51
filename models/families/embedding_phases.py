"""Training an encoder and a hypernetwork that make each client's weights, together or in turn."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from latecomer.models.engine.local_steps import LocalSGD, clip_by_norm, local_sgd
from latecomer.models.engine.method import Start
from latecomer.models.engine.optimizers import Optimizer
from latecomer.models.engine.phases import Phase
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families import embedding_table
from latecomer.models.families.embedding_table import Rule
from latecomer.models.generators.hypernetworks import hypernetwork, pull_back
from latecomer.models.task.state import Params, State, detached, leaves, nest, part
from latecomer.models.task.task import Task

LEARNT = {
    "train": ("hyper", "encoder"),
    "embeddings": ("hyper",),
    "finetune": ("hyper",),
}
"""Name of a phase -> sections of the server's state that a change is pulled back to."""


def embedding_phases(finetune_share: float) -> tuple[Phase, ...]:
    """Return the phases of training in turn; the share is relative to the rounds of the first.

    Hypernetwork and embeddings learn together, as in pFedHN, while clients train the encoder
    beside them to predict their embedding. Then the encoder is frozen, and the hypernetwork
    is fine-tuned on the encoder's descriptors.

    >>> [phase.name for phase in embedding_phases(0.5)]
    ['embeddings', 'finetune']
    """
    return Phase("embeddings"), Phase("finetune", finetune_share)


@dataclass(frozen=True, eq=False)
class _Memory:
    """What ``learn`` needs from ``begin``: leaves, weights made from them, the encoder."""

    moving: Params
    made: Params
    encoder: Params


def begin(
    task: Task,
    state: State,
    cohort: Cohort,
    describe: Callable[[Params], Tensor],
    predict: Callable[[int, Tensor], Params],
) -> Start:
    """Make the cohort's weights from embeddings or descriptors, keeping the graph.

    Parameters
    ----------
    task, state, cohort
        The round.
    describe : callable
        Maps a table with section ``encoder`` to the cohort's descriptors ``[c, dim]``.
    predict : callable
        Maps a client's place in the cohort and its embedding ``[dim]`` to the encoder as that
        client trains it; called only in phase ``embeddings``.
    """
    sections = LEARNT[cohort.phase]
    moving = leaves({k: v for k, v in state.server.items() if k.split(".")[0] in sections})
    table, trained = {**state.server, **moving}, Params()
    with torch.enable_grad():
        if cohort.phase == "embeddings":
            targets = state.clients["embedding"][cohort.members]
            trained = _mean([predict(place, goal) for place, goal in enumerate(targets)])
            moving["embedding"] = targets.requires_grad_()
            made = weights(task, table, moving["embedding"])
        else:
            made = weights(task, table, describe(table))
    return Start(detached(made), memory=_Memory(moving, made, trained))


def _mean(tables: list[Params]) -> Params:
    return {key: torch.stack([one[key] for one in tables]).mean(dim=0) for key in tables[0]}


def weights(task: Task, table: Params, descriptors: Tensor) -> Params:
    """Return the weights that section ``hyper`` of a table makes from descriptors ``[c, dim]``."""
    return hypernetwork(task, descriptors.shape[1])(part(table, "hyper"), descriptors)


def predicting(
    describe: Callable[[Params], Tensor], encoder: Params, goal: Tensor, rule: LocalSGD, steps: int
) -> Params:
    """Return the encoder after one client's local steps down ``|descriptor - goal|^2``.

    ``describe`` maps an encoder to the descriptor ``[dim]`` of all the client's samples.

    >>> start, rule = {"w": torch.tensor(1.0)}, LocalSGD(lr=0.25, momentum=0.0)
    >>> predicting(lambda encoder: encoder["w"], start, torch.tensor(3.0), rule, 1)
    {'w': tensor(2.)}
    """

    def objective(moving: Params, _: int) -> Tensor:
        return (describe(moving) - goal).square().sum()

    return local_sgd(objective, encoder, n_steps=steps, rule=rule)[0]


def learn(
    state: State,
    cohort: Cohort,
    start: Start,
    uploads: Params,
    optimizer: Optimizer,
    rule: Rule,
    clip: float,
) -> State:
    """Pull changes back and take a step on what moves; all else stays.

    Parameters
    ----------
    state : State
        Sections ``hyper``, ``encoder`` and ``optimizer``; clients' embeddings if there are any.
    cohort : Cohort
        Its phase decides what moves.
    start : Start
        What :func:`begin` returned.
    uploads : dict of str to Tensor
        Changes of the clients' weights.
    optimizer : Optimizer
        The step of the networks.
    rule : tuple of float
        Learning rate, momentum and weight decay of the SGD of the embeddings.
    clip : float
        Largest norm of the gradient of networks (a mean over the cohort) and embeddings together.
    """
    held = start.memory
    summed = dict(
        zip(held.moving, pull_back(held.made, uploads, [*held.moving.values()]), strict=True)
    )
    slopes = {k: v if k == "embedding" else v / len(cohort) for k, v in summed.items()}
    slopes = dict(zip(slopes, clip_by_norm([*slopes.values()], clip), strict=True))
    clients, server = state.clients, dict(state.server)
    if cohort.phase == "embeddings":
        of_embeddings = slopes.pop("embedding")
        clients = embedding_table.moved(
            clients, cohort.members, of_embeddings, rule, resting="move"
        )
        server |= nest("encoder", held.encoder)
    learnt = {key: held.moving[key] for key in slopes}
    moved, memory = optimizer.step(learnt, slopes, part(state.server, "optimizer"))
    return State({**server, **moved, **nest("optimizer", memory)}, clients)
