"""PAC-Bayes bounds that use a sample variance, or a risk known from random draws only.

The setting is that of :mod:`latecomer.bounds.one_data_set.pac_bayes`.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.binary_kl import kl_inverse_upper
from latecomer.bounds.certificate import (
    Array,
    Certificate,
    catalogued,
    certificate,
    rounded_up,
    scaled_up,
)
from latecomer.bounds.one_data_set.pac_bayes import ASSUMPTIONS, inputs

__all__ = ["mc_then_kl", "tolstikhin_seldin"]


@catalogued(
    family="one data set",
    claim="Seeger's bound when the posterior's loss is known from random draws only.",
    source="Langford and Caruana 2001; Perez-Ortiz et al. 2021",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=(
        *ASSUMPTIONS[:2],
        "the draws were made after the posterior was fixed, each independent and scored on all "
        "losses (with fresh draws for every loss, equally many for each, n_draws counts the pairs)",
    ),
    vacuous_when="only where the risk is loss_max, yet within 1% of it once kl exceeds 5 n",
)
def mc_then_kl(
    *,
    monte_carlo_risk: ArrayLike,
    n_draws: ArrayLike,
    delta_draws: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    two_sided: bool = True,
    loss_max: float = 1.0,
) -> Certificate:
    """Gibbs risk at most kl^-1(kl^-1(r | ln(2/delta_draws)/K) | (kl + ln(2 sqrt(n)/delta))/n).

    Holds with probability 1 - delta - delta_draws.

    Parameters
    ----------
    monte_carlo_risk, n_draws, delta_draws : array_like
        Mean loss r, in [0, loss_max], over K draws, and their failure probability, in (0, 1).
    kl, n_samples, delta, loss_max
        As for :func:`latecomer.bounds.maurer`.
    two_sided : bool
        Spend ln(2/delta_draws) as published; ln(1/delta_draws) suffices.

    Raises
    ------
    ValueError, TypeError
        For values out of range, or when both failure probabilities add up to 1 or more.

    Examples
    --------
    >>> cert = mc_then_kl(monte_carlo_risk=0.015, n_draws=1000, delta_draws=0.01, kl=600,
    ...                   n_samples=30000, delta=0.01)
    >>> round(float(cert), 10)
    0.0793358277
    """
    top = checks.largest_loss("loss_max", loss_max)
    risk = checks.interval("monte_carlo_risk", monte_carlo_risk, 0.0, top)
    draws = checks.count("n_draws", n_draws)
    nats = checks.nonnegative("kl", kl)
    n = checks.count("n_samples", n_samples)
    failure = checks.failure_probability("delta", delta)
    failure_draws = checks.failure_probability("delta_draws", delta_draws)
    sides = 2.0 if checks.flag("two_sided", two_sided) else 1.0
    checks.failure_probability("delta + delta_draws", failure + failure_draws)
    inner = kl_inverse_upper(risk / top, rounded_up(np.log(sides / failure_draws) / draws))
    budget = (nats + np.log(2.0 * np.sqrt(n) / failure)) / n
    value = scaled_up(kl_inverse_upper(inner, rounded_up(budget)), top)
    return certificate(
        "mc_then_kl",
        value=value,
        terms={
            "empirical_risk": risk,
            "draws": top * inner - risk,
            "complexity": value - top * inner,
        },
        delta={"samples": failure, "draws": failure_draws},
        loss_max=top,
    )


def _unions(n: Array, log_half: Array, ratio1: Array, ratio2: Array) -> tuple[Array, Array]:
    """Return the sizes of the unions over the trade-offs in the mean's and the variance's bound."""
    # Rounded up before the ceiling, so that no grid loses its last point to rounding.
    steps1 = 0.5 * np.log((np.e - 2.0) * n / (4.0 * log_half)) / np.log(ratio1)
    inner = 0.5 * np.sqrt((n - 1.0) / log_half + 1.0) + 0.5
    return (
        np.asarray(np.ceil(rounded_up(steps1)) + 1.0),
        np.asarray(np.ceil(rounded_up(np.log(inner) / np.log(ratio2)))),
    )


@catalogued(
    family="one data set",
    claim="PAC-Bayes-Bernstein bound: the complexity term shrinks with the posterior's variance.",
    source="Tolstikhin and Seldin 2013, Theorems 3 and 4, with the safe +1 in the first union",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=(
        *ASSUMPTIONS,
        "variance is the posterior's mean of the unbiased sample variance of the losses",
        "c1 and c2 were fixed beforehand",
    ),
    vacuous_when="kl + ln(1/delta) is of the order of n/2",
)
def tolstikhin_seldin(
    *,
    empirical_risk: ArrayLike,
    variance: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    c1: ArrayLike = 1.15,
    c2: ArrayLike = 1.15,
    loss_max: float = 1.0,
) -> Certificate:
    """Gibbs risk at most r + (1 + c1) sqrt((e - 2) V' k1 / n), or r + 2 k1 / n for a small V'.

    V' = min(1/4, V + (1 + c2) sqrt(V k2 / (2 (n - 1))) + 2 c2 k2 / (n - 1)), where
    k_i = kl + ln(nu_i / (delta/2)) and nu_1, nu_2 are the sizes of the unions over the trade-off.
    As printed the bound is not monotone in kl and delta: its two forms meet in a jump, and nu_i
    grow with delta.

    Parameters
    ----------
    empirical_risk, kl, n_samples, delta, loss_max
        As for :func:`latecomer.bounds.maurer`; ``n_samples`` at least 2.
    variance : array_like
        Mean over the posterior of the sample variance V (divided by n - 1).
    c1, c2 : array_like
        Ratios of the two unions' grids, above 1, fixed in advance.

    Examples
    --------
    >>> cert = tolstikhin_seldin(empirical_risk=0.05, variance=0.01, kl=100, n_samples=5000,
    ...                          delta=0.05)
    >>> round(float(cert), 10)
    0.1259318038
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max, minimum=2)
    spread = checks.sample_variance("variance", variance, n, top) / top / top
    ratio1 = checks.above("c1", c1, 1.0)
    ratio2 = checks.above("c2", c2, 1.0)
    half = failure / 2.0
    log_half = -np.log(half)
    grid1, grid2 = _unions(n, log_half, ratio1, ratio2)
    k2 = nats + np.log(np.maximum(grid2, 1.0) / half)
    widened = spread + (1.0 + ratio2) * np.sqrt(spread * k2 / (2.0 * (n - 1.0)))
    bounded = np.minimum(0.25, widened + 2.0 * ratio2 * k2 / (n - 1.0))
    k1 = nats + np.log(np.maximum(grid1, 1.0) / half)
    wide = (1.0 + ratio1) * np.sqrt((np.e - 2.0) * bounded * k1 / n)
    complexity = top * np.where(k1 <= n * (np.e - 2.0) * bounded, wide, 2.0 * k1 / n)
    return certificate(
        "tolstikhin_seldin",
        value=rounded_up(risk + complexity),
        terms={"empirical_risk": risk, "complexity": complexity},
        delta={"samples": half, "variance": half},
        loss_max=top,
    )
