"""One hypernetwork that makes target networks of several sizes; each client's size is fixed.

Every size has its own heads on one shared trunk. A cohort's weights are tensors of one shape, so a
smaller net is padded with zeros to the largest. The zeros stay exactly zero in local training and
change nothing: a unit without weights outputs ReLU(0) = 0, so its outgoing weights get no gradient,
and ReLU is flat at 0, so its incoming weights get none either; momentum and weight decay of zeros
are zero. The padding is still computed with: in a simulation, a small client takes as long as a
large one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from latecomer.models.generators.hypernetworks import Hypernetwork, hypernetwork
from latecomer.models.task import targets
from latecomer.models.task.state import Params
from latecomer.models.task.targets import Shape
from latecomer.models.task.task import Task

Shapes = tuple[tuple[str, Shape], ...]


def largest(sizes: Sequence[str]) -> str:
    """Return the target network in ``sizes`` that holds all the others; empty without sizes.

    A net holds another when padding the other's tensors with zeros gives it the same layers.

    Raises
    ------
    ValueError
        If there is no such net among them.

    Examples
    --------
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

    Raises
    ------
    ValueError
        If the named size is not among them.

    Examples
    --------
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
    drawn independently, so sizes depend on neither the data, the training seed nor the method.

    Raises
    ------
    ValueError
        If some size would have no client to learn from.

    Examples
    --------
    >>> dealt(["lenet-s", "lenet"], 5)
    tensor([0, 1, 0, 1, 0])
    """
    if len(sizes) > n_clients:
        raise ValueError(
            f"sizes must be at most as many as the {n_clients} seen clients, got {len(sizes)}"
        )
    return torch.arange(n_clients) % max(len(sizes), 1)


def check_sizes(task: Task, sizes: Sequence[str], n_clients: int) -> None:
    """Refuse sizes that do not fit the task's inputs, or that outnumber the seen clients.

    Raises
    ------
    ValueError
    """
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

    Attributes
    ----------
    parts : tuple of (str, Hypernetwork)
        Name of each size and the hypernetwork of that size alone; a single one with an empty name
        if there is only the task's target.
    shapes : tuple of (str, tuple of int)
        Name and shape of every tensor made, padding included.
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

    Without sizes it makes the task's target.

    Raises
    ------
    ValueError
        If the task's target is not the largest of the sizes.
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
