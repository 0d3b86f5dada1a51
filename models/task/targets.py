"""Target networks: the nets whose weights a federation learns.

A net is a module without weights of its own (built on the ``meta`` device): parameters always come
from outside, through :meth:`StatelessNet.stateless`. The last linear layer is called ``head``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from latecomer.models.task.clients import reads_tokens
from latecomer.models.task.own_nets import (
    ANY_LAYOUT,
    DRAWING,
    VIEWS_COPIED,
    call_copying_views,
    can_be_copied,
    of_this_thread,
)
from latecomer.models.task.state import Params

_WORTH_A_THREAD = 2**22
"""Least multiplications of a forward pass for other threads to have time to work meanwhile."""

_FEW = 2**17
"""Most weights of a skeleton that is copied once to be drawn into, not for every draw."""
_DRAWN: WeakKeyDictionary[nn.Module, nn.Module] = WeakKeyDictionary()

Shape = tuple[int, ...]
Builder = Callable[[Shape, int], nn.Module]
Hidden = tuple[tuple[str, str], ...]


class StatelessNet(nn.Module, ABC):
    """A net that can be applied directly to parameters given from outside.

    ``torch.func.functional_call`` swaps the weights of every submodule in and out on each call,
    which on small nets costs as much as the net itself.
    """

    @abstractmethod
    def stateless(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Apply the net with ``params`` to inputs ``x [B, ...]``; returns ``[B, n_out]``."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the net with its own parameters."""
        return self.stateless(dict(self.named_parameters()), x)


