"""How steep functions of a table of parameters are: lower estimates by power iteration."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from latecomer.models.task.objectives import pulled_back, squared_norm
from latecomer.models.task.state import Params, add, detached, leaves, subtract

_ITERATIONS = 2  # of the power iterations
_PROBE = 1e-3  # probing distance, relative to the norm of the parameters


def steepest(
    gradient_at: Callable[[Params], Params], point: Mapping[str, Tensor], gradient: Params
) -> float:
    """Return how fast a gradient changes: a lower estimate of its Lipschitz constant.

    Takes differences over a short step, first along the gradient, then along the change found: a
    power iteration for the largest curvature.

    Parameters
    ----------
    gradient_at : callable
        Maps parameters to the gradient there.
    point : mapping of str to Tensor
        Where.
    gradient : dict of str to Tensor
        The gradient at ``point``.
    """
    point, direction = detached(point), gradient
    step, largest = _PROBE * norm_of(point), 0.0
    for _ in range(_ITERATIONS):
        length = norm_of(direction)
        if not length > 0 or not step > 0:
            break
        moved = {name: value + direction[name] * (step / length) for name, value in point.items()}
        # Divide the change by the step as it is after rounding.
        direction = subtract(gradient_at(moved), gradient)
        largest = max(largest, norm_of(direction) / norm_of(subtract(moved, point)))
    return largest


def jacobian_norm(
    function: Callable[[Params], Params], point: Mapping[str, Tensor], rng: np.random.Generator
) -> float:
    """Return a lower estimate of the spectral norm of a Jacobian, by power iteration.

    Each value compared is the norm of the transposed Jacobian applied to a unit vector, so that
    none exceeds the spectral norm; differences only choose the next vector.

    Parameters
    ----------
    function : callable
        Maps parameters to a table of tensors.
    point : mapping of str to Tensor
        Where.
    rng : numpy.random.Generator
        Draws the first vector.
    """
    eta = leaves(point)
    with torch.enable_grad():
        made = function(eta)
    made_here = detached(made)
    towards = {
        name: torch.from_numpy(rng.standard_normal(value.shape)).to(value)
        for name, value in made_here.items()
    }
    step, largest = _PROBE * norm_of(point), 0.0
    for turn in range(_ITERATIONS):
        length = norm_of(towards)
        if not length > 0:
            break
        unit = [towards[name] / length for name in made]
        again = turn + 1 < _ITERATIONS
        slopes = pulled_back([*made.values()], unit, [*eta.values()], again=again)
        back = dict(zip(eta, slopes, strict=True))
        norm = norm_of(back)
        largest = max(largest, norm)
        if turn + 1 == _ITERATIONS or not norm > 0:
            break
        moved = add(detached(eta), {name: value * (step / norm) for name, value in back.items()})
        with torch.no_grad():
            towards = subtract(function(moved), made_here)
    return largest


def norm_of(table: Mapping[str, Tensor]) -> float:
    """Return the Euclidean norm of all entries of all tensors."""
    return math.sqrt(float(squared_norm(table)))
