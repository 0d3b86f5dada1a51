"""Encoders: from a client's labelled samples to its descriptor; shipped, or networks of others."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from latecomer.models.generators.unlabelled_encoders import (
    SET_ENCODERS,
    OfCounts,
    reads_no_labels,
    set_encoder,
)
from latecomer.models.task import own_nets, targets
from latecomer.models.task.own_nets import of_this_thread
from latecomer.models.task.state import Params
from latecomer.models.task.targets import ConvNet, Shape
from latecomer.models.task.task import Task


def is_own_encoder(name: str) -> bool:
    """Tell an import path from an encoder's name, which may end in a batch size.

    >>> is_own_encoder("enc.py:Encoder"), is_own_encoder("deepsets:32"), is_own_encoder("mlp")
    (True, False, False)
    """
    return ":" in name and not reads_no_labels(name)


_BLOCK = 50
"""Samples embedded at a time when no gradient is needed."""


class Encoder(Protocol):
    """A map from a client's samples to its descriptor."""

    def initial(self, generator: Generator) -> Params:
        """Draw fresh weights from ``generator`` alone."""

    def __call__(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Return descriptors ``[c, dim]`` of sets ``x [c, b, ...]``, ``y [c, b]``.

        The result does not depend on the order of a set.
        """


@dataclass(frozen=True, eq=False)
class MeanEmbedding(ABC):
    """An embedding ``phi(x, y)`` of single samples; a descriptor is its mean over a set."""

    net: nn.Module

    def initial(self, generator: Generator) -> Params:
        """Draw fresh weights from ``generator`` alone."""
        return targets.initial(self.net, generator)

    @abstractmethod
    def embed(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Embed samples ``x [B, ...]``, ``y [B]``; returns ``[B, dim]``."""

    def __call__(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Return descriptors ``[c, dim]`` of sets ``x [c, b, ...]``, ``y [c, b]``."""
        x, y_each = x.flatten(0, 1), y.flatten()
        if torch.is_grad_enabled() or x.device.type != "cpu":
            embedded = self.embed(params, x, y_each)
        else:
            # A whole support at once would go through main memory at every layer.
            blocks = zip(torch.split(x, _BLOCK), torch.split(y_each, _BLOCK), strict=True)
            embedded = torch.cat([self.embed(params, *block) for block in blocks])
        return embedded.view(*y.shape, -1).mean(dim=1)


@dataclass(frozen=True, eq=False)
class LabelChannels(MeanEmbedding):
    """A net that sees the one-hot label as further input channels (images) or features (vectors).

    The skeleton ``net`` takes ``n_classes`` more of them than a sample has.
    """

    n_classes: int

    def embed(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Embed samples ``x [B, ...]``, ``y [B]``; returns ``[B, dim]``."""
        served = not torch.is_grad_enabled()
        if served and isinstance(self.net, ConvNet) and not self.net.padding:
            # Without padding, a filter maps a constant plane to a constant: a bias for each class.
            # Training embeds only one batch per client, so it keeps the planes.
            depth = x.shape[1]
            weight = params["conv1.weight"]
            by_class = weight[:, depth:].sum(dim=(2, 3)).T
            first = {"conv1.weight": weight[:, :depth]}
            return self.net.stateless({**params, **first}, x, by_class[y])
        label = F.one_hot(y, self.n_classes).to(x.dtype)
        label = label.view(*label.shape, *(1,) * (x.dim() - 2)).expand(-1, -1, *x.shape[2:])
        if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
            # Otherwise the result would not be channels-last, and take several times as long.
            label = label.contiguous(memory_format=torch.channels_last)
        return targets.apply(self.net, params, torch.cat([x, label], dim=1))


@dataclass(frozen=True, eq=False)
class Own(MeanEmbedding):
    """A network ``(x [B, ...], y [B]) -> [B, dim]`` from outside the package, as a skeleton.

    ``make`` makes it, with fresh weights, of what is ``asked``: ``(input_shape, n_classes, dim)``.
    """

    make: own_nets.Make
    asked: tuple[tuple[int, ...], int, int]
    dtype: torch.dtype
    tokens: bool

    def initial(self, generator: Generator) -> Params:
        """Draw fresh weights as the network draws them, from ``generator`` alone."""
        seed = int(torch.randint(2**62, (), generator=generator))
        return own_nets.drawn(self.make, *self.asked, seed=seed, dtype=self.dtype)

    def embed(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Embed samples ``x [B, ...]``, ``y [B]``; returns ``[B, dim]``."""
        given = x.long() if self.tokens else x.contiguous()
        made: Tensor = functional_call(of_this_thread(self.net), dict(params), (given, y))
        return made


@lru_cache(maxsize=8)
def _own(
    make: own_nets.Make,
    asked: tuple[tuple[int, ...], int, int],
    vocabulary: int,
    dtype: torch.dtype,
) -> Own:
    """Return the encoder that ``make`` makes; it is tried first, as a target network is."""
    shape, n_classes, _ = asked
    x = own_nets.trial_inputs(shape, vocabulary, dtype)
    net, _ = own_nets.tried(
        make,
        *asked,
        inputs=(x, torch.arange(len(x)) % n_classes),
        dtype=dtype,
        returns="descriptors",
        kind="encoder",
    )
    return Own(net, make, asked, dtype, vocabulary > 0)


@dataclass(frozen=True, eq=False)
class LabelLinear(MeanEmbedding):
    """One linear layer on the one-hot label; the input is ignored."""

    def embed(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Embed labels ``y [B]``; returns ``[B, dim]``."""
        return params["weight"].T[y] + params["bias"]


def _trunk(name: str, task: Task, dim: int) -> Encoder:
    first, *rest = task.input_shape
    shape: Shape = (first + task.n_classes, *rest)
    net = targets.build(name, shape, dim).to(task.dtype)
    return LabelChannels(net, task.n_classes)


def _convnet(task: Task, dim: int) -> Encoder:
    if len(task.input_shape) == 1:
        raise ValueError("encoder convnet needs images; use encoder=mlp for vectors")
    return _trunk("auto", task, dim)


def _mlp(task: Task, dim: int) -> Encoder:
    if len(task.input_shape) != 1:
        raise ValueError("encoder mlp needs vectors; use encoder=convnet for images")
    return _trunk("dense", task, dim)


def _label_linear(task: Task, dim: int) -> Encoder:
    with torch.device("meta"):
        return LabelLinear(nn.Linear(task.n_classes, dim).to(task.dtype))


ENCODERS: dict[str, Callable[[Task, int], Encoder]] = {
    "convnet": _convnet,
    "mlp": _mlp,
    "label-linear": _label_linear,
}
"""Name of an encoder that reads labels -> builder from (task, length of a descriptor).

- ``convnet``: a net like the default target for images, the label as further channels.
- ``mlp``: a net of two hidden layers of 64 units for vectors, the label as further features.
- ``label-linear``: one linear layer on the one-hot label; the input is ignored.
"""


# Building a skeleton takes as long as embedding a tenth of a support.
@lru_cache(maxsize=8)
def encoder(task: Task, dim: int) -> Encoder:
    """Build the encoder named by ``task.encoder`` for descriptors of length ``dim``.

    ``auto`` is the convolutional net for images and the dense one for vectors. Encoders that read
    no labels (``SET_ENCODERS``) can be used instead, and networks of one's own. Of tokens, those of
    the package see the counts.

    Raises
    ------
    ValueError
        If the name is unknown, the encoder does not fit the inputs, or one's own is unfit.
    """
    if task.make_encoder is not None:
        asked = task.input_shape, task.n_classes, dim
        return _own(task.make_encoder, asked, task.vocabulary, task.dtype)
    if task.vocabulary:
        vectors = replace(task, input_shape=(task.vocabulary,), vocabulary=0)
        of_vectors = encoder(vectors, dim)
        return OfCounts(of_vectors, task.vocabulary)  # type: ignore[arg-type]  # it has labels
    name = task.encoder
    if name == "auto":
        name = "mlp" if len(task.input_shape) == 1 else "convnet"
    if reads_no_labels(name):
        return set_encoder(task, dim)
    if name not in ENCODERS:
        known = ", ".join(["auto", *ENCODERS, *SET_ENCODERS])
        raise ValueError(
            f"encoder must be one of {known}, or one's own as file.py:Encoder, got encoder={name!r}"
        )
    return ENCODERS[name](task, dim)
