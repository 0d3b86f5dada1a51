"""What biostatistics expects of the next site: prediction intervals of random-effects models.

Site i has an estimate y_i of its own mean, with known variance v_i; true means are normal around
mu with variance tau^2.  Both are estimated, so the intervals are asymptotic: for few sites, unequal
sizes or skewed effects they miss more often than they say.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, catalogued
from latecomer.bounds.unit_scale import per_client

__all__ = ["SiteInterval", "dersimonian_laird", "hartung_knapp"]


class SiteInterval(NamedTuple):
    """Estimates of the sites' mean and spread, and where the next site's true mean is expected."""

    mean: Array
    standard_error: Array
    between_sites: Array
    lower: Array
    upper: Array


_ASSUMPTIONS = (
    "sites' estimates are unbiased and normal, their variances known",
    "sites' true means are independent draws of one normal law",
    "the between-site variance is estimated and then taken for the truth",
)
_REASON = "asymptotic: it holds for many large sites whose means are normal"


@catalogued(
    family="hold-out",
    claim="Prediction interval of the next site's mean by random effects, with the model's own "
    "standard error.",
    source="DerSimonian and Laird 1986; prediction interval of Higgins, Thompson and Spiegelhalter "
    "2009",
    assumptions=_ASSUMPTIONS,
    vacuous_when="three sites: one degree of freedom",
    rigorous=False,
    reason=_REASON,
)
def dersimonian_laird(
    *, estimates: ArrayLike, variances: ArrayLike, alpha: ArrayLike
) -> SiteInterval:
    r"""Interval mu +- t_{k-2} sqrt(tau^2 + SE^2), SE^2 = 1 / sum w_i, w_i = 1 / (v_i + tau^2).

    :math:`\tau^2 = \max(0, (Q - k + 1) / (\sum u_i - \sum u_i^2 / \sum u_i))` with
    :math:`u_i = 1/v_i` and Q the sum of squares weighted with u about the mean weighted so; mu is
    the mean weighted with w, t the (1 - alpha/2)-quantile of Student's law.

    Parameters
    ----------
    estimates : array_like, shape [..., k], k at least 3
        Each site's measured mean.
    variances : array_like, shape [..., k], positive
        Variance of each of them.
    alpha : array_like, in (0, 1)
        Probability with which the next site's mean lies outside, on both sides together.

    Returns
    -------
    SiteInterval

    Examples
    --------
    >>> made = dersimonian_laird(
    ...     estimates=[0.1, 0.3, 0.2, 0.4], variances=[0.01, 0.02, 0.01, 0.02], alpha=0.1
    ... )
    >>> round(float(made.mean), 4), round(float(made.lower), 4), round(float(made.upper), 4)
    (0.2205, -0.0016, 0.4425)
    """
    return _interval(estimates, variances, alpha, _model_variance)


@catalogued(
    family="hold-out",
    claim="Prediction interval of the next site's mean by random effects, with the standard error "
    "that the sites' spread shows.",
    source="Hartung and Knapp 2001; prediction interval of Partlett and Riley 2017, with "
    "DerSimonian and Laird's variance between sites",
    assumptions=_ASSUMPTIONS,
    vacuous_when="three sites: one degree of freedom",
    rigorous=False,
    reason=_REASON,
)
def hartung_knapp(*, estimates: ArrayLike, variances: ArrayLike, alpha: ArrayLike) -> SiteInterval:
    r"""As :func:`dersimonian_laird` with SE^2 = sum w_i (y_i - mu)^2 / ((k - 1) sum w_i).

    Parameters
    ----------
    estimates, variances, alpha
        As for :func:`dersimonian_laird`.

    Returns
    -------
    SiteInterval

    Examples
    --------
    >>> made = hartung_knapp(
    ...     estimates=[0.1, 0.3, 0.2, 0.4], variances=[0.01, 0.02, 0.01, 0.02], alpha=0.1
    ... )
    >>> round(float(made.lower), 4), round(float(made.upper), 4)
    (-0.0019, 0.4428)
    """
    return _interval(estimates, variances, alpha, _observed_variance)


def _model_variance(weights: Array, off: Array) -> Array:
    return np.asarray(1.0 / weights.sum(axis=-1))


def _observed_variance(weights: Array, off: Array) -> Array:
    squares = (weights * off**2).sum(axis=-1)
    return np.asarray(squares / ((off.shape[-1] - 1) * weights.sum(axis=-1)))


def _interval(
    estimates: ArrayLike,
    variances: ArrayLike,
    alpha: ArrayLike,
    squared_error: Callable[[Array, Array], Array],
) -> SiteInterval:
    y = checks.real("estimates", estimates)
    v = checks.positive("variances", variances)
    for name, listed in (("estimates", y), ("variances", v)):
        per_client(name, listed, minimum=3)
    k = checks.same_length(estimates=y, variances=v)
    miss = checks.failure_probability("alpha", alpha)
    # By a power of 2, which rounds nothing: squares of inverse variances are numbers.
    unit = np.ldexp(0.5, np.frexp(v.min(axis=-1))[1])
    inverse = unit[..., None] / v
    total = inverse.sum(axis=-1)
    centre = (inverse * y).sum(axis=-1) / total
    spread = (inverse * (y - centre[..., None]) ** 2).sum(axis=-1)
    excess = (spread - (k - 1) * unit) / (total - (inverse**2).sum(axis=-1) / total)
    between = np.maximum(excess, 0.0)
    weights = 1.0 / (v + between[..., None])
    mean = (weights * y).sum(axis=-1) / weights.sum(axis=-1)
    error = squared_error(weights, y - mean[..., None])
    # Next to 1 a probability keeps too few digits, or is 1.
    upper = scipy.special.stdtrit(k - 2, 1.0 - miss / 2.0)
    quantile = np.where(miss < 1e-8, -scipy.special.stdtrit(k - 2, miss / 2.0), upper)
    reach = quantile * np.sqrt(between + error)
    return SiteInterval(mean, np.sqrt(error), between, mean - reach, mean + reach)
