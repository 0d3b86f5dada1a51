"""Inputs that the meta-learning bounds share: risks on the unit scale and unequal client sizes."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.certificate import Array
from latecomer.bounds.checks import count, interval, positive

__all__ = ["client_sizes", "harmonic_total", "per_client", "scale_of", "unit_risk"]


def scale_of(loss_max: ArrayLike) -> float:
    """Return the largest possible loss as one positive float."""
    scale = positive("loss_max", loss_max)
    if scale.ndim:
        raise ValueError(f"loss_max must be one number greater than 0, got shape {scale.shape}")
    return float(scale)


def unit_risk(name: str, value: ArrayLike, scale: float) -> Array:
    """Return a risk in ``[0, scale]`` divided by ``scale``, so that it lies in [0, 1]."""
    return np.asarray(interval(name, value, 0.0, scale) / scale)


def per_client(name: str, values: Array, *, minimum: int = 1) -> int:
    """Return the number of clients on the last axis, refusing fewer than ``minimum``."""
    if values.ndim == 0 or values.shape[-1] < minimum:
        raise ValueError(
            f"{name} must list at least {minimum} clients along its last axis, "
            f"got shape {values.shape}"
        )
    return int(values.shape[-1])


def client_sizes(sizes: ArrayLike, *, minimum: int = 1) -> NDArray[np.int64]:
    """Return the samples of each client, shape [..., n], each at least ``minimum``."""
    counts = count("sizes", sizes, minimum=minimum)
    per_client("sizes", counts.astype(np.float64))
    return counts


def harmonic_total(sizes: ArrayLike) -> tuple[Array, Array]:
    """Return ``N = n * harmonic mean`` of the sizes and ``ceil(4 N)``, shape [...].

    The ceiling is taken of an exact rational: in floating point it jumps by one where ``4 N`` is a
    whole number.

    >>> total, grid = harmonic_total([10, 20, 400])
    >>> round(float(total), 4), int(grid)
    (59.0164, 237)
    """
    counts = client_sizes(sizes)
    rows = counts.reshape(-1, counts.shape[-1])
    totals = np.empty(len(rows))
    grids = np.empty(len(rows))
    for row, of_clients in enumerate(rows):
        values, times = np.unique(of_clients, return_counts=True)
        reciprocal = sum(
            (Fraction(int(t), int(v)) for v, t in zip(values, times, strict=True)), Fraction(0)
        )
        exact = Fraction(len(of_clients) ** 2) / reciprocal
        totals[row] = float(exact)
        grids[row] = float(-(-4 * exact.numerator // exact.denominator))
    shape = counts.shape[:-1]
    return totals.reshape(shape), grids.reshape(shape)
