"""Encoders of unlabelled sets by name: DeepSets, DSS and Set Transformer, private or not.

All map sets ``x [c, b, ...]`` to descriptors ``[c, dim]`` that do not depend on the order of a set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from latecomer.bounds.privacy import dp_sensitivity, gauss_analytic
from latecomer.models.task import targets
from latecomer.models.task.clients import counted
from latecomer.models.task.state import Params, nest, part
from latecomer.models.task.task import Task


class SetEncoder(Protocol):
    """A map from sets of inputs to descriptors; labels, if given, are not looked at."""

    def initial(self, generator: Generator) -> Params:
        """Draw fresh weights from ``generator`` alone."""

    def __call__(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor | None = None) -> Tensor:
        """Return descriptors ``[c, dim]`` of sets ``x [c, b, ...]``."""


@dataclass(frozen=True, eq=False)
class DeepSets:
    """Mean- and max-pooled embeddings of single inputs, then a linear map.

    Half of an embedding's units are averaged over the set, the other half are max-pooled over
    it; the result does not depend on the order of a set, nor on how often it is repeated. Skeletons
    are ``phi``, which embeds single inputs, and ``psi``, from pooled units to a descriptor.
    """

    phi: nn.Module
    psi: nn.Module

    def initial(self, generator: Generator) -> Params:
        """Draw fresh weights from ``generator`` alone."""
        phi = targets.initial(self.phi, generator)
        return nest("phi", phi) | nest("psi", targets.initial(self.psi, generator))

    def __call__(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor | None = None) -> Tensor:
        """Return descriptors ``[c, dim]`` of sets ``x [c, b, ...]``."""
        embedded = targets.apply(self.phi, part(params, "phi"), x.flatten(0, 1))
        embedded = _in_sets(torch.relu(embedded), len(x))
        half = embedded.shape[2] // 2
        pooled = [embedded[..., :half].mean(dim=1), embedded[..., half:].amax(dim=1)]
        return targets.apply(self.psi, part(params, "psi"), torch.cat(pooled, dim=1))


class UnitDeepSets(DeepSets):
    """Embeddings on the unit sphere, averaged, then a linear map of spectral norm at most 1.

    The map's weights are divided by their spectral norm where that is above 1, so that replacing
    one of ``m`` samples moves a descriptor by at most ``2 / m`` in L2, up to rounding.
    """

    def __call__(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor | None = None) -> Tensor:
        """Return descriptors ``[c, dim]`` of sets ``x [c, b, ...]``."""
        embedded = targets.apply(self.phi, part(params, "phi"), x.flatten(0, 1))
        mean = _in_sets(F.normalize(embedded, dim=1), len(x)).mean(dim=1)
        weight = params["psi.weight"]
        stretch = torch.linalg.matrix_norm(weight, ord=2).clamp_min(1)
        return F.linear(mean, weight / stretch, params["psi.bias"])


def deep_sets(task: Task, dim: int, width: int = 200, kind: type[DeepSets] = DeepSets) -> DeepSets:
    """Build DeepSets around a net like the default target (Zaheer et al., 2017).

    Of ``width`` units half are mean- and half max-pooled (OD-PFL: 100 and 100).

    >>> from latecomer.models.task.task import make_task
    >>> encoder = deep_sets(make_task(input_shape=(6,), n_classes=4), 5)
    >>> params = encoder.initial(torch.Generator().manual_seed(0))
    >>> tuple(encoder(params, torch.zeros(2, 3, 6)).shape)
    (2, 5)
    """
    phi = targets.build("auto", task.input_shape, width).to(task.dtype)
    with torch.device("meta"):
        return kind(phi, nn.Linear(width, dim).to(task.dtype))


def refuse_unbounded(epsilon: float | None, encoder: str) -> None:
    """Raise ``ValueError`` where noise is asked for and ``encoder`` is not ``unit-deepsets``."""
    if epsilon is not None and encoder != "unit-deepsets":
        legal = "unit-deepsets with dp_epsilon (noise does not hide max pooling or attention)"
        raise ValueError(f"encoder must be {legal}, got encoder={encoder!r}")


def noise_sd(n_samples: int, epsilon: float, dp_delta: float) -> float:
    """Return the noise's standard deviation for a private descriptor of ``n_samples`` samples.

    It is the least one that makes a single release of a :class:`UnitDeepSets` descriptor
    ``(epsilon, dp_delta)``-private when one sample is replaced (OD-PFL, Lemma 2; Balle and Wang,
    2018, Theorem 9). The number of samples is public.

    >>> round(noise_sd(100, 0.3, 0.01), 4)
    0.0912
    """
    swing = dp_sensitivity(head_lipschitz=1, feature_bound=1, n_samples=n_samples)
    return float(gauss_analytic(epsilon=epsilon, dp_delta=dp_delta, sensitivity=swing))


def with_noise(descriptors: Tensor, sd: float, generator: Generator) -> Tensor:
    """Return ``descriptors`` plus independent Gaussian noise of standard deviation ``sd``."""
    noise = torch.randn(descriptors.shape, generator=generator, dtype=descriptors.dtype)
    return descriptors + sd * noise.to(descriptors.device)


@dataclass(frozen=True, eq=False)
class DSS:
    """Deep sets of symmetric elements (Maron, Litany, Chechik, Fetaya, ICML 2020).

    Each layer maps every sample and adds a map of the set's mean, so that samples influence each
    other from the first layer on: ``L(x_i) + M(mean_j x_j)``, then ReLU, and for images 2x2
    max-pooling. The paper sums over the set; the mean keeps the scale for sets of any size. At
    the end come a dense layer per sample, a mean over the set and a linear map. The skeleton holds
    ``n_layers`` pairs ``own1``, ``set1``, ... (convolutions or dense), then ``dense`` and ``psi``.
    """

    skeleton: nn.Module
    n_layers: int

    def initial(self, generator: Generator) -> Params:
        """Draw fresh weights from ``generator`` alone."""
        return targets.initial(self.skeleton, generator)

    def __call__(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor | None = None) -> Tensor:
        """Return descriptors ``[c, dim]`` of sets ``x [c, b, ...]``."""
        for number in range(1, self.n_layers + 1):
            alone, common = part(params, f"own{number}"), part(params, f"set{number}")
            each = _in_sets(_layer(alone["weight"], alone["bias"], x.flatten(0, 1)), len(x))
            x = F.relu(each + _layer(common["weight"], None, x.mean(dim=1))[:, None])
            if x.dim() == 5 and min(x.shape[3:]) >= 2:
                x = _in_sets(F.max_pool2d(x.flatten(0, 1), 2), len(x))
        embedded = F.relu(_linear(params, "dense", x.flatten(2)))
        return _linear(params, "psi", embedded.mean(dim=1))


@dataclass(frozen=True, eq=False)
class SetTransformer:
    """A small Set Transformer (Lee et al., ICML 2019): a self-attention block, then a pooling one.

    A net like the default target turns samples into tokens; the tokens attend to each other; a
    learnt seed attends to them; a linear map follows. Cost grows with the square of the set's size.
    The skeleton ``phi`` makes tokens, ``blocks`` holds ``attend``, ``pool``, ``seed`` and ``psi``.
    """

    phi: nn.Module
    blocks: nn.Module
    n_heads: int = 4

    def initial(self, generator: Generator) -> Params:
        """Draw fresh weights from ``generator`` alone."""
        phi = targets.initial(self.phi, generator)
        return nest("phi", phi) | targets.initial(self.blocks, generator)

    def __call__(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor | None = None) -> Tensor:
        """Return descriptors ``[c, dim]`` of sets ``x [c, b, ...]``."""
        tokens = targets.apply(self.phi, part(params, "phi"), x.flatten(0, 1))
        tokens = _in_sets(F.relu(tokens), len(x))
        tokens = self._block(part(params, "attend"), tokens, tokens)
        seed = params["seed.weight"].T.expand(len(x), 1, -1)
        return _linear(params, "psi", self._block(part(params, "pool"), seed, tokens)[:, 0])

    def _block(self, params: Params, asking: Tensor, asked: Tensor) -> Tensor:
        """Attend from ``asking [c, q, w]`` to ``asked [c, b, w]``, each step with a residual."""
        query, key, value = (
            _linear(params, name, tokens)
            .reshape(*tokens.shape[:2], self.n_heads, -1)
            .transpose(1, 2)
            for name, tokens in (("query", asking), ("key", asked), ("value", asked))
        )
        seen = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        hidden = _normed(params, "norm1", asking + _linear(params, "out", seen))
        return _normed(params, "norm2", hidden + F.relu(_linear(params, "feed", hidden)))


@dataclass(frozen=True, eq=False)
class BatchAveraged:
    """An encoder applied to a set in batches of ``size``; descriptors are averaged, by their sizes.

    Memory then does not grow with the set. Samples are batched in their order, on which the
    descriptor then depends unless the encoder is a mean over samples.
    """

    encoder: SetEncoder
    size: int

    def initial(self, generator: Generator) -> Params:
        """Draw fresh weights from ``generator`` alone."""
        return self.encoder.initial(generator)

    def __call__(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor | None = None) -> Tensor:
        """Return descriptors ``[c, dim]`` of sets ``x [c, b, ...]``."""
        batches = [x[:, first : first + self.size] for first in range(0, x.shape[1], self.size)]
        sums = [self.encoder(params, batch) * batch.shape[1] for batch in batches]
        return torch.stack(sums).sum(dim=0) / x.shape[1]


@dataclass(frozen=True, eq=False)
class OfCounts:
    """An encoder of vectors that is given tokens: it sees their counts, see `counted`."""

    of_vectors: SetEncoder
    vocabulary: int

    def initial(self, generator: Generator) -> Params:
        """Draw fresh weights from ``generator`` alone."""
        return self.of_vectors.initial(generator)

    def __call__(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor | None = None) -> Tensor:
        """Return descriptors ``[c, dim]`` of sets ``x [c, b, T]``."""
        return self.of_vectors(params, counted(x, self.vocabulary), y)


def _in_sets(x: Tensor, n_sets: int) -> Tensor:
    """Give samples ``[c * b, ...]`` their set axis back: ``[c, b, ...]``."""
    return x.reshape(n_sets, -1, *x.shape[1:])


def _linear(params: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.linear(x, params[f"{name}.weight"], params[f"{name}.bias"])


def _layer(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """Apply a 3x3 convolution or a dense layer, by the shape of the weights."""
    if weight.dim() == 2:
        return F.linear(x, weight, bias)
    return F.conv2d(x, weight, bias, padding=1)


def _normed(params: Params, name: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], params[f"{name}.weight"], params[f"{name}.bias"])


def _dss(task: Task, dim: int) -> DSS:
    depth, *sides = task.input_shape
    widths = (16, 32) if sides else (64, 64)
    skeleton = nn.ModuleDict()
    with torch.device("meta"):
        for number, width in enumerate(widths, start=1):
            for kind in ("own", "set"):
                bias = kind == "own"
                layer: nn.Module = nn.Linear(depth, width, bias=bias)
                if sides:
                    layer = nn.Conv2d(depth, width, 3, padding=1, bias=bias)
                skeleton[f"{kind}{number}"] = layer
            if sides and min(sides) >= 2:
                sides = [side // 2 for side in sides]
            depth = width
        skeleton["dense"] = nn.Linear(depth * sides[0] * sides[1] if sides else depth, 100)
        skeleton["psi"] = nn.Linear(100, dim)
    return DSS(skeleton.to(task.dtype), len(widths))


def _set_transformer(task: Task, dim: int) -> SetTransformer:
    width = 64
    phi = targets.build("auto", task.input_shape, width).to(task.dtype)
    with torch.device("meta"):
        blocks = nn.ModuleDict({"seed": nn.Linear(1, width, bias=False)})
        for name in ("attend", "pool"):
            layers: dict[str, nn.Module] = {
                key: nn.Linear(width, width) for key in ("query", "key", "value", "out", "feed")
            }
            layers |= {key: nn.LayerNorm(width) for key in ("norm1", "norm2")}
            blocks[name] = nn.ModuleDict(layers)
        blocks["psi"] = nn.Linear(width, dim)
    return SetTransformer(phi, blocks.to(task.dtype))


SET_ENCODERS: dict[str, Callable[[Task, int], SetEncoder]] = {
    "deepsets": deep_sets,
    "dss": _dss,
    "set-transformer": _set_transformer,
}
"""Name of an encoder that reads no labels -> builder from (task, length of a descriptor).

