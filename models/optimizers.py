"""Server optimizers as functions over tables of tensors; their memory lies in the state."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim import adamw as torch_adamw

from latecomer.models.state import Params


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
) -> tuple[Params, Params]:
    """Take one step of AdamW (betas .9 and .999, eps 1e-8) and return weights and memory.

    The weights are new; the memory moves in place and is handed on, because copying the moments of
    a hypernetwork (12 million numbers for LeNet) takes several times as long as the step. Decay
    is decoupled: weights shrink by ``1 - lr * weight_decay`` whatever the gradient is (Loshchilov
    and Hutter, 2019). ``slopes`` holds a gradient for each of ``params``.
    """
    new = {
        key: value.detach().clone(memory_format=torch.contiguous_format)
        for key, value in params.items()
    }
    torch_adamw.adamw(
        list(new.values()),
        # torch's fused optimizers take all tensors of a weight to lie in memory alike.
        [slopes[key].contiguous() for key in new],
        [memory[f"mean.{key}"] for key in new],
        [memory[f"square.{key}"] for key in new],
        [],
        [memory["steps"].clone() for _ in new],
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
    memory["steps"] += 1
    return new, dict(memory)


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
