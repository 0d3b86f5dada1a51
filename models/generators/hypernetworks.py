"""Hypernetworks: from a descriptor to the weights of a target network of one size or several.

Every size has its own heads on one shared trunk. A cohort's weights are tensors of one shape, so a
smaller net is padded with zeros to the largest. The zeros stay exactly zero in local training and
change nothing: a unit without weights outputs ReLU(0) = 0, so its outgoing weights get no gradient,
and ReLU is flat at 0, so its incoming weights get none either; momentum and weight decay of zeros
are zero. The padding is still computed with: in a simulation, a small client takes as long as a
large one.

A generator's table holds the sections ``hyper`` and ``encoder`` (weights) and ``descriptor`` (the
scalar mean and standard deviation that descriptors are standardised with).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from latecomer.models.engine.newcomers import Messages, one_model
from latecomer.models.engine.schedule import Cohort
from latecomer.models.engine.threads import each, in_threads
from latecomer.models.generators.encoders import encoder
from latecomer.models.task import targets
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.objectives import pulled_back
from latecomer.models.task.state import Params, move, nest, part
from latecomer.models.task.targets import Shape
from latecomer.models.task.task import Task

_IN_CACHE = 2**18
"""Numbers of a head (a megabyte of float32) that all clients use before the next are read."""
_TOGETHER = 64
"""Rows that a matrix product may compute together; cutting at multiples keeps its rounding."""


@dataclass(frozen=True)
class Hypernetwork:
    """A dense trunk and one linear head for each target tensor.

    The trunk maps ``dim`` to ``width`` and then applies ``hidden`` layers of ``width`` units, each
    preceded by a ReLU; the heads follow directly, as in the published code of pFedHN and PeFLL.

    Attributes
    ----------
    shapes : tuple of (str, tuple of int)
        Name and shape of every target tensor.
    dim : int
        Length of a descriptor.
    hidden, width : int
        Depth and width of the trunk.
    dtype : torch.dtype
        Floating type of the weights.
    spectral : bool
        Whether every layer's weight is divided by its largest singular value (Miyato et al., 2018,
        applied to all layers as in pFedHN's appendix C.3), so that each layer is 1-Lipschitz. The
        singular value is exact, not from a power iteration, and gradients go through it.
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    dim: int
    hidden: int = 3
    width: int = 100
    dtype: torch.dtype = torch.float32
    spectral: bool = False

    def initial(self, generator: torch.Generator) -> Params:
        """Draw weights, every layer by torch's rule for linear layers."""
        with torch.device("meta"):
            trunk = {
                f"trunk{i}": nn.Linear(self.width if i else self.dim, self.width)
                for i in range(self.hidden + 1)
            }
            heads = {name: nn.Linear(self.width, prod(shape)) for name, shape in self.shapes}
        params: Params = {}
        for name, layer in [*trunk.items(), *((f"heads.{k}", v) for k, v in heads.items())]:
            drawn = targets.initial(layer, generator)
            params |= {f"{name}.{key}": value.to(self.dtype) for key, value in drawn.items()}
        return params

    def __call__(self, params: Mapping[str, Tensor], descriptors: Tensor) -> Params:
        """Return target weights ``[c, ...]`` for descriptors ``[c, dim]``."""
        params = self.applied(params)
        features = self._features(params, descriptors)
        made: Params = {}
        for name, shape in self.shapes:
            weight, bias = params[f"heads.{name}.weight"], params[f"heads.{name}.bias"]
            made[name] = F.linear(features, weight, bias).view(len(features), *shape)
        return made

    def each(self, params: Mapping[str, Tensor], descriptors: Sequence[Tensor]) -> Iterator[Params]:
        """Yield the target weights ``[1, ...]`` for every descriptor ``[1, dim]``.

        The numbers equal those of one call per descriptor, to the last digit: a product's rounding
        depends on its number of rows. But each call would read all heads, a hundred times as large
        as the weights they make; here each part of them stays in the caches and serves everyone.
        """
        params = self.applied(params)
        features = [self._features(params, one) for one in descriptors]
        made: list[Params] = [{} for _ in features]
        rows = max(_IN_CACHE // self.width // _TOGETHER, 1) * _TOGETHER
        for name, shape in self.shapes:
            weight, bias = params[f"heads.{name}.weight"], params[f"heads.{name}.bias"]
            cut = [*zip(torch.split(weight, rows), torch.split(bias, rows), strict=True)]
            parts = each(lambda part: [F.linear(one, *part) for one in features], cut)
            for table, own in zip(made, zip(*parts, strict=True), strict=True):
                table[name] = torch.cat(own, dim=1).view(1, *shape)
        yield from made

    def _features(self, params: Mapping[str, Tensor], descriptors: Tensor) -> Tensor:
        features = descriptors
        for i in range(self.hidden + 1):
            features = F.relu(features) if i else features
            features = F.linear(features, params[f"trunk{i}.weight"], params[f"trunk{i}.bias"])
        return features

    def applied(self, params: Mapping[str, Tensor]) -> Params:
        """Return the weights as the layers apply them: normalised where ``spectral``."""
        if not self.spectral:
            return dict(params)
        return {k: v / _largest_singular_value(v) if v.dim() == 2 else v for k, v in params.items()}


def _largest_singular_value(weight: Tensor) -> Tensor:
    """Return the spectral norm of a matrix, 0-d.

    Computed from the smaller Gram matrix: heads have a thousand times as many rows as columns.
    """
    high, wide = weight.shape
    gram = weight.T @ weight if high > wide else weight @ weight.T
    smallest = torch.finfo(weight.dtype).tiny
    largest: Tensor = torch.linalg.eigvalsh(gram)[-1]
    return largest.clamp_min(smallest).sqrt()


def hypernetwork(task: Task, dim: int, names: Sequence[str] | None = None) -> Hypernetwork:
    """Return the hypernetwork that makes the weights of ``task.target``, or those in ``names``.

    More than the task's limit are refused.
    """
    shapes = tuple((k, v) for k, v in task.shapes.items() if names is None or k in names)
    made = sum(prod(shape) for _, shape in shapes)
    if made > task.generated_limit:
        raise ValueError(
            f"the server's network would make {made:,} weights for each client, above "
            f"generated_limit={task.generated_limit:,}: take a smaller target, "
            "hold some of it by model.frozen, or set model.generated_limit if there is memory for "
            "a network a hundred times as large"
        )
    return Hypernetwork(shapes, dim, task.hidden, task.width, task.dtype, task.spectral)


def pull_back(
    made: Mapping[str, Tensor], deltas: Mapping[str, Tensor], leaves: list[Tensor]
) -> list[Tensor]:
    """Return the gradients that move the made weights along ``deltas``, in one backward pass.

    For leaves ``eta`` and made weights ``theta_i(eta)`` of clients ``i`` the result is
    ``- sum_i (d theta_i / d eta)^T delta_i``: a step against it moves every ``theta_i`` along
    ``delta_i``.
    """
    return pulled_back([*made.values()], [-deltas[name] for name in made], leaves)


def embedding_length(n_clients: int) -> int:
    """Return the published length of a descriptor, ``1 + floor(n / 4)``.

    >>> embedding_length(100)
    26
    """
    return 1 + n_clients // 4


Shapes = tuple[tuple[str, Shape], ...]


def largest(sizes: Sequence[str]) -> str:
    """Return the target network in ``sizes`` that holds all the others; empty without sizes.

    A net holds another when padding the other's tensors with zeros gives it the same layers. Sizes
    without such a net are refused.

    >>> largest(["lenet-s", "lenet-l", "lenet"])
    'lenet-l'
    """
    if not sizes:
        return ""
    nets = {name: _sketch(name) for name in sizes}
    for name, net in nets.items():
        if all(_holds(net, other) for other in nets.values()):
            return name
    raise ValueError(
        "sizes must be nets of which the largest has all the layers of the others, at least as "
        f"wide, got sizes={', '.join(sizes)}"
    )


def place_of_novel(novel_size: str, sizes: Sequence[str]) -> int:
    """Return the place in ``sizes`` of new clients' net: the largest or the named; 0 without sizes.

    >>> place_of_novel("largest", ["lenet-s", "lenet"]), place_of_novel("largest", [])
    (1, 0)
    """
    name = largest(sizes) if novel_size == "largest" else novel_size
    if name not in ("", *sizes):
        legal = " or ".join(["largest", *sizes]) + (
            ", one of sizes" if sizes else ", without sizes"
        )
        raise ValueError(f"novel_size must be {legal}, got novel_size={name!r}")
    return list(sizes).index(name) if name else 0


def dealt(sizes: Sequence[str], n_clients: int) -> Tensor:
    """Return each seen client's place among ``sizes``, int64 ``[n]``: 0, 1, 2, 0, 1, 2, ...

    Shares are equal up to one client. Seen clients come in the split's order, permuted uniformly or
    drawn independently, so sizes depend on neither the data, the training seed nor the method. A
    size without a client to learn from is refused.

    >>> dealt(["lenet-s", "lenet"], 5)
    tensor([0, 1, 0, 1, 0])
    """
    if len(sizes) > n_clients:
        raise ValueError(
            f"sizes must be at most as many as the {n_clients} seen clients, got {len(sizes)}"
        )
    return torch.arange(n_clients) % max(len(sizes), 1)


def check_sizes(task: Task, sizes: Sequence[str], n_clients: int) -> None:
    """Refuse sizes that do not fit the task's inputs, or that outnumber the seen clients."""
    for name in sizes:
        shapes_of(task, name)
    dealt(sizes, n_clients)


def shapes_of(task: Task, size: str) -> dict[str, Shape]:
    """Return every tensor's shape in one size's net; an empty name means the task's target."""
    return dict(_shapes(size, task.input_shape, task.n_classes)) if size else task.shapes


def initial(task: Task, size: str, generator: Generator) -> Params:
    """Draw fresh weights of one size by its own layers' rules, padded to the task's shapes."""
    if not size:
        return task.initial(generator)
    net = targets.build(size, task.input_shape, task.n_classes).to(task.dtype)
    return {k: padded(v, task.shapes[k]) for k, v in targets.initial(net, generator).items()}


def padded(value: Tensor, shape: Shape) -> Tensor:
    """Append zeros along the last ``len(shape)`` axes of a tensor until they have this shape.

    >>> padded(torch.ones(1, 2), (2, 3))
    tensor([[1., 1., 0.],
            [0., 0., 0.]])
    """
    tail = value.shape[value.dim() - len(shape) :]
    behind = [(0, side - old) for side, old in zip(shape, tail, strict=True)]
    return F.pad(value, [number for pair in reversed(behind) for number in pair])


def cut(table: Mapping[str, Tensor], shapes: Mapping[str, Shape]) -> Params:
    """Return one client's weights without padding."""
    return {k: v[tuple(slice(side) for side in shapes[k])] for k, v in table.items()}


@dataclass(frozen=True)
class SizedHypernetwork:
    """A dense trunk and, for every size of target network, linear heads for its tensors.

    ``parts`` are the name of each size and the hypernetwork of that size alone, a single one with
    an empty name if there is only the task's target; ``shapes`` are of all that is made, padded.
    """

    parts: tuple[tuple[str, Hypernetwork], ...]
    shapes: Shapes

    def initial(self, generator: Generator) -> Params:
        """Draw the trunk, then the heads size by size."""
        named = [(size, entry) for size, net in self.parts for entry in net.shapes]
        every = tuple((_under(size, key), shape) for size, (key, shape) in named)
        return replace(self.parts[0][1], shapes=every).initial(generator)

    def __call__(self, params: Mapping[str, Tensor], descriptors: Tensor, size: Tensor) -> Params:
        """Return target weights ``[c, ...]`` for descriptors ``[c, dim]`` and sizes ``[c]``."""
        if len(self.parts) == 1:
            ((_, net), (own,)) = self.parts[0], self.by_size(params)
            return net(own, descriptors)
        owners = [(size == place).nonzero().flatten() for place in range(len(self.parts))]
        order = torch.cat(owners).argsort()
        made = [
            net(own, descriptors[rows])
            for (_, net), own, rows in zip(self.parts, self.by_size(params), owners, strict=True)
        ]
        return {
            key: torch.cat([padded(part[key], shape) for part in made])[order]
            for key, shape in self.shapes
        }

    def by_size(self, params: Mapping[str, Tensor]) -> list[Params]:
        """Return for every size the trunk and its heads, named as if it were the only size."""
        trunk = {key: value for key, value in params.items() if key.startswith("trunk")}

        def heads(size: str) -> Params:
            prefix = _under(size, "")
            return {
                "heads." + key.removeprefix("heads." + prefix): value
                for key, value in params.items()
                if key.startswith("heads." + prefix)
            }

        return [trunk | heads(size) for size, _ in self.parts]


def sized_hypernetwork(
    task: Task, dim: int, sizes: Sequence[str] = (), names: Sequence[str] | None = None
) -> SizedHypernetwork:
    """Return the hypernetwork that makes nets of these sizes, or their tensors in ``names``.

    Without sizes it makes the task's target, which must be the largest of the sizes otherwise.
    """
    whole = hypernetwork(task, dim, names)
    if not sizes:
        return SizedHypernetwork((("", whole),), whole.shapes)
    top = targets.build(largest(sizes), task.input_shape, task.n_classes)
    if not (_holds(top, task.target) and _holds(task.target, top)):
        raise ValueError(
            f"target must be {largest(sizes)}, the largest of sizes={', '.join(sizes)}, got a "
            f"target of {task.n_parameters} weights"
        )

    def alone(size: str) -> Hypernetwork:
        shapes = shapes_of(task, size)
        return replace(whole, shapes=tuple((key, shapes[key]) for key, _ in whole.shapes))

    return SizedHypernetwork(tuple((size, alone(size)) for size in sizes), whole.shapes)


def _under(size: str, name: str) -> str:
    return f"{size}.{name}" if size else name


@lru_cache(maxsize=64)
def _shapes(size: str, input_shape: Shape, n_classes: int) -> Shapes:
    net = targets.build(size, input_shape, n_classes)
    return tuple((key, tuple(value.shape)) for key, value in net.named_parameters())


@lru_cache(maxsize=64)
def _sketch(name: str) -> nn.Module:
    """Build a net for some input it accepts; which nets hold which does not depend on it."""
    try:
        return targets.build(name, (3, 32, 32), 2)
    except ValueError:
        return targets.build(name, (8,), 2)


def _holds(net: nn.Module, other: nn.Module) -> bool:
    """Tell whether ``other``, padded with zeros to the shapes of ``net``, computes the same."""
    shapes, others = ({k: v.shape for k, v in one.named_parameters()} for one in (net, other))
    alike = type(net) is type(other) and list(shapes) == list(others)
    return (
        alike
        and _layout(net) == _layout(other)
        and all(_fits(others[key], shape) for key, shape in shapes.items())
    )


def _fits(small: torch.Size, large: torch.Size) -> bool:
    # Kernels must agree: a wider one would shift a convolution's window.
    same_kernel = small[2:] == large[2:]
    return same_kernel and all(a <= b for a, b in zip(small, large, strict=True))


def _layout(net: nn.Module) -> dict[str, Any]:
    """Return a net's settings other than weights: padding, pooling, depth, dropout."""
    return {key: value for key, value in vars(net).items() if not key.startswith("_")}


NETWORKS = ("hyper", "encoder")
"""Sections that hold weights; whatever else a table holds is not learnt."""


def initial_table(
    task: Task, dim: int, clients: Clients, first: Cohort, generator: Generator
) -> Params:
    """Draw both networks, and take the standardisation from one descriptor.

    As in PeFLL's published code, mean and standard deviation are scalars, taken over the ``dim``
    entries of the very first client's first descriptor, and frozen; with a single entry, and with
    equal ones, the standard deviation is 1.
    """
    hyper = move(hypernetwork(task, dim).initial(generator), clients.device)
    embedding = move(encoder(task, dim).initial(generator), clients.device)
    rows = first.descriptor_rows[:1]
    with torch.no_grad():
        raw = encoder(task, dim)(embedding, clients.inputs(rows), clients.labels(rows))
    mean = raw.mean()
    sd = raw.std() if dim > 1 else torch.zeros_like(mean)
    scale = {"mean": mean, "sd": torch.where(sd > 0, sd, torch.ones_like(sd))}
    return nest("hyper", hyper) | nest("encoder", embedding) | nest("descriptor", scale)


def weights_of(table: Mapping[str, Tensor]) -> Params:
    """Return the learnt entries of a generator's table, under their full names."""
    return {key: value for key, value in table.items() if key.split(".")[0] in NETWORKS}


def describe(task: Task, table: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Return the standardised descriptors ``[c, dim]`` of sets ``x [c, b, ...]``, ``y [c, b]``."""
    dim = table["hyper.trunk0.weight"].shape[1]
    raw = encoder(task, dim)(part(table, "encoder"), x, y)
    return (raw - table["descriptor.mean"]) / table["descriptor.sd"]


def generate(task: Task, table: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Params:
    """Return target weights ``[c, ...]`` for sets ``x [c, b, ...]``, ``y [c, b]``."""
    descriptors = describe(task, table, x, y)
    return hypernetwork(task, descriptors.shape[1])(part(table, "hyper"), descriptors)


def generate_each(
    task: Task, table: Mapping[str, Tensor], supports: Sequence[Samples]
) -> Iterator[Params]:
    """Yield each client's target weights ``[1, ...]``, the same as if it were served alone."""
    dim = table["hyper.trunk0.weight"].shape[1]
    encoder(task, dim)  # built here: threads would each do so
    apart = in_threads(task, table["descriptor.mean"].device, min(map(len, supports)))

    def described(own: Samples) -> Tensor:
        return describe(task, table, own.x[None], own.labels()[None])

    alone = each(described, supports, apart=apart)
    network = hypernetwork(task, dim)
    return network.each(part(table, "hyper"), alone)


def encoder_messages(task: Task, table: Mapping[str, Tensor]) -> Messages:
    """Return the messages of who is sent an encoder, tells its descriptor and is sent its model."""
    encoder_size = sum(value.numel() for value in part(table, "encoder").values())
    descriptor = int(table["hyper.trunk0.weight"].shape[1])
    return Messages(1, encoder_size + one_model(task).down, descriptor)
