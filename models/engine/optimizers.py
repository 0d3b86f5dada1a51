"""Server optimizers as pure functions over tables of tensors; their memory is part of the state."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim import adamw as torch_adamw

from latecomer.models.task.state import Params


def adamw_memory(params: Mapping[str, Tensor]) -> Params:
    """Return the memory of :func:`adamw` before the first step."""
    memory: Params = {"steps": torch.zeros((), dtype=torch.float32)}
    for key, value in params.items():
        memory[f"mean.{key}"] = torch.zeros_like(value, memory_format=torch.contiguous_format)
        memory[f"square.{key}"] = torch.zeros_like(memory[f"mean.{key}"])
    return memory


def adamw(
    params: Mapping[str, Tensor],
    slopes: Mapping[str, Tensor],
    memory: Mapping[str, Tensor],
    *,
    lr: float,
    weight_decay: float,
    in_place: bool = False,
) -> tuple[Params, Params]:
    """Take one step of AdamW (betas .9 and .999, eps 1e-8) and return weights and memory.

    Decay is decoupled: weights shrink by ``1 - lr * weight_decay`` whatever the gradient is
    (Loshchilov and Hutter, 2019). ``slopes`` holds a gradient for each of ``params``. With
    ``in_place`` the given tensors are overwritten and returned; they must be contiguous.
    """
    taken = torch.Tensor.detach if in_place else _copy
    new = {key: taken(value) for key, value in params.items()}
    kept = {key: taken(value) for key, value in memory.items()}
    torch_adamw.adamw(
        list(new.values()),
        # torch's fused optimizers assume one memory layout for all tensors of a weight.
        [slopes[key].contiguous() for key in new],
        [kept[f"mean.{key}"] for key in new],
        [kept[f"square.{key}"] for key in new],
        [],
        [kept["steps"].clone() for _ in new],
        foreach=False,
        fused=True,
        amsgrad=False,
        beta1=0.9,
        beta2=0.999,
        lr=lr,
        weight_decay=weight_decay,
        eps=1e-8,
        maximize=False,
    )
    kept["steps"] += 1
    return new, kept


def _copy(value: Tensor) -> Tensor:
    return value.detach().clone(memory_format=torch.contiguous_format)


def sgd_memory(params: Mapping[str, Tensor]) -> Params:
    """Return the memory of :func:`sgd` before the first step."""
    return {key: torch.zeros_like(value) for key, value in params.items()}


def sgd(
    params: Mapping[str, Tensor],
    slopes: Mapping[str, Tensor],
    memory: Mapping[str, Tensor],
    lr: float,
    momentum: float,
    weight_decay: float,
) -> tuple[Params, Params]:
    """Take one step of SGD, ``m <- momentum * m + g + weight_decay * p``, ``p <- p - lr * m``."""
    new: Params = {}
    kept: Params = {}
    for key, value in params.items():
        kept[key] = momentum * memory[key] + slopes[key] + weight_decay * value.detach()
        new[key] = value.detach() - lr * kept[key]
    return new, kept
