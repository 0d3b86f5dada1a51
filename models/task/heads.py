"""A target network's head (its last layers) and the body below it."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from latecomer.models.task.state import Params
from latecomer.models.task.targets import StatelessNet
from latecomer.models.task.task import Task


def layers(task: Task) -> tuple[str, ...]:
    """Return the names of the target's layers with weights, as registered, the head last.

    The head (`Task.head`) is one layer, whatever it holds.
    """
    known = dict.fromkeys(_layer(task, name) for name in task.shapes)
    return (*(name for name in known if name != task.head), *(n for n in known if n == task.head))


def _layer(task: Task, weight: str) -> str:
    within = weight.startswith(f"{task.head}.") or weight == task.head
    return task.head if task.head and within else weight.rpartition(".")[0]


def head_names(task: Task, n_layers: int = 1) -> tuple[str, ...]:
    """Return the names of the weights of the last ``n_layers`` layers, in order.

    Raises
    ------
    ValueError
        If the target has fewer layers, or no head.

    Examples
    --------
    >>> from latecomer.models.task.task import make_task
    >>> head_names(make_task(input_shape=(6,), n_classes=4))
    ('head.weight', 'head.bias')
    """
    known = layers(task)
    if n_layers and (not task.head or task.head not in known):
        why = (
            f"no module {task.head!r} with weights" if task.head else "no linear layer that ends it"
        )
        raise ValueError(
            "target must have a head for methods with a body and a head: name it by a class "
            f'attribute such as head = "fc", got a net with {why}'
        )
    if n_layers > len(known):
        raise ValueError(
            f"head_layers must be at most the {len(known)} layers of the target, "
            f"got head_layers={n_layers}"
        )
    last = known[len(known) - n_layers :]
    return tuple(name for name in task.shapes if _layer(task, name) in last)


def body_names(task: Task, n_layers: int = 1) -> tuple[str, ...]:
    """Return the names of all weights not in :func:`head_names`, in order."""
    head = head_names(task, n_layers)
    return tuple(name for name in task.shapes if name not in head)


def features(task: Task, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Return the inputs of the last linear layer, ``[B, width]``.

    The target is applied with the identity as its head. This works for any net that ends in a
    linear layer, also one from outside the package.

    Raises
    ------
    ValueError
        If a net from outside does not end in its head, or that is not one linear layer.
    """
    head = {name: params[name] for name in head_names(task)}
    matrices = [value for value in head.values() if value.dim() == 2]
    if len(matrices) != 1 or len(head) > 2:
        raise ValueError(
            "target must end in one linear layer for its inputs to be features, got head "
            f"{task.head}"
        )
    width = matrices[0].shape[1]
    identity = {
        name: torch.eye(width, dtype=value.dtype, device=value.device)
        if value.dim() == 2
        else value.new_zeros(width)
        for name, value in head.items()
    }
    if isinstance(task.target, StatelessNet):
        return task.logits({**params, **identity}, x)
    try:
        made = task.logits({**params, **identity}, x)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # what stands behind the head takes its outputs alone
        raise ValueError(_not_last(task)) from error
    _check_features(task, params, x, made, head)
    return made


def features_and_logits(
    task: Task, params: Mapping[str, Tensor], x: Tensor
) -> tuple[Tensor, Tensor]:
    """Return :func:`features` and the logits made from them, from one pass where that is known.

    >>> from latecomer.models.task.task import make_task
    >>> task = make_task(input_shape=(6,), n_classes=4)
    >>> params = task.initial(torch.Generator().manual_seed(0))
    >>> phi, logits = features_and_logits(task, params, torch.ones(2, 6))
    >>> torch.equal(logits, task.logits(params, torch.ones(2, 6)))
    True
    """
    made = features(task, params, x)
    if not isinstance(task.target, StatelessNet):
        return made, task.logits(params, x)
    weight, bias = (params[name] for name in head_names(task))
    return made, F.linear(made, weight, bias)


def _check_features(
    task: Task, params: Mapping[str, Tensor], x: Tensor, made: Tensor, head: Params
) -> None:
    weight, *bias = sorted(head.values(), key=lambda value: -value.dim())
    logits = task.logits(params, x)
    ends = made.shape == (len(x), weight.shape[1]) and torch.allclose(
        F.linear(made, weight, *bias), logits, rtol=1e-2, atol=1e-3
    )
    if not ends:
        raise ValueError(_not_last(task))


def _not_last(task: Task) -> str:
    return (
        f"target must end in its head for the head's inputs to be features, got {task.head} with "
        "something behind it: let the class attribute head name the last linear layer, and forward "
        "return its outputs as they are"
    )


def join(task: Task, *tables: Mapping[str, Tensor]) -> Params:
    """Merge the weights of several tables, in the order of the target."""
    every = {name: value for table in tables for name, value in table.items()}
    return {name: every[name] for name in task.shapes}
