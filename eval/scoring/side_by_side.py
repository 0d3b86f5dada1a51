"""Scoring the clients of a group side by side, for devices that one client would leave idle.

Scores are the same as client by client, up to rounding of losses. The method serves client
by client; the host waits for the device once per group, after queueing all work.
"""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from latecomer.eval.scoring.one_after_another import Mask, Serve
from latecomer.eval.scoring.scores import ClientScore
from latecomer.models.engine.method import FixedWeights, Predictor, versions
from latecomer.models.task import client_axis
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import stack
from latecomer.models.task.task import Task

_NUMBERS = 2**24
"""Most values in the inputs of clients predicted at a time, including padding."""


def score_side_by_side(
    task: Task,
    clients: Clients,
    serve: Serve,
    mask: Mask,
    *,
    on_support: bool = False,
    at_most: int = _NUMBERS,
) -> list[ClientScore]:
    """Serve every client, predict many at a time and score them.

    Parameters
    ----------
    task : Task
    clients : Clients
        With labels.
    serve : callable
        Maps clients' numbers and supports to their predictors; each is one model, or one drawn
        from the same number of models.
    mask : callable
        Changes the logits ``[..., n_classes]`` of unknown classes.
    on_support : bool
        Whether clients are measured on their support instead of their query data.
    at_most : int
        Most values in the inputs predicted at a time; at least one client is always predicted.
    """
    sizes, own = clients.sizes_on_host[0 if on_support else 1], clients.sizes_on_host[0]
    table, true = clients.query, clients.query_sizes
    if on_support:
        table, true = clients.support, clients.support_sizes
    each = max(1, at_most // max(1, table.shape[1] * prod(task.input_shape)))
    wrong: list[Tensor] = []
    losses: list[Tensor] = []
    for first in range(0, len(clients), each):
        places = range(first, min(first + each, len(clients)))
        models = [*serve(places, [clients.support_of(place) for place in places])]
        here = slice(places.start, places.stop)
        rows, counts = table[here], true[here]
        x, y = clients.inputs(rows), clients.labels(rows)
        held = torch.arange(rows.shape[1], device=rows.device) < counts[:, None]
        known = _known(task, clients, here)[:, None]
        measured = []
        for beside in zip(*map(versions, models), strict=True):
            with torch.no_grad():
                logits = _logits(task, beside, x, sizes[here])
                measured.append(_measured(logits, mask(logits, known), y, held))
        wrong.append(torch.stack([bad for bad, _ in measured]).mean(dim=0))
        losses.append(torch.stack([total for _, total in measured]).mean(dim=0) / counts)
    if not wrong:
        return []
    # Both are copied to the host in one transfer.
    told = torch.stack([torch.cat(wrong), torch.cat(losses)]).tolist()
    entries = zip(clients.ids.tolist(), own, sizes, *told, strict=True)
    return [ClientScore(*entry) for entry in entries]


def _measured(logits: Tensor, masked: Tensor, y: Tensor, held: Tensor) -> tuple[Tensor, Tensor]:
    """Return each client's number of wrong samples and its summed loss, both ``[c]``."""
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
    wrong = (masked.argmax(dim=2) != y) & held
    return wrong.sum(dim=1).double(), each.view(y.shape).where(held, 0).sum(dim=1).double()


def _known(task: Task, clients: Clients, here: slice) -> Tensor:
    """Return which classes occur in the support labels, bool ``[c, n_classes]``."""
    rows, counts = clients.support[here], clients.support_sizes[here]
    held = torch.arange(rows.shape[1], device=rows.device) < counts[:, None]
    classes = torch.arange(task.n_classes, device=rows.device)
    shown = clients.labels(rows)[..., None] == classes
    return (shown & held[..., None]).any(dim=1)


def _logits(task: Task, models: Sequence[Predictor], x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return logits ``[c, B, n_classes]``; values beyond a client's true size are arbitrary."""
    fixed = [one for one in models if isinstance(one, FixedWeights) and one.task is task]
    if len(fixed) == len(models) and not task.one_by_one:
        return client_axis.logits(task.target, stack([one.weights for one in fixed]), x)
    made = x.new_zeros(*x.shape[:2], task.n_classes)
    for place, (model, size) in enumerate(zip(models, sizes, strict=True)):
        made[place, :size] = model(x[place, :size])
    return made
