"""The local loop of a cohort of LeNets, written in the ways that a GPU may like best.

All variants take the same steps of momentum SGD from the same rows of weights ``[c, n]``, on
batches ``x [c, steps, B, C, H, W]`` and ``y [c, steps, B]``. What differs is how the clients'
convolutions are laid out, and who launches the kernels: Python every time, code that
``torch.compile`` made, or one CUDA graph of all steps.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from latecomer.models.engine.vectorised import Graphs

LR, MOMENTUM, DECAY, CLIP = 2e-3, 0.9, 5e-5, 50.0
Shapes = Mapping[str, tuple[int, ...]]
Params = dict[str, Tensor]
Kernel = Callable[[Params, Tensor], Tensor]
Loop = Callable[[Tensor, Tensor, Tensor], Tensor]


def cut(rows: Tensor, shapes: Shapes) -> Params:
    """Cut rows ``[c, n]`` into the tensors of a net, ``[c, ...]``."""
    columns = torch.split(rows, [prod(shape) for shape in shapes.values()], dim=1)
    named = zip(shapes.items(), columns, strict=True)
    return {name: column.reshape(-1, *shape) for (name, shape), column in named}


def _dense(params: Params, x: Tensor) -> Tensor:
    """Apply the dense layers to features ``[c, B, n]``."""
    for name in ("dense1", "dense2", "head"):
        bias = params[f"{name}.bias"].unsqueeze(1)
        x = torch.baddbmm(bias, x, params[f"{name}.weight"].transpose(1, 2))
        x = x if name == "head" else F.relu(x)
    return x


def _grouped(layout: torch.memory_format) -> Kernel:
    def grouped(params: Params, x: Tensor) -> Tensor:
        c, size = x.shape[:2]
        x = x.transpose(0, 1).flatten(1, 2).contiguous(memory_format=layout)
        for name in ("conv1", "conv2"):
            weight = params[f"{name}.weight"].flatten(0, 1).contiguous(memory_format=layout)
            x = F.conv2d(x, weight, params[f"{name}.bias"].flatten(), groups=c)
            x = F.relu(F.max_pool2d(x, 2))
        return _dense(params, x.reshape(size, c, -1).transpose(0, 1))

    return grouped


def unfolded(params: Params, x: Tensor) -> Tensor:
    """Apply LeNet with convolutions as batched products of unfolded images."""
    for name in ("conv1", "conv2"):
        weight = params[f"{name}.weight"]
        c, size, side = *x.shape[:2], x.shape[-1] - weight.shape[-1] + 1
        columns = F.unfold(x.flatten(0, 1), weight.shape[-1])
        columns = columns.view(c, size, -1, side * side).transpose(1, 2).flatten(2)
        made = torch.baddbmm(params[f"{name}.bias"].unsqueeze(2), weight.flatten(2), columns)
        x = made.view(c, -1, size, side, side).transpose(1, 2).flatten(0, 1)
        x = F.relu(F.max_pool2d(x, 2)).unflatten(0, (c, size))
    return _dense(params, x.flatten(2))


def patches(params: Params, x: Tensor) -> Tensor:
    """Apply LeNet with convolutions as products of weights and patches, cut out by strides."""
    x = x.transpose(1, 2)
    for name in ("conv1", "conv2"):
        weight = params[f"{name}.weight"].flatten(2)
        side = params[f"{name}.weight"].shape[-1]
        cut_out = x.unfold(3, side, 1).unfold(4, side, 1).permute(0, 1, 5, 6, 2, 3, 4)
        places = cut_out.shape[4:]
        columns = cut_out.flatten(1, 3).flatten(2)
        made = torch.baddbmm(params[f"{name}.bias"].unsqueeze(2), weight, columns)
        pooled = F.max_pool2d(made.view(len(x), -1, *places[1:]), 2)
        x = F.relu(pooled).unflatten(1, (-1, places[0]))
    return _dense(params, x.transpose(1, 2).flatten(2))


def _single(params: Params, x: Tensor) -> Tensor:
    for name in ("conv1", "conv2"):
        x = F.conv2d(x, params[f"{name}.weight"], params[f"{name}.bias"])
        x = F.relu(F.max_pool2d(x, 2))
    x = x.flatten(1)
    for name in ("dense1", "dense2", "head"):
        x = F.linear(x, params[f"{name}.weight"], params[f"{name}.bias"])
        x = x if name == "head" else F.relu(x)
    return x


def mapped(params: Params, x: Tensor) -> Tensor:
    """Apply LeNet under ``torch.func.vmap``."""
    made: Tensor = torch.func.vmap(_single)(params, x)
    return made


def one_by_one(params: Params, x: Tensor) -> Tensor:
    """Apply LeNet to one client after another."""
    places = range(len(x))
    return torch.stack([_single({k: v[i] for k, v in params.items()}, x[i]) for i in places])


KERNELS: dict[str, Kernel] = {
    "grouped": _grouped(torch.contiguous_format),
    "grouped, channels last": _grouped(torch.channels_last),
    "unfold and products": unfolded,
    "patches and products": patches,
    "vmap": mapped,
    "one by one": one_by_one,
}


def slopes_of(
    kernel: Kernel, shapes: Shapes, values: Tensor, x: Tensor, y: Tensor, *, bf16: bool = False
) -> Tensor:
    """Return every client's gradient ``[c, n]`` of the mean cross-entropy on one minibatch."""
    point = values.detach().requires_grad_()
    narrow = torch.autocast(values.device.type, torch.bfloat16) if bf16 else nullcontext()
    with torch.enable_grad():
        with narrow:
            made = kernel(cut(point, shapes), x)
        each = F.cross_entropy(made.flatten(0, 1).to(values.dtype), y.flatten(), reduction="none")
        (slopes,) = torch.autograd.grad(each.view(y.shape).mean(dim=1).sum(), [point])
    return slopes


def local_loop(
    kernel: Kernel, shapes: Shapes, *, bf16: bool = False, compiled: bool = False
) -> Loop:
    """Return the loop that takes all steps, each launched from Python or compiled."""

    def step(values: Tensor, momenta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        slopes = slopes_of(kernel, shapes, values, x, y, bf16=bf16)
        norms = torch.linalg.vector_norm(slopes, dim=1, keepdim=True)
        slopes = slopes * (CLIP / norms.clamp_min(CLIP))
        momenta = MOMENTUM * momenta + slopes + DECAY * values
        return values - LR * momenta, momenta

    taken: Any = torch.compile(step) if compiled else step

    def loop(values: Tensor, x: Tensor, y: Tensor) -> Tensor:
        momenta = torch.zeros_like(values)
        for number in range(x.shape[1]):
            values, momenta = taken(values, momenta, x[:, number], y[:, number])
        return values

    return loop


def captured(loop: Loop, *given: Tensor) -> Loop:
    """Return the loop as one CUDA graph, recorded as the product's local steps are."""
    graphs, names = Graphs(), ("values", "x", "y")

    def work(held: Params) -> Params:
        return {"reached": loop(*(held[name] for name in names))}

    def replay(*given: Tensor) -> Tensor:
        return graphs.run(work, dict(zip(names, given, strict=True)), "loop")["reached"]

    replay(*given)
    return replay
