"""Local steps of a whole cohort from gradients that are written out, without autograd."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.task.state import Params
from latecomer.models.task.targets import DenseNet
from latecomer.models.task.task import Task

Slopes = Callable[[Params, int, Params], tuple[Tensor, Params]]
"""``(params, step, into) -> (losses [c], gradient)``, clients on axis 0. It is given the same
tensors at every step, which are changed in place: it must copy what it keeps. The gradient is
either written to all tensors of ``into``, which are then returned, or new."""


def has_written_slopes(task: Task, device: torch.device) -> bool:
    """Tell whether the task's cross-entropy has its gradient written out: dense nets on a CPU.

    A GPU launches a recorded backward pass as quickly. Products in a lower precision round their
    gradients, too.
    """
    dense = type(task) is Task and type(task.target) is DenseNet
    return dense and task.narrow is None and device.type == "cpu"


def slopes_sgd(
    slopes: Slopes, params: Mapping[str, Tensor], *, n_steps: int, rule: LocalSGD
) -> tuple[Params, Tensor]:
    """Take ``n_steps`` steps of SGD on every client's weights; clients do not affect each other.

    Parameters
    ----------
    slopes : callable
        Each client's loss and its gradient.
    params, n_steps, rule
        As for :func:`~latecomer.models.engine.vectorised.cohort_sgd`, as is what is returned.
    """
    # All weights are one row of numbers, tensor after tensor, so that a step takes few operations.
    values = torch.cat([value.detach().reshape(-1) for value in params.values()])
    point = _tensors(values, params)
    total = values.new_zeros(len(next(iter(params.values()))))
    row, memory = torch.empty_like(values), torch.empty_like(values)
    into = _tensors(row, params)
    with torch.no_grad():
        for step in range(n_steps):
            losses, found = slopes(point, step, into)
            if any(found[name] is not there for name, there in into.items()):
                torch.cat([found[name].reshape(-1) for name in into], out=row)
            # A cheaper norm, of all clients together, shows that most steps are not clipped at all.
            if not float(torch.linalg.vector_norm(row)) < 0.999 * rule.clip:
                _clip(into, rule)
            torch._fused_sgd_(
                [values],
                [row],
                [memory] if rule.momentum else [],
                lr=rule.lr,
                momentum=rule.momentum,
                weight_decay=rule.weight_decay,
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=step == 0,
            )
            total += losses
    return point, total


def _tensors(row: Tensor, like: Mapping[str, Tensor]) -> Params:
    """Return the tensors that lie one after another in a row of numbers, shaped as those given."""
    cut = torch.split(row, [value.numel() for value in like.values()])
    return {key: piece.view(like[key].shape) for key, piece in zip(like, cut, strict=True)}


def _clip(slopes: Params, rule: LocalSGD) -> None:
    """Scale each client's gradients down, where they lie, to a norm of at most the largest."""
    names, pieces = list(slopes), list(slopes.values())
    for places in rule.parts(names):
        each = torch.cat([pieces[at].reshape(len(pieces[at]), -1) for at in places], dim=1)
        norms = torch.linalg.vector_norm(each, dim=1)
        scale = torch.where(norms > rule.clip, rule.clip / norms, 1)
        for at in places:
            pieces[at].mul_(scale.view(-1, *(1,) * (pieces[at].dim() - 1)))
