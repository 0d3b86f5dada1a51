"""A target network's head (its last layers) and the body below it."""

from collections.abc import Mapping

import torch
from torch import Tensor

from latecomer.models.task.state import Params
from latecomer.models.task.task import Task


def layers(task: Task) -> tuple[str, ...]:
    """Return the names of the target's layers with weights, from the input to the output."""
    return tuple(dict.fromkeys(name.rpartition(".")[0] for name in task.shapes))


def head_names(task: Task, n_layers: int = 1) -> tuple[str, ...]:
    """Return the names of the weights of the last ``n_layers`` layers, in order.

    Raises
    ------
    ValueError
        If the target has fewer layers.

    Examples
    --------
    >>> from latecomer.models.task.task import make_task
    >>> head_names(make_task(input_shape=(6,), n_classes=4))
    ('head.weight', 'head.bias')
    """
    known = layers(task)
    if n_layers > len(known):
        raise ValueError(
            f"head_layers must be at most the {len(known)} layers of the target, "
            f"got head_layers={n_layers}"
        )
    last = known[len(known) - n_layers :]
    return tuple(name for name in task.shapes if name.rpartition(".")[0] in last)


def body_names(task: Task, n_layers: int = 1) -> tuple[str, ...]:
    """Return the names of all weights not in :func:`head_names`, in order."""
    head = head_names(task, n_layers)
    return tuple(name for name in task.shapes if name not in head)


def features(task: Task, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Return the inputs of the last linear layer, ``[B, width]``.

    The target is applied with the identity as its last layer. This works for any net that ends in
    a linear layer, also one from outside the package.
    """
    head = {name: params[name] for name in head_names(task)}
    width = max(value.shape[-1] for value in head.values() if value.dim() == 2)
    identity = {
        name: torch.eye(width, dtype=value.dtype, device=value.device)
        if value.dim() == 2
        else value.new_zeros(width)
        for name, value in head.items()
    }
    return task.logits({**params, **identity}, x)


def join(task: Task, *tables: Mapping[str, Tensor]) -> Params:
    """Merge the weights of several tables, in the order of the target."""
    every = {name: value for table in tables for name, value in table.items()}
    return {name: every[name] for name in task.shapes}
