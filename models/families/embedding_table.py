"""The table of the seen clients' learnt embeddings, and the step that moves it."""

import torch
from torch import Generator, Tensor

from latecomer.models.engine.optimizers import sgd, sgd_memory
from latecomer.models.task.state import Params, gather, nest, part, scatter
from latecomer.models.task.task import Task

Rule = tuple[float, float, float]
"""Learning rate, momentum and weight decay."""


def initial_embeddings(task: Task, n_clients: int, dim: int, generator: Generator) -> Params:
    """Draw standard normal embeddings ``[n, dim]``; return them with their SGD memory."""
    embeddings = {"embedding": torch.randn(n_clients, dim, generator=generator, dtype=task.dtype)}
    return embeddings | nest("sgd", sgd_memory(embeddings))


def moved(clients: Params, members: Tensor, slopes: Tensor, rule: Rule, *, resting: str) -> Params:
    """Return the clients' state after a step of SGD on the embeddings.

    Parameters
    ----------
    clients : dict of str to Tensor
        ``embedding [n, dim]`` and its memory ``sgd.embedding``; other entries stay.
    members : Tensor
        The round's clients, ``[c]``.
    slopes : Tensor
        Gradients of their embeddings, ``[c, dim]``.
    rule : tuple of float
        Learning rate, momentum and weight decay.
    resting : str
        What becomes of all other embeddings. ``move``: they decay and go on with their momentum, as
        in the published code of pFedHN, where one SGD moves the whole table. ``stay``: no change.

    Examples
    --------
    >>> own = {"embedding": torch.ones(2, 1), "sgd.embedding": torch.zeros(2, 1)}
    >>> step = torch.tensor([1]), torch.tensor([[2.0]]), (0.1, 0.0, 0.5)
    >>> [moved(own, *step, resting=word)["embedding"].T for word in ("move", "stay")]
    [tensor([[0.9500, 0.7500]]), tensor([[1.0000, 0.7500]])]
    """
    table, memory = clients["embedding"], part(clients, "sgd")
    if resting == "move":
        against = torch.zeros_like(table).index_copy(0, members, slopes)
        new, kept = sgd({"embedding": table}, {"embedding": against}, memory, *rule)
        return {**clients, **new, **nest("sgd", kept)}
    before, against = {"embedding": table[members]}, slopes
    new, kept = sgd(before, {"embedding": against}, gather(memory, members), *rule)
    return scatter(clients, members, new | nest("sgd", kept))
