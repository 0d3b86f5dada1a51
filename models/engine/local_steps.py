"""Local training: momentum SGD on a dictionary of parameters, and how those lie in memory.

A step of SGD takes as many operations as there are tensors, and an operation takes a microsecond
however small the tensor: for a net of a few thousand weights, all of them take a quarter as long as
the forward and backward passes. So the weights of such a net lie in one row of numbers, and so do
its gradients. The step computes the same numbers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, cycle, groupby

import torch
from torch import Tensor

from latecomer.models.engine.threads import Work, alone, piece
from latecomer.models.task.state import Params

A_FEW = 2**15
"""Most weights of a net whose gradients are gathered; for more, gathering costs what it saves."""
_APART = 32
"""Every tensor in a row begins at a multiple of this many numbers, hence of 64 bytes."""


@dataclass(frozen=True, eq=False)
class Table:
    """Tensors, and the memory that holds their numbers: the tensors themselves, or one row.

    Attributes
    ----------
    tensors : list of Tensor
        A net's weights, or their gradients.
    lying : list of Tensor
        Memory that a step works on.
    parts : list of (list of Tensor, list of Tensor)
        Memory and tensors of each part of the weights whose gradients are scaled down
        together.
    """

    tensors: list[Tensor]
    lying: list[Tensor]
    parts: list[tuple[list[Tensor], list[Tensor]]]

    @property
    def in_a_row(self) -> bool:
        """Whether the numbers lie in one row, apart from the tensors that they came in."""
        return self.lying is not self.tensors


_Kind = tuple[tuple[torch.Size, ...], torch.dtype, tuple[tuple[int, ...], ...]]


class Workspace:
    """Memory for trainings that follow one another: each reuses the rows of the one before.

    Parameters
    ----------
    filters : torch.memory_format
        How gradients of filters lie on a CPU, where the weights of large nets lie likewise.
    """

    def __init__(self, filters: torch.memory_format = torch.channels_last) -> None:
        self._filters = filters
        self._rows: dict[_Kind, tuple[Table, Iterator[Table]]] = {}

    def laid_out(
        self, start: Sequence[Tensor], parts: Sequence[Sequence[int]]
    ) -> tuple[Table, Callable[[list[Tensor]], Table]]:
        """Return a copy of weights to train, and a function that tabulates each step's gradients.

        ``parts`` are the places of the weights whose gradients are scaled down together, in order.
        The copy is valid until the next one is made. ``slopes -> table`` keeps the given tensors
        themselves unless the table is ``in_a_row``; a table stays unchanged until the function has
        been called twice more.
        """
        one_kind = len({(value.dtype, value.device) for value in start}) == 1
        few = sum(value.numel() for value in start) <= A_FEW
        if not (one_kind and few and start[0].device.type == "cpu"):
            leaves = [_copy(value, self._filters) for value in start]
            return _as_they_lie(leaves, parts), lambda slopes: _as_they_lie(slopes, parts)
        shapes = tuple(value.shape for value in start)
        kind = shapes, start[0].dtype, tuple(map(tuple, parts))
        if kind not in self._rows:
            # Two tables of gradients alternate: that of the step before is the momentum.
            weights, *both = _in_rows(start, parts, 3)
            self._rows[kind] = weights, cycle(both)
        weights, turns = self._rows[kind]
        torch._foreach_copy_(weights.tensors, [value.detach() for value in start])

        def gathered(slopes: list[Tensor]) -> Table:
            table = next(turns)
            torch._foreach_copy_(table.tensors, slopes)
            return table

        # The leaves are fresh views: a leaf itself could not be copied into.
        leaves = [value.detach() for value in weights.tensors]
        return replace(weights, tensors=leaves), gathered


def _as_they_lie(tensors: list[Tensor], parts: Sequence[Sequence[int]]) -> Table:
    cut = [[tensors[place] for place in places] for places in parts]
    return Table(tensors, tensors, list(zip(cut, cut, strict=True)))


def _in_rows(like: Sequence[Tensor], parts: Sequence[Sequence[int]], n_rows: int) -> list[Table]:
    """Return tables of zeros in the shapes of ``like``, each in a row of its own."""
    shapes = tuple(value.shape for value in like)
    places, cuts, end = _in_a_row(shapes, tuple(map(tuple, parts)))
    tables = []
    for row in like[0].new_zeros(n_rows, end).unbind():
        first = row.storage_offset()
        tensors = [row.as_strided(shape, strides, first + at) for shape, strides, at in places]
        cut = [
            ([row[cut]], [tensors[at] for at in part])
            for cut, part in zip(cuts, parts, strict=True)
        ]
        tables.append(Table(tensors, [row], cut))
    return tables


@lru_cache(maxsize=16)
def _in_a_row(
    shapes: tuple[torch.Size, ...], parts: tuple[tuple[int, ...], ...]
) -> tuple[list[tuple[torch.Size, list[int], int]], list[slice], int]:
    """Return where tensors lie in a row: shape, strides and start of each, the parts, the end."""
    # Each is aligned as newly allocated memory is; otherwise products might round differently.
    starts = [0, *accumulate(-(-shape.numel() // _APART) * _APART for shape in shapes)]
    places = [(shape, _strides(shape), at) for shape, at in zip(shapes, starts, strict=False)]
    cuts = [slice(starts[part[0]], starts[part[-1] + 1]) for part in parts]
    return places, cuts, starts[-1]


def _filters(shape: torch.Size) -> bool:
    return len(shape) == 4 and shape[1] > 1


def _strides(shape: torch.Size) -> list[int]:
    """Return the strides of weights on a CPU, filters channels-last."""
    strides, step = [1] * len(shape), 1
    for axis in (1, 3, 2, 0) if _filters(shape) else range(len(shape) - 1, -1, -1):
        strides[axis], step = step, step * shape[axis]
    return strides


def _copy(value: Tensor, filters: torch.memory_format) -> Tensor:
    """Return a copy, laid out as its gradients will be."""
    images = _filters(value.shape) and value.device.type == "cpu"
    layout = filters if images else torch.contiguous_format
    return value.detach().clone(memory_format=layout)


UNCLIPPED = 1e30
"""A norm that no gradient reaches, and still a float32."""


@dataclass(frozen=True)
class LocalSGD:
    """The rule of a local step.

    With ``g`` the gradient scaled down to norm ``clip`` where it is longer:
    ``m <- momentum * m + g + weight_decay * p`` and ``p <- p - lr * m``, ``m`` starting at 0.

    Attributes
    ----------
    lr, momentum, weight_decay, clip : float
        As above.
    apart : str
        Section of the weights whose gradient is scaled down separately from the others', so that
        neither of two models that train side by side depends on the other.
    """

    lr: float
    momentum: float = 0.9
    weight_decay: float = 0.0
    clip: float = 50.0
    apart: str = ""

    def at(self, lr: float | None) -> "LocalSGD":
        """Return the rule at another rate; None: as it is.

        >>> LocalSGD(0.1).at(0.5).lr, LocalSGD(0.1).at(None).lr
        (0.5, 0.1)
        """
        return self if lr is None else replace(self, lr=lr)

    def reach(self, n_steps: int) -> float:
        """Return how far ``n_steps`` steps go against a gradient of 1 that stays as it is.

        Without decay and clipping: ``lr * (n - m (1 - m^n) / (1 - m)) / (1 - m)``, ``m`` the
        momentum.

        >>> LocalSGD(0.5, momentum=0.0).reach(4), LocalSGD(1.0, momentum=0.5).reach(2)
        (2.0, 2.5)
        """
        m = self.momentum
        return self.lr * (n_steps - m * (1 - m**n_steps) / (1 - m)) / (1 - m)

    def parts(self, names: Sequence[str]) -> list[list[int]]:
        """Return the places of the weights whose gradients are scaled down together.

        >>> LocalSGD(0.1).parts(["a", "b"]), LocalSGD(0.1, apart="own").parts(["a", "own.a"])
        ([[0, 1]], [[0], [1]])
        """
        section = f"{self.apart}."
        runs = groupby(range(len(names)), lambda at: names[at].startswith(section))
        return [list(places) for _, places in runs]


def clip_by_norm(slopes: list[Tensor], largest: float) -> list[Tensor]:
    """Scale tensors by one factor so that their joint Euclidean norm is at most ``largest``."""
    length = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(slopes)))
    if length.device.type != "cpu":
        # A comparison would make the host wait for the device.
        scale = largest / length.clamp_min(largest)
        return [slope * scale for slope in slopes]
    norm = float(length)
    # Comparing on the host costs less than multiplying by 1, as nearly every step would.
    return [slope * (largest / norm) for slope in slopes] if norm > largest else slopes


def local_sgd(
    objective: Callable[[Params, int], Tensor],
    params: Mapping[str, Tensor],
    *,
    n_steps: int,
    rule: LocalSGD,
    workspace: Workspace | None = None,
) -> tuple[Params, Tensor]:
    """Take steps of SGD from ``params``, which are left as they are.

    ``objective`` maps weights and a step to a loss, a 0-d tensor. It is given the same tensors at
    every step, which are changed in place: it must copy what it keeps. Returned are the weights
    reached, and the mean loss over the steps (0-d; not finite if one was not).
    """
    return alone(sgd_in_pieces(objective, params, n_steps=n_steps, rule=rule, workspace=workspace))


def sgd_in_pieces(
    objective: Callable[[Params, int], Tensor],
    params: Mapping[str, Tensor],
    *,
    n_steps: int,
    rule: LocalSGD,
    workspace: Workspace | None = None,
) -> Work[tuple[Params, Tensor]]:
    """Do what :func:`local_sgd` does as work that threads may pass on."""
    memory = workspace or Workspace()
    weights, collected = memory.laid_out(list(params.values()), rule.parts(list(params)))
    leaves = [value.requires_grad_() for value in weights.tensors]
    point = dict(zip(params, leaves, strict=True))
    values = weights.lying if weights.in_a_row else [value.detach() for value in leaves]
    way: list[Tensor] = []
    total = values[0].new_zeros(())
    at_once = piece(n_steps)
    for first in range(0, n_steps, at_once):
        if first:
            yield
        with torch.enable_grad():
            for step in range(first, min(first + at_once, n_steps)):
                loss = objective(point, step)
                slopes = collected(_slopes(loss, leaves, owned=not weights.in_a_row))
                for lying, tensors in slopes.parts:
                    _clip_in_place(lying, tensors, rule.clip)
                if rule.weight_decay:
                    _add_in_place(slopes.lying, values, rule.weight_decay)
                if rule.momentum and way:
                    _add_in_place(slopes.lying, way, rule.momentum)
                # The tensors just written to are the momentum of the next step.
                way = slopes.lying
                _add_in_place(values, way, -rule.lr)
                total += loss.detach()
    reached = {
        name: value.detach().clone(memory_format=torch.contiguous_format)
        for name, value in point.items()
    }
    return reached, total / max(n_steps, 1)


def _slopes(loss: Tensor, leaves: list[Tensor], *, owned: bool) -> list[Tensor]:
    """Return the gradient of ``loss``; ``owned``: in memory of its own."""
    slopes: Sequence[Tensor | None]
    if owned:
        for leaf in leaves:
            # The backward pass then hands over its own tensors instead of adding to others.
            leaf.grad = None
        torch.autograd.backward(loss, inputs=leaves)
        slopes = [leaf.grad for leaf in leaves]
    else:
        slopes = torch.autograd.grad(loss, leaves, allow_unused=True)
    return [
        torch.zeros_like(leaf) if slope is None else slope
        for leaf, slope in zip(leaves, slopes, strict=True)
    ]


def _add_in_place(to: list[Tensor], what: list[Tensor], times: float) -> None:
    if len(to) == 1:
        to[0].add_(what[0], alpha=times)
    else:
        torch._foreach_add_(to, what, alpha=times)


def _clip_in_place(lying: list[Tensor], tensors: list[Tensor], largest: float) -> None:
    """Scale ``tensors`` down by one factor; ``lying`` holds all their numbers in memory."""
    if tensors[0].device.type == "cpu":
        # Most steps are far from being clipped, and a cheaper norm, rounded differently, shows it.
        # On other devices the host would have to wait for it.
        all_of_it = lying[0] if len(lying) == 1 else torch.stack(torch._foreach_norm(lying))
        roughly = float(torch.linalg.vector_norm(all_of_it))
        if roughly < 0.999 * largest:
            return
    types = dict.fromkeys(slope.dtype for slope in tensors)
    rows = [torch.cat([v.reshape(-1) for v in tensors if v.dtype == dtype]) for dtype in types]
    norms = [torch.linalg.vector_norm(row) for row in rows]
    norm = norms[0]
    if len(norms) > 1:
        norm = torch.linalg.vector_norm(torch.stack([value.to(norm.dtype) for value in norms]))
    if norm.device.type == "cpu" and not float(norm) > largest:
        return
    torch._foreach_mul_(lying, largest / norm.clamp_min(largest))