- ``deepsets``: a net like the default target, its units half mean- and half max-pooled over the set
  (Zaheer et al., 2017).
- ``dss``: every layer maps a sample and adds a map of the set's mean (Maron et al., ICML 2020).
- ``set-transformer``: samples attend to one another, then a learnt seed to them (Lee et al., ICML
  2019); its cost grows with the square of the set.
"""


def set_encoder_named(name: str, task: Task, dim: int, width: int = 200) -> SetEncoder:
    """Build an encoder of :data:`SET_ENCODERS`, or ``unit-deepsets``.

    ``width`` is the number of pooled units of the two DeepSets; the others have fixed widths.

    >>> from latecomer.models.task.task import make_task
    >>> task = make_task(input_shape=(6,), n_classes=4)
    >>> type(set_encoder_named("unit-deepsets", task, 5)).__name__
    'UnitDeepSets'
    """
    if task.vocabulary:
        vectors = replace(task, input_shape=(task.vocabulary,), vocabulary=0)
        return OfCounts(set_encoder_named(name, vectors, dim, width), task.vocabulary)
    if name == "unit-deepsets":
        return deep_sets(task, dim, width, UnitDeepSets)
    return deep_sets(task, dim, width) if name == "deepsets" else SET_ENCODERS[name](task, dim)


def reads_no_labels(name: str) -> bool:
    """Tell whether a name, with or without a batch size, is that of an unlabelled encoder.

    >>> reads_no_labels("dss:32"), reads_no_labels("convnet")
    (True, False)
    """
    return name.partition(":")[0] in SET_ENCODERS


# Building a skeleton takes as long as embedding a tenth of a support.
@lru_cache(maxsize=8)
def set_encoder(task: Task, dim: int) -> SetEncoder:
    """Build the unlabelled encoder named by ``task.encoder`` for descriptors of length ``dim``.

    ``auto`` is ``deepsets``. ``deepsets:32`` averages descriptors over batches of 32 samples
    instead of looking at the whole set at once.

    Raises
    ------
    ValueError
        If the name is unknown, or that of an encoder that reads labels.
    """
    name, colon, size = ("deepsets" if task.encoder == "auto" else task.encoder).partition(":")
    if name not in SET_ENCODERS:
        known = ", ".join(["auto", *SET_ENCODERS])
        raise ValueError(
            f"encoder of unlabelled data must be one of {known}, got encoder={task.encoder!r}"
        )
    built = SET_ENCODERS[name](task, dim)
    if not colon:
        return built
    if not (size.isascii() and size.isdecimal() and int(size) >= 1):
        raise ValueError(
            f"encoder: batches must have at least 1 sample, as in {name}:32, "
            f"got encoder={task.encoder!r}"
        )
    return BatchAveraged(built, int(size))
