"""What is proved of training: PeFLL's rate of convergence, pFedHN's linear hypernetwork.

The theorem's letters: F is the objective and L its smoothness; the clients' losses have smoothness
L_1 and gradients up to b_1, the model generator (hypernetwork and encoder) gradients up to b_2.
Local gradients have standard deviation sigma_1.  Descriptors of b points instead of a whole data
set move the generator's gradient and output, in root mean square, by at most sigma_2 / sqrt(b) and
sigma_3 / sqrt(b), a bias included; with whole data sets both are 0.  gamma_G measures how much the
clients' gradients differ.  A round has c clients and k local steps, and training takes T rounds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import Array, catalogued
from latecomer.bounds.checks import count, nonnegative, one_count, one_of, positive, real

__all__ = ["LinearOptimum", "linear_optimum", "pefll_31", "pefll_31_minT"]

# Factors of the local noise and of the client dissimilarity, and whether the noise goes through the
# generator's gradient: printed as if it were as large in the generator's weights as in a client's.
_FACTORS = {
    "derived": (12.0, 8.0, True),
    "printed": (6.0, 4.0, False),
    "printed_appendix": (8.0, 4.0, False),
}


@catalogued(
    family="optimisation",
    claim="Mean squared gradient norm of PeFLL's objective over its first rounds.",
    source="PeFLL (ICLR 2024), Theorem 3.1, constants derived again by this project",
    assumptions=(
        "smoothness, gradient and variance bounds hold everywhere; clients are drawn uniformly",
        "local gradients are unbiased given all that was drawn before, their noise independent "
        "between clients",
        "the learning rate of server and clients is 2 sqrt(cohort) / (local_steps sqrt(n_rounds)); "
        "a round moves the server's own regulariser by local_steps such steps, not by one",
        "n_rounds is at least pefll_31_minT, which the paper leaves out",
    ),
)
def pefll_31(
    *,
    initial_gap: ArrayLike,
    smoothness: ArrayLike,
    loss_smoothness: ArrayLike,
    loss_gradient: ArrayLike,
    generator_gradient: ArrayLike,
    loss_noise: ArrayLike,
    generator_noise: ArrayLike,
    model_noise: ArrayLike,
    client_dissimilarity: ArrayLike,
    cohort: ArrayLike,
    local_steps: ArrayLike,
    batch_size: ArrayLike,
    n_rounds: ArrayLike,
    variant: str = "derived",
) -> Array:
    r"""Bound the mean over T rounds of the expected squared gradient norm.

    .. math:: \frac{F_0 - F_*}{\sqrt{cT}} + \frac{L(12 b_2^2\sigma_1^2 + 8k\gamma_G^2)}{k\sqrt{cT}}
              + \frac{224\,c L_1^2 b_1^2 b_2^2}{T} + \frac{8 b_1^2\sigma_2^2}{b}
              + \frac{14 L_1^2 b_2^2\sigma_3^2}{b}

    Parameters
    ----------
    initial_gap, smoothness, loss_smoothness : array_like, at least 0
        F at the start minus its lower bound; L; L_1.
    loss_gradient, generator_gradient, client_dissimilarity : array_like, at least 0
        b_1; b_2; gamma_G.
    loss_noise, generator_noise, model_noise : array_like, at least 0
        sigma_1; sigma_2; sigma_3.
    cohort, local_steps, batch_size, n_rounds : array_like of int, at least 1
        c, k, b and T.
    variant : {"derived", "printed", "printed_appendix"}
        As above; or as printed (false for large b_2): 6 and 4 (appendix: 8 and 4, no division by b)
        in the place of 12 and 8, without :math:`b_2^2` beside :math:`\sigma_1^2`.

    Examples
    --------
    >>> value = pefll_31(
    ...     initial_gap=2, smoothness=1, loss_smoothness=1, loss_gradient=1, generator_gradient=1,
    ...     loss_noise=0.5, generator_noise=0.2, model_noise=0.2, client_dissimilarity=0.3,
    ...     cohort=5, local_steps=50, batch_size=32, n_rounds=5000,
    ... )
    >>> round(float(value), 6)
    0.269082
    """
    one_of("variant", variant, tuple(_FACTORS))
    c, rounds = count("cohort", cohort).astype(np.float64), count("n_rounds", n_rounds)
    inner = _squared("loss_smoothness", loss_smoothness)
    loss_slope = _squared("loss_gradient", loss_gradient)
    slope = _squared("generator_gradient", generator_gradient)
    spread = _spread(variant, slope, loss_noise, client_dissimilarity, local_steps)
    slow = nonnegative("initial_gap", initial_gap) + nonnegative("smoothness", smoothness) * spread
    drift = 224.0 * c * inner * loss_slope * slope / rounds
    of_gradient = 8.0 * loss_slope * _squared("generator_noise", generator_noise)
    of_output = 14.0 * inner * slope * _squared("model_noise", model_noise)
    batch = count("batch_size", batch_size)
    divisor = np.ones_like(batch) if variant == "printed_appendix" else batch
    return np.asarray(slow / np.sqrt(c * rounds) + drift + (of_gradient + of_output) / divisor)


def _spread(
    variant: str,
    slope: Array,
    loss_noise: ArrayLike,
    client_dissimilarity: ArrayLike,
    local_steps: ArrayLike,
) -> Array:
    """Return what local noise and clients' dissimilarity add to a step of the generator."""
    noise_factor, spread_factor, carried = _FACTORS[variant]
    noise = noise_factor * (slope if carried else 1.0) * _squared("loss_noise", loss_noise)
    among = spread_factor * _squared("client_dissimilarity", client_dissimilarity)
    return np.asarray(noise / count("local_steps", local_steps) + among)


def _squared(name: str, value: ArrayLike) -> Array:
    return np.asarray(np.square(nonnegative(name, value)))


@catalogued(
    family="optimisation",
    claim="Smallest number of rounds for which PeFLL's Theorem 3.1 is proved.",
    source="this project; step-size conditions used in the proof of PeFLL, Theorem 3.1",
    assumptions=("those of pefll_31",),
)
def pefll_31_minT(
    *,
    smoothness: ArrayLike,
    loss_smoothness: ArrayLike,
    cohort: ArrayLike,
    local_steps: ArrayLike,
) -> Array:
    r"""Return :math:`\max\{c(112L)^2,\ (56kc^{3/2}L_1^2/L)^2\}` rounds.

    Parameters
    ----------
    smoothness : array_like, positive
        L of the objective in all that is trained.
    loss_smoothness : array_like, at least 0
        L_1 of the loss in a client's weights.
    cohort, local_steps
        As for :func:`pefll_31`.

    Examples
    --------
    >>> float(pefll_31_minT(
    ...     smoothness=1, loss_smoothness=1, cohort=5, local_steps=50
    ... ))
    980000000.0
    """
    lipschitz = positive("smoothness", smoothness)
    inner = np.square(nonnegative("loss_smoothness", loss_smoothness))
    c = count("cohort", cohort).astype(np.float64)
    k = count("local_steps", local_steps).astype(np.float64)
    # Squared factor by factor, since c ** 1.5 need not be a whole number.
    steps = np.square(56.0 * k * inner / lipschitz) * c**3
    return np.asarray(np.maximum(c * np.square(112.0 * lipschitz), steps))


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