class ConvNet(StatelessNet):
    """Convolutions, each followed by ReLU and 2x2 max-pooling, then dense layers with ReLU.

    Parameters
    ----------
    input_shape : tuple of int
        ``(channels, height, width)``.
    n_out : int
        Number of outputs.
    channels, dense : tuple of int
        Widths of the convolutional and of the hidden dense layers.
    kernel, padding : int
        Of every convolution. A pooling that would leave nothing is skipped.
    """

    def __init__(
        self,
        input_shape: Shape,
        n_out: int,
        *,
        channels: tuple[int, ...],
        dense: tuple[int, ...],
        kernel: int,
        padding: int,
    ) -> None:
        super().__init__()
        depth, *sides = input_shape
        self.padding = padding
        self.pooled: list[bool] = []
        for number, width in enumerate(channels, start=1):
            self.add_module(f"conv{number}", nn.Conv2d(depth, width, kernel, padding=padding))
            sides = [side + 2 * padding - kernel + 1 for side in sides]
            if min(sides) < 1:
                raise ValueError(
                    f"input_shape must be at least {kernel} pixels a side for this net, "
                    f"got input_shape={input_shape}"
                )
            self.pooled.append(min(sides) >= 2)
            if self.pooled[-1]:
                sides = [side // 2 for side in sides]
            depth = width
        self.hidden = _add_dense(self, (depth * sides[0] * sides[1], *dense), n_out)

    def stateless(
        self,
        params: Mapping[str, Tensor],
        x: Tensor,
        raised: Tensor | None = None,
        blocked: bool = False,
    ) -> Tensor:
        """Apply the net with ``params`` to images ``x [B, C, H, W]``.

        ``raised [B, filters]`` is added to the first convolution's output at every position.
        ``blocked``: whether images lie in oneDNN's own layout up to the dense layers (on a CPU, in
        float32, without ``raised``): the same up to rounding.
        """
        return _dense(params, self.features(params, x, raised, blocked), self.hidden)

    def features(
        self,
        params: Mapping[str, Tensor],
        x: Tensor,
        raised: Tensor | None = None,
        blocked: bool = False,
    ) -> Tensor:
        """Return the inputs of the dense layers, ``[B, D]``."""
        relu = _relu()
        x = x.to_mkldnn() if blocked else x
        for number, pooled in enumerate(self.pooled, start=1):
            weight, bias = params[f"conv{number}.weight"], params[f"conv{number}.bias"]
            x = F.conv2d(x, weight, bias, padding=self.padding)
            # Pooling comes first: ReLU is monotone, and then has fewer numbers to process.
            x = _pooled(x) if pooled else x
            if number == 1 and raised is not None:
                x = x + raised[:, :, None, None]
            x = relu(x)
        return (x.to_dense() if blocked else x).flatten(1)


class DenseNet(StatelessNet):
    """Dense layers with ReLU between them, for vectors, or images as one vector each.

    Parameters
    ----------
    input_shape : tuple of int
        Of one input.
    n_out : int
        Number of outputs.
    dense : tuple of int
        Widths of the hidden layers.
    dropout : float
        Share of the last hidden layer's units that is dropped in local training, in [0, 1). The
        net draws nothing: without a mask from outside all units are kept.
    """

    def __init__(
        self, input_shape: Shape, n_out: int, *, dense: tuple[int, ...], dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.hidden = _add_dense(self, (prod(input_shape), *dense), n_out)

    def stateless(
        self, params: Mapping[str, Tensor], x: Tensor, kept: Tensor | None = None
    ) -> Tensor:
        """Apply the net with ``params`` to inputs ``x [B, ...]``, units ``kept`` as in `drop`."""
        return _dense(params, x.flatten(1), self.hidden, kept, self.dropout)


def drop(x: Tensor, kept: Tensor, share: float) -> Tensor:
    """Return ``x`` where ``kept`` is true, scaled by ``1 / (1 - share)``, and 0 elsewhere.

    >>> drop(torch.tensor([4.0, 8.0]), torch.tensor([True, False]), 0.2)
    tensor([5., 0.])
    """
    return x * (kept.to(x.dtype) / (1 - share))


def _pooled(x: Tensor) -> Tensor:
    """Return the maximum of every 2x2 block of images.

    Max-pooling also records which of the four it was, for the backward pass. Without one, two
    elementwise maxima of halves give the same numbers, on a CPU in half the time (a tenth for
    images that are not channels-last).
    """
    if torch.is_grad_enabled() or x.is_mkldnn or x.device.type != "cpu":
        return F.max_pool2d(x, 2, 2)  # oneDNN's layout has no stride of its own to fall back on
    high, wide = (side // 2 * 2 for side in x.shape[2:])
    x = torch.maximum(x[:, :, 0:high:2], x[:, :, 1:high:2])
    return torch.maximum(x[..., 0:wide:2], x[..., 1:wide:2])


def _add_dense(net: nn.Module, widths: tuple[int, ...], n_out: int) -> Hidden:
    """Add dense layers and the head; return the names of the hidden layers' weights."""
    names = [f"dense{number}" for number in range(1, len(widths))]
    for name, wide, high in zip(names, widths, widths[1:], strict=False):
        net.add_module(name, nn.Linear(wide, high))
    net.add_module("head", nn.Linear(widths[-1], n_out))
    return tuple((f"{name}.weight", f"{name}.bias") for name in names)


def _dense(
    params: Mapping[str, Tensor],
    x: Tensor,
    hidden: Hidden,
    kept: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Apply dense layers ``hidden`` and the head to vectors ``[B, D]``."""
    relu = _relu()
    for weight, bias in hidden:
        x = relu(F.linear(x, params[weight], params[bias]))
    x = x if kept is None else drop(x, kept, dropout)
    return F.linear(x, params["head.weight"], params["head.bias"])


def _relu() -> Callable[[Tensor], Tensor]:
    """Return ReLU, in place if no gradient will need its input."""
    return torch.relu if torch.is_grad_enabled() else torch.relu_


# Nets of products, sums, pooling and ReLU only, none of which torch must keep in float32. Torch's
# autocast would round less of them under ``vmap``, where a separate operation adds the bias.
ROUNDED_WHOLE = (ConvNet, DenseNet)
"""Nets that a lower precision rounds entirely; in others torch's autocast rounds the products."""


def _lenet(width: int) -> Builder:
    def build_lenet(input_shape: Shape, n_out: int) -> nn.Module:
        channels, dense = (width, 2 * width), (120, 84)
        return ConvNet(input_shape, n_out, channels=channels, dense=dense, kernel=5, padding=0)

    return build_lenet


def _four_conv(input_shape: Shape, n_out: int) -> nn.Module:
    channels = (16, 32, 64, 64)
    return ConvNet(input_shape, n_out, channels=channels, dense=(84,), kernel=3, padding=1)


def _small(input_shape: Shape, n_out: int) -> nn.Module:
    return ConvNet(input_shape, n_out, channels=(8,), dense=(32,), kernel=3, padding=1)


def _dense_of(*widths: int, dropout: float = 0.0) -> Builder:
    def build_dense(input_shape: Shape, n_out: int) -> nn.Module:
        return DenseNet(input_shape, n_out, dense=widths, dropout=dropout)

    return build_dense


TARGETS: dict[str, Builder] = {
    "lenet": _lenet(16),
    "lenet-s": _lenet(8),
    "lenet-l": _lenet(32),
    "four-conv": _four_conv,
    "small": _small,
    "linear": _dense_of(),
    "mlp": _dense_of(200),
    "dense": _dense_of(64, 64),
    "dense500": _dense_of(500, 500, dropout=0.2),
}
"""Name of a net -> builder from (input shape, number of outputs).

- ``lenet``, ``lenet-s``, ``lenet-l``: 16, 8 or 32 filters, then twice as many, 5x5; dense 120, 84
  (PeFLL; pFedHN's three sizes).
- ``four-conv``: four 3x3 convolutions, two dense layers (pFedHN on Omniglot; the paper gives no
  widths: 16, 32, 64, 64 filters and 84 units are ours).
- ``small``: one convolution, for 8x8 digits.
- ``linear``: none, a softmax regression, for images too.
- ``mlp``: one hidden layer, for images too (pFedHN on MNIST; 200 units are ours).
- ``dense``, ``dense500``: two hidden layers of 64 or 500 units, for vectors; ``dense500``
  has dropout of .2 after the second, as in OD-PFL, in training only.
"""

_VECTORS_ONLY = ("dense", "dense500")
_ANYTHING = ("linear", "mlp")


def choose(input_shape: Shape) -> str:
    """Name the default net of an input shape.

    Vectors get ``dense``; images get ``lenet`` when both sides have at least 28 pixels, else
    ``small``.

    >>> choose((3, 32, 32)), choose((1, 8, 8)), choose((768,))
    ('lenet', 'small', 'dense')
    """
    if len(input_shape) == 1:
        return "dense"
    return "lenet" if min(input_shape[1:]) >= 28 else "small"


def build(name: str, input_shape: Shape, n_out: int) -> nn.Module:
    """Build the skeleton of a registered net (``auto``: :func:`choose`) on the ``meta`` device.

    Raises
    ------
    ValueError
        If the name is unknown, the input shape is neither ``(D,)`` nor ``(C, H, W)``, or the net
        does not fit it.
    """
    shape = tuple(int(side) for side in input_shape)
    if len(shape) not in (1, 3) or min(shape) < 1:
        raise ValueError(f"input_shape must be (D,) or (C, H, W), got input_shape={input_shape}")
    name = choose(shape) if name == "auto" else name
    if name not in TARGETS:
        known = ", ".join(["auto", *TARGETS])
        raise ValueError(
            f"target must be one of {known}, or a net of one's own as file.py:Net, "
            f"got target={name!r}"
        )
    if name not in _ANYTHING and (len(shape) == 1) != (name in _VECTORS_ONLY):
        raise ValueError(f"target {name} does not take inputs of shape {shape}")
    with torch.device("meta"):
        return TARGETS[name](shape, n_out)


def dropout(net: nn.Module) -> tuple[int, float]:
    """Return how many units a net's dropout covers and the share it drops; ``(0, 0.0)``: none.

    >>> dropout(build("dense500", (6,), 4)), dropout(build("dense", (6,), 4))
    ((500, 0.2), (0, 0.0))
    """
    if isinstance(net, DenseNet) and net.dropout > 0:
        return dict(net.named_parameters())["head.weight"].shape[1], net.dropout
    return 0, 0.0


def apply(
    net: nn.Module,
    params: Mapping[str, Tensor],
    x: Tensor,
    kept: Tensor | None = None,
    narrow: torch.dtype | None = None,
    blocked: bool = False,
) -> Tensor:
    """Apply a net, of this package or any other, with parameters from outside.

    ``kept``, bool ``[B, units]``, is for nets with dropout: which units each sample keeps.
    ``narrow``: type that the factors of products are rounded to (the output is float32); None:
    nothing is rounded. ``blocked``: as `ConvNet.stateless` takes it; for no other net.
    """
    if blocked and isinstance(net, ConvNet):
        return net.stateless(params, x, blocked=True)
    if narrow is None:
        return _apply(net, params, x, kept)
    if type(net) in ROUNDED_WHOLE:
        return _apply(net, rounded(params, narrow), x.to(narrow), kept).float()
    # A cached weight would be that of an earlier step: local steps change weights in place.
    with torch.autocast(x.device.type, narrow, cache_enabled=False):
        made = _apply(net, params, x, kept)
    return made.float()


def apply_to_parts(
    net: nn.Module, params: Mapping[str, Tensor], x: Tensor, sizes: Sequence[int]
) -> list[Tensor]:
    """Apply a net to parts of ``x [B, ...]`` of the given sizes; returns each part's output.

    Equal to applying the net to each part alone, to the last digit. Convolutions take all parts at
    once, as an image's output does not depend on the others (torch may treat a single image
    differently). Dense layers do not: a matrix product's rounding depends on its number of rows.
    """
    if type(net) is ConvNet and min(sizes) > 1:
        parts = torch.split(net.features(params, x), list(sizes))
        return [_dense(params, part, net.hidden) for part in parts]
    return [apply(net, params, part) for part in torch.split(x, list(sizes))]


def rounded(params: Mapping[str, Tensor], narrow: torch.dtype) -> Params:
    """Return weights rounded to a floating type; gradients reach the given weights."""
    return {key: value.to(narrow) for key, value in params.items()}


def _apply(net: nn.Module, params: Mapping[str, Tensor], x: Tensor, kept: Tensor | None) -> Tensor:
    if kept is not None and isinstance(net, DenseNet):
        return net.stateless(params, x, kept)
    if isinstance(net, StatelessNet):
        return net.stateless(params, x)
    net = of_this_thread(net)
    x = x.long() if reads_tokens(net) else x
    if getattr(net, ANY_LAYOUT, False):
        output: Tensor = functional_call(net, dict(params), (x,))
        return output
    if getattr(net, VIEWS_COPIED, False):
        return call_copying_views(net, dict(params), (x,))
    # What lies channels-last here would surprise the views of nets from elsewhere.
    plain = {key: _plain(value) for key, value in params.items()}
    copied: Tensor = functional_call(net, plain, (_plain(x),))
    return copied


def _plain(value: Tensor) -> Tensor:
    """Return a tensor whose last axis lies densest, then the one before, and so on."""
    if value.dim() != 4 or value.stride() == torch.empty(value.shape, device="meta").stride():
        return value
    return value.clone(memory_format=torch.contiguous_format)


class _Products(TorchFunctionMode):
    """Counts the multiplications of linear layers and convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in (F.linear, F.conv2d):
            weight = args[1] if len(args) > 1 else kwargs["weight"]
            self.count += made.numel() * weight[0].numel()
        return made


@lru_cache(maxsize=8)
def multiplications(net: nn.Module, input_shape: Shape) -> int:
    """Return how many numbers a net's linear layers and convolutions multiply for one sample.

    >>> multiplications(build("dense", (27,), 2), (27,))
    5952
    """
    params = {k: torch.zeros(v.shape, dtype=v.dtype) for k, v in net.named_parameters()}
    x = torch.zeros(1, *input_shape, dtype=next(iter(params.values())).dtype)
    seen = _Products()
    with torch.no_grad(), seen:
        apply(net, params, x)
    return seen.count


def gains_from_threads(net: nn.Module, input_shape: Shape, n_samples: int) -> bool:
    """Tell whether threads that each apply a net to so many samples get done sooner than one.

    Python runs in one thread at a time, which for small nets is most of the time, so that threads
    would only wait for each other.
    """
    if n_samples * multiplications(net, input_shape) < _WORTH_A_THREAD:
        return False
    return isinstance(net, StatelessNet) or can_be_copied(net)


def initial(net: nn.Module, generator: torch.Generator) -> Params:
    """Draw fresh parameters by the layers' own rules, from ``generator`` alone.

    Raises
    ------
    ValueError
        If a module holds parameters but has no ``reset_parameters``.
    """
    seed = int(torch.randint(2**62, (), generator=generator))
    with DRAWING, torch.random.fork_rng(devices=[]):
        fresh = _to_draw_into(net)
        torch.default_generator.manual_seed(seed)
        for name, module in fresh.named_modules():
            reset: Any = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()
            elif any(True for _ in module.parameters(recurse=False)):
                raise ValueError(f"target: module {name!r} has parameters, no reset_parameters")
        return {key: value.detach().clone() for key, value in fresh.named_parameters()}


def _to_draw_into(net: nn.Module) -> nn.Module:
    """Return a copy of a net that holds weights; that of a small skeleton is made once."""
    values = [*net.parameters()]
    skeleton = isinstance(net, StatelessNet) and all(value.is_meta for value in values)
    if skeleton and net in _DRAWN:
        return _DRAWN[net]
    fresh = deepcopy(net)
    for module in fresh.modules():
        # Module.to_empty does as much, and first imports sympy, which takes longer than a round.
        for name, value in module.named_parameters(recurse=False, remove_duplicate=False):
            if value.is_meta:
                room = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
                setattr(module, name, nn.Parameter(room, value.requires_grad))
    if skeleton and sum(value.numel() for value in values) <= _FEW:
        _DRAWN[net] = fresh
    return fresh
