"""Target networks applied to a whole cohort: every tensor has its clients on axis 0.

Each client has weights of its own, so a dense layer is a batched matrix product and a convolution
has a group for each client. Nets from outside the package go through ``torch.func.vmap``.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latecomer.models.task import targets
from latecomer.models.task.targets import ConvNet, DenseNet, Hidden


def logits(
    net: nn.Module,
    params: Mapping[str, Tensor],
    x: Tensor,
    kept: Tensor | None = None,
    narrow: torch.dtype | None = None,
) -> Tensor:
    """Apply ``net`` with weights ``[c, ...]`` to inputs ``x [c, B, ...]``; ``[c, B, n_out]``.

    Equal to :func:`latecomer.models.task.targets.apply` client by client, up to rounding; ``kept``
    are dropout's masks ``[c, B, units]``; ``narrow`` is as in that function.
    """
    if narrow is not None and type(net) in targets.ROUNDED_WHOLE:
        return logits(net, targets.rounded(params, narrow), x.to(narrow), kept).float()
    # Exact types: a subclass may compute something else.
    if type(net) is ConvNet:
        return _convolutions(net, params, x)
    if type(net) is DenseNet:
        return _dense(params, x.flatten(2), net.hidden, kept, net.dropout)
    mapped = torch.func.vmap(partial(targets.apply, net, narrow=narrow))
    made: Tensor = mapped(dict(params), x)
    return made


def losses(
    net: nn.Module,
    params: Mapping[str, Tensor],
    x: Tensor,
    y: Tensor,
    kept: Tensor | None = None,
    narrow: torch.dtype | None = None,
) -> Tensor:
    """Return each client's mean cross-entropy on ``x [c, B, ...]``, ``y [c, B]``; ``[c]``."""
    made = logits(net, params, x, kept, narrow)
    each = F.cross_entropy(made.flatten(0, 1), y.flatten(), reduction="none")
    return each.view(y.shape).mean(dim=1)


def _convolutions(net: ConvNet, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    # On a GPU, cuDNN's convolutions with groups are most of a training step. Patches take memory,
    # which a minibatch has little of; whole clients' samples are predicted without a gradient.
    by_patch = x.device.type == "cuda" and torch.is_grad_enabled()
    convolved = _patch_by_patch if by_patch else _group_by_group
    return _dense(params, convolved(net, params, x), net.hidden)


def _group_by_group(net: ConvNet, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Return the convolutions' outputs ``[c, B, units]``; a group for each client."""
    n_clients, size = x.shape[:2]
    # [c, B, C, H, W] -> [B, c * C, H, W]: the clients' channels side by side, a group for each.
    x = x.transpose(0, 1).flatten(1, 2)
    for number, pooled in enumerate(net.pooled, start=1):
        weight, bias = (params[f"conv{number}.{kind}"].flatten(0, 1) for kind in ("weight", "bias"))
        x = F.conv2d(x, weight, bias, padding=net.padding, groups=n_clients)
        x = F.relu(F.max_pool2d(x, 2) if pooled else x)
    # A client's channels are adjacent, so its features are ordered as in a net of its own.
    return x.reshape(size, n_clients, -1).transpose(0, 1)


def _patch_by_patch(net: ConvNet, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Return the convolutions' outputs ``[c, B, units]`` as products of weights and patches.

    The first layer's patches take no gradient.
    """
    n_clients, size = x.shape[:2]
    x = x.transpose(1, 2)
    for number, pooled in enumerate(net.pooled, start=1):
        weight, bias = params[f"conv{number}.weight"], params[f"conv{number}.bias"]
        side = weight.shape[-1]
        x = F.pad(x, (net.padding,) * 4) if net.padding else x
        patches = x.unfold(3, side, 1).unfold(4, side, 1)  # [c, C, B, h, w, side, side]
        height, width = patches.shape[3:5]
        columns = patches.permute(0, 1, 5, 6, 2, 3, 4).reshape(n_clients, -1, size * height * width)
        x = torch.baddbmm(bias.unsqueeze(2), weight.flatten(2), columns)
        x = x.view(n_clients, -1, height, width)
        x = F.relu(F.max_pool2d(x, 2) if pooled else x)
        x = x.view(n_clients, -1, size, *x.shape[2:])
    return x.transpose(1, 2).flatten(2)


def _dense(
    params: Mapping[str, Tensor],
    x: Tensor,
    hidden: Hidden,
    kept: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    for weight, bias in hidden:
        x = F.relu(_linear(params[weight], params[bias], x))
    x = x if kept is None else targets.drop(x, kept, dropout)
    return _linear(params["head.weight"], params["head.bias"], x)


def _linear(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
