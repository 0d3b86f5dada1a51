"""Bringing the hidden units of two nets of one architecture into the same order."""

from collections.abc import Mapping, Sequence

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from latecomer.models.task.state import Params
from latecomer.models.task.task import Task


def assign(units: Tensor, reference: Tensor) -> Tensor:
    """Return ``order`` such that ``units[order]`` is nearest to ``reference``, row by row.

    The sum of squared distances is smallest among all orders (Hungarian algorithm).

    >>> assign(torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([[2.9], [1.2], [5.0]])).tolist()
    [2, 0, 1]
    """
    cost = torch.cdist(reference.double(), units.double()).square()
    _, order = linear_sum_assignment(cost.cpu().numpy())
    return torch.from_numpy(order).to(units.device)


def reorder(params: Mapping[str, Tensor], layers: Sequence[str], k: int, order: Tensor) -> Params:
    """Return the same net with the units of its ``k``-th layer in another order.

    Outputs of layer ``k`` are reordered, and inputs of the next layer with them: an input axis that
    is a multiple of the number of units holds one block per unit, as after a flattening.
    """
    table = dict(params)
    for name in (f"{layers[k]}.weight", f"{layers[k]}.bias"):
        if name in table:
            table[name] = table[name][order]
    name = f"{layers[k + 1]}.weight"
    after, n_units = table[name], len(order)
    if after.shape[1] % n_units:
        raise ValueError(
            f"target must be a chain of layers to be matched: {layers[k]} has {n_units} units, "
            f"{layers[k + 1]} has {after.shape[1]} inputs"
        )
    blocks = after.reshape(len(after), n_units, -1)
    table[name] = blocks[:, order].reshape(after.shape)
    return table


def match(
    params: Mapping[str, Tensor], reference: Mapping[str, Tensor], layers: Sequence[str]
) -> Params:
    """Return the same net, its hidden units matched to ``reference`` from the input upwards.

    A unit is known by its incoming weights and its bias; those of a layer are compared after the
    layers below have been matched. ``layers`` names the chain from input to output; the last one
    is not reordered.
    """
    table = dict(params)
    for k in range(len(layers) - 1):
        order = assign(_units(table, layers[k]), _units(reference, layers[k]))
        table = reorder(table, layers, k, order)
    return table


def _units(params: Mapping[str, Tensor], layer: str) -> Tensor:
    weight, bias = params[f"{layer}.weight"].flatten(1), params.get(f"{layer}.bias")
    return weight if bias is None else torch.cat([weight, bias[:, None]], dim=1)


def check_chain(task: Task, layers: Sequence[str], params: Mapping[str, Tensor]) -> None:
    """Refuse a net whose hidden units cannot change places without changing its outputs.

    Each layer's units are reversed in turn, and the net applied to random inputs.
    """
    x = task.random_inputs(2, torch.Generator().manual_seed(0))
    expected = task.logits(params, x)
    for k, layer in enumerate(layers[:-1]):
        try:
            order = torch.arange(len(_units(params, layer))).flip(0)
            made = task.logits(reorder(params, layers, k, order), x)
        except (KeyError, IndexError, RuntimeError) as error:
            raise ValueError(_NO_CHAIN.format(layer)) from error
        if not torch.allclose(made, expected, rtol=1e-2, atol=1e-4):
            raise ValueError(_NO_CHAIN.format(layer))


_NO_CHAIN = (
    "target must be a chain of linear layers and convolutions for hidden units to be matched, got "
    "layer {!r} whose units cannot change places"
)
