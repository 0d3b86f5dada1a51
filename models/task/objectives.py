"""What is minimised: cross-entropy, squared-norm regularisers and their gradients."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from latecomer.models.task.state import Params


def squared_norm(params: Mapping[str, Tensor]) -> Tensor:
    """Return the sum of squares of all entries of all tensors, accumulated in float64.

    >>> import torch
    >>> squared_norm({"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(2.0)}).item()
    9.0
    """
    total = torch.zeros((), dtype=torch.float64)
    for value in params.values():
        total = total.to(value.device) + value.detach().to(torch.float64).square().sum()
    return total


def ridge_decay(strength: float) -> float:
    """Return the weight decay that ``strength * ||params||^2`` amounts to: ``2 * strength``.

    The gradient of the penalty is ``2 * strength * params``; both SGD and AdamW shrink weights by
    ``lr * weight_decay * params`` a step.
    """
    return 2.0 * strength


def gradients(objective: Callable[[Params], Tensor], params: Mapping[str, Tensor]) -> Params:
    """Return the gradient of ``objective`` at ``params``, detached from the graph."""
    point = {key: value.detach().requires_grad_() for key, value in params.items()}
    with torch.enable_grad():
        slopes = torch.autograd.grad(objective(point), list(point.values()))
    return dict(zip(point, slopes, strict=True))


def pulled_back(
    made: Sequence[Tensor],
    against: Sequence[Tensor],
    point: Sequence[Tensor],
    *,
    again: bool = False,
) -> list[Tensor]:
    """Return the transposed Jacobian of ``made`` in ``point``, applied to ``against``.

    They are gradients of one number, the sum of all products of ``made`` and ``against``: torch
    gives the same bits for ``against`` as ``grad_outputs``, but imports sympy first. Leaves
    ``point`` that do not enter ``made`` get zeros; ``again``: whether the graph is kept.

    >>> import torch
    >>> x = torch.tensor([1.0, 3.0], requires_grad=True)
    >>> pulled_back([x**2], [torch.tensor([1.0, 0.5])], [x])
    [tensor([2., 3.])]
    """
    with torch.enable_grad():
        products = [(value * along).sum() for value, along in zip(made, against, strict=True)]
        number = torch.stack(products).sum()
    slopes = torch.autograd.grad(number, point, retain_graph=again, materialize_grads=True)
    return list(slopes)


def half_squared_distance(
    params: Mapping[str, Tensor], centre: Mapping[str, Tensor], times: float = 1.0
) -> Tensor:
    """Return ``times * |params - centre|^2 / 2`` with its graph; a 0-d tensor.

    >>> import torch
    >>> half_squared_distance({"a": torch.tensor([3.0, 1.0])}, {"a": torch.zeros(2)}).item()
    5.0
    """
    gaps = [(value - centre[key]).square().sum() for key, value in params.items()]
    return times * (torch.stack(gaps).sum() / 2)


def half_squared_distances(params: Mapping[str, Tensor], centre: Mapping[str, Tensor]) -> Tensor:
    """Return every client's ``|params - centre|^2 / 2``, of weights ``[c, ...]``; ``[c]``.

    >>> import torch
    >>> half_squared_distances({"a": torch.tensor([[3.0], [1.0]])}, {"a": torch.ones(1)}).tolist()
    [2.0, 0.0]
    """
    gaps = [(value - centre[key]).reshape(len(value), -1) for key, value in params.items()]
    return torch.cat(gaps, dim=1).square().sum(1) / 2
