"""The state of a federation as plain dictionaries of tensors.

Names are dotted (``hyper.trunk0.weight``), so that a state is one flat table that can be written to
a file as it is; :func:`part` and :func:`nest` move between a table and its named sections.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

Params = dict[str, Tensor]
"""Weights by name."""


@dataclass(frozen=True, eq=False)
class State:
    """All that training has produced so far.

    Attributes
    ----------
    server : dict of str to Tensor
        What the server holds: weights, optimizer moments, frozen statistics.
    clients : dict of str to Tensor
        What each seen client holds, client axis first (length: number of seen clients); empty for
        methods whose clients keep nothing.
    disposable : bool
        Whether nobody needs the tensors any more, so that the next round may overwrite them: a
        large state is quicker to move where it lies than to move and copy.
    """

    server: Params
    clients: Params = field(default_factory=dict)
    disposable: bool = field(default=False, kw_only=True)

    def copy(self) -> "State":
        """Return the same numbers, every tensor in memory of its own.

        >>> weight = torch.zeros(1)
        >>> found = State({"w": weight, "mean.w": weight}).copy()
        >>> found.server["w"] += 1
        >>> found.server["mean.w"], weight
        (tensor([0.]), tensor([0.]))
        """
        both = self.server, self.clients
        return State(*({key: value.clone() for key, value in table.items()} for table in both))


def part(table: Mapping[str, Tensor], section: str) -> Params:
    """Return the entries named ``section.<name>`` under their short names."""
    prefix = section + "."
    return {key[len(prefix) :]: value for key, value in table.items() if key.startswith(prefix)}


def nest(section: str, table: Mapping[str, Tensor]) -> Params:
    """Return ``table`` with every name put under ``section``; the inverse of :func:`part`."""
    return {f"{section}.{key}": value for key, value in table.items()}


def row(table: Mapping[str, Tensor], index: int) -> Params:
    """Return one client's entries of a table whose first axis is the client."""
    return {key: value[index] for key, value in table.items()}


def rows(table: Mapping[str, Tensor]) -> list[Params]:
    """Return every client's entries of a nonempty table, as views.

    >>> rows({"a": torch.tensor([1.0, 2.0])})
    [{'a': tensor(1.)}, {'a': tensor(2.)}]
    """
    each = zip(*(value.unbind() for value in table.values()), strict=True)
    return [dict(zip(table, values, strict=True)) for values in each]


def gather(table: Mapping[str, Tensor], members: Tensor) -> Params:
    """Return the rows ``members`` of every entry."""
    return {key: value[members] for key, value in table.items()}


def scatter(
    table: Mapping[str, Tensor],
    members: Tensor,
    rows: Mapping[str, Tensor],
    *,
    in_place: bool = False,
) -> Params:
    """Return ``table`` with the rows ``members`` of the named entries replaced.

    The given table is left as it was, unless ``in_place``; entries that ``rows`` does not name are
    shared, not copied.
    """
    put = torch.Tensor.index_copy_ if in_place else torch.Tensor.index_copy
    return {**table, **{key: put(table[key], 0, members, value) for key, value in rows.items()}}


def stack(tables: list[Params]) -> Params:
    """Put single clients' tables together along a new leading client axis."""
    return {key: torch.stack([table[key] for table in tables]) for key in tables[0]}


def detached(table: Mapping[str, Tensor]) -> Params:
    """Return the same tensors cut off from the autograd graph."""
    return {key: value.detach() for key, value in table.items()}


def leaves(table: Mapping[str, Tensor]) -> Params:
    """Return the same values as leaf tensors that require gradients."""
    return {key: value.detach().requires_grad_() for key, value in table.items()}


def add(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> Params:
    """Return ``left + right``, entry by entry."""
    return {key: value + right[key] for key, value in left.items()}


def subtract(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> Params:
    """Return ``left - right``, entry by entry."""
    return {key: value - right[key] for key, value in left.items()}


def repeat(table: Mapping[str, Tensor], count: int) -> Params:
    """Return ``count`` copies of every entry along a new leading axis (as views)."""
    return {key: value.expand(count, *value.shape) for key, value in table.items()}


def weighted_mean(table: Mapping[str, Tensor], weights: Tensor) -> Params:
    """Average every entry over its leading axis with the given nonnegative weights ``[c]``."""
    # Dividing integers gives float32, which would leave errors of 1e-8 in a float64 mean.
    share = weights.to(torch.float64) / weights.sum()
    return {
        key: torch.tensordot(share.to(value.dtype), value, dims=1) for key, value in table.items()
    }


def sent(value: Tensor, device: torch.device) -> Tensor:
    """Return a host tensor copied to ``device``; the host does not wait for the copy."""
    if device.type == "cuda":
        return value.pin_memory().to(device, non_blocking=True)
    return value.to(device)


def move(table: Mapping[str, Tensor], device: torch.device) -> Params:
    """Return the table on ``device``."""
    return {key: value.to(device) for key, value in table.items()}
