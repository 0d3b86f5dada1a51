"""The linear hypernetwork of pFedHN's Proposition 1, solved in closed form."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import Array, catalogued
from latecomer.bounds.checks import one_count, real

__all__ = ["LinearOptimum", "linear_optimum"]


class LinearOptimum(NamedTuple):
    """The best linear hypernetwork: its weights, the clients' descriptors and its loss."""

    weights: Array
    descriptors: Array
    loss: Array


@catalogued(
    family="linear hypernetwork",
    claim="The linear hypernetwork and descriptors that fit given client solutions best.",
    source="pFedHN (ICML 2021), Proposition 1",
    assumptions=(
        "every client's design is orthonormal, so that its loss is the distance from its solution "
        "up to a constant",
        "the components are uncentred: no mean is removed; if the next singular value is smaller, "
        "the weights are unique up to an orthogonal map among those with orthonormal columns, else "
        "up to an invertible map",
    ),
)
def linear_optimum(*, solutions: ArrayLike, dimension: ArrayLike) -> LinearOptimum:
    r"""Minimise :math:`\sum_i\|W v_i - \theta_i\|^2` over W and the descriptors v.

    The answer is the truncated singular value decomposition of the solutions (principal components
    without removing the mean). Each column's largest entry is made positive.

    Parameters
    ----------
    solutions : array_like, shape [n, d]
        Each client's own least-squares solution.
    dimension : int, in [1, rank of the solutions]
        Length k of a descriptor.

    Returns
    -------
    LinearOptimum
        ``weights`` [d, k] with orthonormal columns, ``descriptors`` [n, k], ``loss`` (0-d): the sum
        of squared distances that remain.

    Raises
    ------
    ValueError
        ``solutions`` is not a table, or ``dimension`` exceeds its rank.

    Examples
    --------
    >>> best = linear_optimum(solutions=[[3.0, 0.0], [4.0, 0.0], [0.0, 1.0]], dimension=1)
    >>> [float(x) for x in best.weights[:, 0]], float(best.loss)
    ([1.0, 0.0], 1.0)
    """
    table = real("solutions", solutions)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"solutions must be a table clients x weights, got shape {table.shape}")
    k = one_count("dimension", dimension)
    _, singular, right = np.linalg.svd(table, full_matrices=False)
    rounding = singular[0] * max(table.shape) * np.finfo(np.float64).eps
    rank = int((singular > rounding).sum())
    if k > rank:
        raise ValueError(
            f"dimension must lie in [1, {rank}], the rank of solutions, got dimension={k}"
        )
    weights = right[:k].T
    largest = np.take_along_axis(weights, np.abs(weights).argmax(axis=0)[np.newaxis], axis=0)
    weights = weights * np.sign(largest)
    return LinearOptimum(
        weights=np.asarray(weights),
        descriptors=np.asarray(table @ weights),
        loss=np.asarray(np.square(singular[k:]).sum()),
    )
