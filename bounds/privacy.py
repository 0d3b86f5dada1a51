"""Differential privacy of a client's descriptor: its sensitivity and the noise it needs.

A Gaussian mechanism adds noise of standard deviation sigma to a quantity that one sample can move
by ``sensitivity`` in L2. ``epsilon`` and ``dp_delta`` are the privacy parameters, not failure
probabilities. ``gauss_analytic`` rounds its noise up.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.certificate import Array, catalogued, halved
from latecomer.bounds.checks import count, failure_probability, nonnegative, one_of, positive

__all__ = ["ADJACENCIES", "dp_sensitivity", "gauss_analytic", "gauss_classic", "gauss_delta"]

ADJACENCIES = ("replace_one", "add_remove")
# Limit on the relative error of gauss_delta, so that a solution found with it can be made safe.
_DELTA_ERROR = 1e-11
_NORMAL = np.finfo(np.float64)
_NODES, _WEIGHTS = (part.astype(np.float64) for part in np.polynomial.legendre.leggauss(20))


@catalogued(
    family="privacy",
    claim="How far one sample can move the descriptor of a mean encoder.",
    source="OD-PFL, Lemma 2, and this project for adding or removing a sample",
    assumptions=(
        "the encoder is a Lipschitz map of the mean of features of bounded norm",
        "replace_one: the number of samples is public; add_remove: n_samples is a public lower "
        "bound on the size of every data set, and the noise is scaled by it, whatever the own size",
        "max-pooled features have sensitivity up to 2 L B, whatever the number of samples",
    ),
)
def dp_sensitivity(
    *,
    head_lipschitz: ArrayLike,
    feature_bound: ArrayLike,
    n_samples: ArrayLike,
    adjacency: str = "replace_one",
) -> Array:
    r"""Return :math:`2LB/m`, or :math:`2LB/(m+1)` when a sample is added or removed.

    Parameters
    ----------
    head_lipschitz : array_like, positive
        Lipschitz constant L of the map applied to the mean, in L2.
    feature_bound : array_like, positive
        B, the largest L2 norm of a sample's features.
    n_samples : array_like of int, at least 1
        m; for ``add_remove`` a public lower bound on the size of every data set. Noise scaled by
        one's own size tells it, and covers added samples alone.
    adjacency : {"replace_one", "add_remove"}
        What is hidden: which sample stood in a place, or whether one was there.

    Examples
    --------
    >>> float(dp_sensitivity(head_lipschitz=1, feature_bound=1, n_samples=4))
    0.5
    """
    one_of("adjacency", adjacency, ADJACENCIES)
    swing = (
        2.0 * positive("head_lipschitz", head_lipschitz) * positive("feature_bound", feature_bound)
    )
    size = count("n_samples", n_samples) + (1 if adjacency == "add_remove" else 0)
    return np.asarray(swing / size)


@catalogued(
    family="privacy",
    claim="Noise of the Gaussian mechanism by the classic formula, for epsilon below 1 only.",
    source="Dwork and Roth (2014), Theorem A.1",
    assumptions=("epsilon is below 1: beyond, the formula gives too little noise",),
)
def gauss_classic(*, epsilon: ArrayLike, dp_delta: ArrayLike, sensitivity: ArrayLike) -> Array:
    r"""Return :math:`\sigma = \Delta\sqrt{2\ln(1.25/\delta)}/\epsilon`.

    Parameters
    ----------
    epsilon : array_like, in (0, 1)
        Epsilon of (epsilon, delta)-privacy.
    dp_delta : array_like, in (0, 1)
        Delta of (epsilon, delta)-privacy.
    sensitivity : array_like, positive
        Largest change of what is told, in L2, between two adjacent data sets.

    Examples
    --------
    >>> round(float(gauss_classic(epsilon=0.5, dp_delta=1e-5, sensitivity=1.0)), 6)
    9.689611
    """
    eps = failure_probability("epsilon", epsilon)
    delta = failure_probability("dp_delta", dp_delta)
    width = positive("sensitivity", sensitivity)
    return np.asarray(width * np.sqrt(2.0 * np.log(1.25 / delta)) / eps)


def _gauss_delta(eps: Array, ratio: Array) -> Array:
    """Delta of the mechanism whose sensitivity is ``ratio`` standard deviations.

    With a = ratio/2 - eps/ratio it is Phi(a) - e^eps Phi(a - ratio), where the second term equals
    e^{-a^2/2} erfcx((ratio - a)/sqrt 2)/2. For small ratios the two cancel; the difference of
    erfcx is then computed as the integral of its derivative, which has one sign.
    """
    # Far below -1e8 the square would overflow; both terms are 0 long before.
    a = np.maximum(0.5 * ratio - eps / ratio, -1e8)
    start = -a / np.sqrt(2.0)
    width = ratio / np.sqrt(2.0)
    peak = 0.5 * np.exp(-0.5 * np.square(a))
    direct = scipy.special.ndtr(a) - peak * scipy.special.erfcx(start + width)
    # Where the integral is not used, a harmless start keeps erfcx from overflowing.
    small = width <= 1.0
    origin = np.where(small, start, 0.0)[..., np.newaxis]
    half = 0.5 * np.where(small, width, 0.0)[..., np.newaxis]
    points = origin + half * (_NODES + 1.0)
    slope = 2.0 / np.sqrt(np.pi) - 2.0 * points * scipy.special.erfcx(points)
    integral = peak * (half * np.maximum(slope, 0.0) * _WEIGHTS).sum(axis=-1)
    return np.asarray(np.maximum(np.where(small, integral, direct), 0.0))


@catalogued(
    family="privacy",
    claim="Exact dp_delta of the Gaussian mechanism with a given standard deviation.",
    source="Balle and Wang (2018), Theorem 8",
    assumptions=("one release of the noised quantity",),
)
def gauss_delta(*, epsilon: ArrayLike, sigma: ArrayLike, sensitivity: ArrayLike) -> Array:
    r"""Return the smallest delta for which the mechanism is (epsilon, delta)-private.

    .. math:: \Phi(\tfrac{\Delta}{2\sigma} - \tfrac{\epsilon\sigma}{\Delta})
              - e^\epsilon\Phi(-\tfrac{\Delta}{2\sigma} - \tfrac{\epsilon\sigma}{\Delta})

    Relative accuracy is about 1e-11, down to the smallest positive numbers.

    Parameters
    ----------
    epsilon : array_like, at least 0
        Epsilon of (epsilon, delta)-privacy.
    sigma, sensitivity : array_like, positive
        Standard deviation of the noise; largest change of what is told, in L2, between two adjacent
        data sets.

    Examples
    --------
    >>> round(float(gauss_delta(epsilon=1, sigma=1, sensitivity=1)), 6)
    0.126937
    """
    eps = nonnegative("epsilon", epsilon)
    with np.errstate(over="ignore", under="ignore"):
        ratio = positive("sensitivity", sensitivity) / positive("sigma", sigma)
        return _gauss_delta(eps, np.clip(ratio, _NORMAL.tiny, _NORMAL.max))


@catalogued(
    family="privacy",
    claim="Smallest noise that makes the Gaussian mechanism private, exact and rounded up.",
    source="Balle and Wang (2018), Theorem 9",
    assumptions=("one release of the noised quantity",),
)
def gauss_analytic(*, epsilon: ArrayLike, dp_delta: ArrayLike, sensitivity: ArrayLike) -> Array:
    """Return the smallest sigma with ``gauss_delta <= dp_delta``, rounded up.

    Parameters
    ----------
    epsilon : array_like, at least 0
        Epsilon of (epsilon, delta)-privacy.
    dp_delta : array_like, in (0, 1)
        Delta of (epsilon, delta)-privacy.
    sensitivity : array_like, positive
        Largest change of what is told, in L2, between two adjacent data sets.

    Examples
    --------
    >>> round(float(gauss_analytic(epsilon=1, dp_delta=1e-5, sensitivity=1)), 8)
    3.73063163
    """
    eps = nonnegative("epsilon", epsilon)
    delta = failure_probability("dp_delta", dp_delta)
    width = positive("sensitivity", sensitivity)
    eps, delta, width = np.broadcast_arrays(eps, delta, width)
    # At epsilon 0, delta is at most 1/(sigma sqrt(2 pi)), sigma in units of the sensitivity; where
    # the formula's first argument is 40, delta is 1. The logarithm is moved past its rounding.
    high = 1e-9 - np.log(delta) - 0.5 * np.log(2.0 * np.pi)
    low = np.minimum(-np.log(40.0 + np.sqrt(1600.0 + 2.0 * np.minimum(eps, 8e307))), high)

    def private(log_sigma: Array) -> NDArray[np.bool_]:
        return _gauss_delta(eps, np.exp(-log_sigma)) * (1.0 + _DELTA_ERROR) <= delta

    _, least = halved(low, high, 70, private)
    return np.asarray(width * np.exp(least) * (1.0 + 1e-14))
