"""Encoders of others: a network of single labelled samples, whose mean describes a client."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.func import functional_call

from latecomer.models.generators.unlabelled_encoders import reads_no_labels
from latecomer.models.task import own_nets
from latecomer.models.task.per_thread import of_this_thread
from latecomer.models.task.state import Params
from latecomer.models.task.task import Task
from latecomer.models.task.tokens import random_inputs

_SAMPLES = 3


def is_own_encoder(name: str) -> bool:
    """Tell an import path from an encoder's name, which may end in a batch size.

    >>> is_own_encoder("enc.py:Encoder"), is_own_encoder("deepsets:32"), is_own_encoder("mlp")
    (True, False, False)
    """
    return ":" in name and not reads_no_labels(name)


@dataclass(frozen=True, eq=False)
class OwnEmbedding:
    """A network ``(x [B, ...], y [B]) -> [B, dim]`` from outside the package, as a skeleton.

    Attributes
    ----------
    net : Module
        Its structure.
    make : callable
        Makes it from ``(input_shape, n_classes, dim)``, with fresh weights.
    asked : tuple
        These three.
    dtype : torch.dtype
        Floating type of the weights.
    tokens : bool
        Whether it is given int64.
    """

    net: nn.Module
    make: own_nets.Make
    asked: tuple[tuple[int, ...], int, int]
    dtype: torch.dtype
    tokens: bool

    def initial(self, generator: torch.Generator) -> Params:
        """Draw fresh weights as the network draws them, from ``generator`` alone."""
        seed = int(torch.randint(2**62, (), generator=generator))
        return own_nets.drawn(self.make, *self.asked, seed=seed, dtype=self.dtype)

    def embed(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Embed samples ``x [B, ...]``, ``y [B]``; returns ``[B, dim]``."""
        given = x.long() if self.tokens else x.contiguous()
        made: Tensor = functional_call(of_this_thread(self.net), dict(params), (given, y))
        return made


def own_embedding(task: Task, make: own_nets.Make, dim: int) -> OwnEmbedding:
    """Return the encoder that ``make`` makes, for descriptors of length ``dim``; it is tried first.

    Raises
    ------
    ValueError
        It is unfit, as a target network may be (see `own_nets.skeleton`); one line.
    """
    asked = task.input_shape, task.n_classes, dim
    return _tried(make, asked, task.vocabulary, task.dtype)


@lru_cache(maxsize=8)
def _tried(
    make: own_nets.Make,
    asked: tuple[tuple[int, ...], int, int],
    vocabulary: int,
    dtype: torch.dtype,
) -> OwnEmbedding:
    shape, n_classes, _ = asked
    draw = torch.Generator().manual_seed(0)
    x = random_inputs(_SAMPLES, shape, vocabulary, dtype=dtype, draw=draw)
    inputs = x.long() if vocabulary else x, torch.arange(_SAMPLES) % n_classes
    how = {"returns": "descriptors", "kind": "encoder"}
    net, _ = own_nets.tried(make, *asked, inputs=inputs, dtype=dtype, **how)
    return OwnEmbedding(net, make, asked, dtype, vocabulary > 0)
