"""How weights and gradients are laid out in memory while a client trains.

A step of SGD takes as many operations as there are tensors, and an operation takes a microsecond
however small the tensor: for a net of a few thousand weights, all of them take a quarter as long as
the forward and backward passes. So the weights of such a net lie in one row of numbers, and so do
its gradients. The step computes the same numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, cycle

import torch
from torch import Tensor

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

        Parameters
        ----------
        start : sequence of Tensor
            The weights; left as they are.
        parts : sequence of sequence of int
            Places of the weights whose gradients are scaled down together, in order.

        Returns
        -------
        tuple of (Table, callable)
            The copy, valid until the next one is made; and ``slopes -> table``, which keeps the
            given tensors themselves unless the table is ``in_a_row``. A table stays unchanged
            until the function has been called twice more.
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
