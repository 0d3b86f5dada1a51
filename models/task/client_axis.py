"""Nets over the client axis: every tensor has its clients on axis 0; dense slopes written out.

Each client has weights of its own, so a dense layer is a batched matrix product and a convolution
has a group for each client. Nets from outside the package go through ``torch.func.vmap``.

A small net's products take less time than the bookkeeping of automatic differentiation, and a tenth
of that of ``torch.func.vmap``.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latecomer.models.task import targets
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import Params
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


Entropy = Callable[[Params, Samples], tuple[Tensor, Params]]
"""Maps weights ``[c, ...]`` and samples ``[c, B, ...]`` to each client's mean cross-entropy, in
nats, ``[c]``, and to its gradient, ``[c, ...]`` for every weight."""


@dataclass(frozen=True, eq=False)
class Weighted(Samples):
    """Samples of which each counts as much as it is told.

    Attributes
    ----------
    share : Tensor
        Weight of each sample in its client's mean, ``[c, B]``; a client's sum to 1.
    """

    share: Tensor


def each_once(
    rows: Tensor, held: Tensor, sizes: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return what clients hold, each row once, and how much of each minibatch every row is.

    Minibatches ``rows [c, ..., B]`` of clients with few samples hold them several times. Of the
    rows ``held [c, n]``, those of the minibatches among them, the first ``sizes [c]`` are a
    client's. Returned are rows ``[c, n]`` and shares ``[c, ..., n]``, 0 for what is not its own.

    >>> rows, held, sizes = torch.tensor([[[7, 5, 7, 7]]]), torch.tensor([[7, 5, 0]]), [2]
    >>> each_once(rows, held, torch.tensor(sizes), torch.float32)
    (tensor([[5, 7, 5]]), tensor([[[0.2500, 0.7500, 0.0000]]]))
    """
    n = held.shape[1]
    theirs = torch.arange(n, device=held.device) < sizes[:, None]
    order = held.masked_fill(~theirs, torch.iinfo(held.dtype).max).sort(1).values
    # Of a row that is held twice, the first place is found.
    places = torch.searchsorted(order, rows.flatten(1)).view(rows.shape)
    one = torch.full(rows.shape, 1 / rows.shape[-1], dtype=dtype, device=rows.device)
    shares = one.new_zeros(*rows.shape[:-1], n).scatter_add_(-1, places, one)
    return torch.where(order == torch.iinfo(held.dtype).max, order[:, :1], order), shares


def losses_and_slopes(
    net: nn.Module,
    params: Mapping[str, Tensor],
    samples: Samples,
    kept: Tensor | None = None,
    wanted: Collection[str] | None = None,
    into: Params | None = None,
) -> tuple[Tensor, Params]:
    """Return each client's mean cross-entropy and its gradient, clients on axis 0.

    With ``h_0 = x``, ``h_l = relu(h_{l-1} W_l' + b_l)`` and logits ``z = h_L W' + b``, the gradient
    at the logits is ``d = (softmax(z) - onehot(y)) / B``; a layer's is ``d' h_{l-1}`` for ``W_l``
    and the sum of ``d`` over samples for ``b_l``, and ``(d W_l) * [h_{l-1} > 0]`` goes on to the
    layer before.

    Parameters
    ----------
    net, params, samples
        Layers; weights ``[c, ...]``; inputs ``[c, B, ...]`` and labels ``[c, B]``, in whose mean
        (in nats) they count as they are weighted, if they are.
    kept : Tensor, optional
        Dropout's masks ``[c, B, units]``.
    wanted : collection of str, optional
        Names of the weights whose gradient is returned; all of them unless given.
    into : dict of str to Tensor, optional
        Tensors to write the gradient to, under its names; new ones unless given.

    Raises
    ------
    TypeError
        The net is another, or of a subclass, which may compute something else.

    Examples
    --------
    >>> from latecomer.models.task.targets import build
    >>> weights = {"head.weight": torch.zeros(1, 2, 1), "head.bias": torch.zeros(1, 2)}
    >>> one = Samples(torch.ones(1, 1, 1), torch.tensor([[1]]))
    >>> losses, slopes = losses_and_slopes(build("linear", (1,), 2), weights, one)
    >>> round(losses.item(), 4), slopes["head.bias"].tolist()
    (0.6931, [[0.5, -0.5]])
    """
    if type(net) is not DenseNet:
        raise TypeError(f"net must be a DenseNet, got {type(net).__name__}")
    masks = None if kept is None else targets.drop(samples.x.new_ones(()), kept, net.dropout)
    entered = _entered(net, params, samples.x.flatten(2), masks)
    logits = _linear(params["head.weight"], params["head.bias"], entered[-1])
    share = samples.share if isinstance(samples, Weighted) else None
    losses, d = _entropy(logits, samples.labels(), share)
    names = frozenset(params if wanted is None else wanted)
    return losses, _pulled_back(net, params, entered, masks, d, names, into or {})


def _entered(
    net: DenseNet, params: Mapping[str, Tensor], x: Tensor, masks: Tensor | None
) -> list[Tensor]:
    """Return the inputs of all layers."""
    entered = [x]
    for weight, bias in net.hidden:
        entered.append(_linear(params[weight], params[bias], entered[-1]).relu_())
    if masks is not None:
        entered[-1] = entered[-1] * masks
    return entered


def _pulled_back(
    net: DenseNet,
    params: Mapping[str, Tensor],
    entered: list[Tensor],
    masks: Tensor | None,
    d: Tensor,
    wanted: Collection[str],
    into: Params,
) -> Params:
    """Return the gradient of what has the gradient ``d`` at the logits.

    ``entered`` are the layers' inputs, ``masks`` what dropout multiplied the last by; the rest is
    as for :func:`losses_and_slopes`.
    """
    layers, slopes = [*net.hidden, ("head.weight", "head.bias")], Params()
    last = len(layers) - 1
    lowest = next((at for at, pair in enumerate(layers) if {*pair} & {*wanted}), last + 1)
    for at in range(last, lowest - 1, -1):
        weight, bias = layers[at]
        if weight in wanted:
            slopes[weight] = torch.bmm(d.transpose(1, 2), entered[at], out=into.get(weight))
        if bias in wanted:
            slopes[bias] = torch.sum(d, 1, out=into.get(bias))
        if at > lowest:
            d = torch.bmm(d, params[weight])
            d = d * masks if masks is not None and at == last else d
            # What dropout hides has no gradient already.
            d = torch.ops.aten.threshold_backward.default(d, entered[at], 0)
    return slopes


def _entropy(logits: Tensor, y: Tensor, share: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropies ``[c]``, and their gradient at the logits ``[c, B, k]``."""
    logp, right = torch.log_softmax(logits, dim=2), y.unsqueeze(2)
    hit = torch.zeros_like(logp)
    if share is None:
        hit.scatter_(2, right, -1 / y.shape[1])
        losses = (logp * hit).sum((1, 2))
        return losses, torch.add(hit, logp.exp_(), alpha=1 / y.shape[1])
    weights = share.unsqueeze(2)
    hit.scatter_(2, right, -weights)
    losses = (logp * hit).sum((1, 2))
    return losses, torch.addcmul(hit, logp.exp_(), weights)
