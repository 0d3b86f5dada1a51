"""Helpers shared by several families of bounds: risks on the unit scale, unequal client sizes."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.binary_kl import kl_inverse_upper
from latecomer.bounds.certificate import Array, Certificate, certificate, priced, rounded_up
from latecomer.bounds.checks import (
    count,
    failure_probability,
    interval,
    largest_loss,
    nonnegative,
    positive,
)


def unit_risk(
    risk: ArrayLike, loss_max: ArrayLike, name: str = "empirical_risk"
) -> tuple[Array, float]:
    """Return a risk in ``[0, loss_max]`` as a share of ``loss_max``, and this."""
    scale = largest_loss("loss_max", loss_max)
    return np.asarray(interval(name, risk, 0.0, scale) / scale), scale


def kl_priced(
    name: str, unit: Array, budget: ArrayLike, delta: dict[str, Array], scale: float
) -> Certificate:
    """Return the certificate of one kl inversion; its price is called as the one event is."""
    (event,) = delta
    value = outward(kl_step(unit, budget), scale)
    return priced(name, value, scale * unit, delta, scale, part=event)


def outward(unit: Array, scale: float) -> Array:
    """Return ``scale * unit`` without rounding below the product; exact at scale 1."""
    return unit if scale == 1.0 else rounded_up(scale * unit)


def kl_step(unit: Array, budget: ArrayLike) -> Array:
    """Return the upper kl inverse; rounding in the budget errs on the safe side as well."""
    # A budget beyond all numbers is as good as the largest: it leaves nothing to be said.
    most = np.finfo(np.float64).max
    return kl_inverse_upper(q=unit, budget=np.minimum(rounded_up(np.asarray(budget)), most))


def summed(
    name: str,
    *,
    terms: dict[str, Array],
    delta: dict[str, Array],
    scale: float = 1.0,
) -> Certificate:
    """Return the certificate whose value is the sum of its terms, rounded up."""
    value = rounded_up(np.asarray(sum(terms.values(), start=np.float64(0.0))))
    return certificate(name, terms=terms, value=value, delta=delta, loss_max=scale)


def nested(
    name: str, *, unit: Array, inner: Array, outer: Array, delta: dict[str, Array], scale: float
) -> Certificate:
    """Return the certificate of an outer inversion around an inner one."""
    return certificate(
        name,
        value=outward(outer, scale),
        terms={
            "empirical_risk": scale * unit,
            "samples": scale * (inner - unit),
            "clients": scale * (outer - inner),
        },
        delta=delta,
        loss_max=scale,
    )


def shared_delta(delta: ArrayLike, client_share: ArrayLike) -> tuple[Array, Array]:
    """Divide the failure probability between the draw of clients and that of their samples."""
    failure = failure_probability("delta", delta)
    share = failure_probability("client_share", client_share)
    return np.asarray(share * failure), np.asarray((1.0 - share) * failure)


def gaussian_nats(name: str, squared: ArrayLike, of: str, variance: ArrayLike) -> Array:
    """Return the KL of Gaussians of one variance, from the squared distance of their means."""
    return np.asarray(nonnegative(name, squared) / (2.0 * positive(of, variance)))


def per_client(name: str, values: Array, *, minimum: int = 1) -> int:
    """Return the number of clients on the last axis, refusing fewer than ``minimum``."""
    if values.ndim == 0 or values.shape[-1] < minimum:
        raise ValueError(
            f"{name} must list at least {minimum} clients along its last axis, "
            f"got shape {values.shape}"
        )
    return int(values.shape[-1])


def client_sizes(sizes: ArrayLike, *, minimum: int = 1) -> NDArray[np.int64]:
    """Return each client's number of samples, shape [..., n], each at least ``minimum``."""
    counts = count("sizes", sizes, minimum=minimum)
    per_client("sizes", counts.astype(np.float64))
    return counts


def harmonic_total(sizes: ArrayLike) -> tuple[Array, Array]:
    """Return ``N = n * harmonic mean`` of the sizes and ``ceil(4 N)``, shape [...].

    The ceiling is taken of an exact rational: in floating point it may be off by one where ``4 N``
    is a whole number.

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
