"""PAC-Bayes bounds over one set of i.i.d. losses: a Gibbs predictor drawn from any posterior.

The prior is fixed before the ``n_samples`` losses are seen, the posterior may depend on them at
will; ``kl`` is KL(posterior || prior) in nats and ``empirical_risk`` the posterior's mean loss.
Read the losses as one client's samples, or as one score per client for a bound on unseen clients.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.binary_kl import kl_inverse_upper, xi
from latecomer.bounds.certificate import (
    Array,
    Certificate,
    catalogued,
    certificate,
    rounded_up,
)

__all__ = [
    "ASSUMPTIONS",
    "inputs",
    "maurer",
    "mc_then_kl",
    "mcallester03",
    "seeger",
    "seeger_exact",
    "tolstikhin_seldin",
]

ASSUMPTIONS = (
    "the prior was fixed before the losses were seen",
    "losses lie in [0, loss_max] and are independent given the predictor",
    "empirical_risk is the posterior's exact mean loss, no Monte-Carlo average (see mc_then_kl)",
)


def inputs(
    empirical_risk: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: float,
    *,
    minimum: int = 1,
) -> tuple[Array, Array, Array, Array, float]:
    """Return the checked risk, kl, sample size, delta and loss limit shared by the forms here."""
    top = checks.largest_loss("loss_max", loss_max)
    risk = checks.interval("empirical_risk", empirical_risk, 0.0, top)
    nats = checks.nonnegative("kl", kl)
    n = checks.count("n_samples", n_samples, minimum=minimum).astype(np.float64)
    return risk, nats, n, checks.failure_probability("delta", delta), top


@catalogued(
    family="one data set",
    claim="Square-root PAC-Bayes bound: empirical risk plus a complexity term.",
    source="Maurer 2004 with Pinsker's inequality",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=ASSUMPTIONS,
    vacuous_when="kl + ln(2 sqrt(n)/delta) exceeds 2 n, or earlier for a large empirical risk",
)
def maurer(
    *,
    empirical_risk: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: float = 1.0,
) -> Certificate:
    """Gibbs risk at most r + loss_max sqrt((kl + ln(2 sqrt(n)/delta)) / (2 n)).

    Parameters
    ----------
    empirical_risk : array_like
        Mean loss r of the posterior, in [0, loss_max].
    kl : array_like
        KL(posterior || prior) in nats, at least 0.
    n_samples : array_like
        Number n of losses, at least 1.
    delta : array_like
        Failure probability, strictly between 0 and 1.
    loss_max : float
        Largest possible loss, above 0.

    Returns
    -------
    Certificate
        Shape of the broadcast inputs.

    Raises
    ------
    ValueError, TypeError
        For values out of range.

    Examples
    --------
    >>> round(float(maurer(empirical_risk=0.05, kl=100, n_samples=5000, delta=0.05)), 10)
    0.1538977748
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max)
    complexity = top * np.sqrt((nats + np.log(2.0 * np.sqrt(n) / failure)) / (2.0 * n))
    return _sum("maurer", risk, complexity, failure, top)


@catalogued(
    family="one data set",
    claim="The older square-root bound, with ln(n/delta) over 2 (n - 1).",
    source="McAllester 2003, Theorem 1 (other constants circulate under this name)",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=ASSUMPTIONS,
    vacuous_when="kl + ln(n/delta) exceeds 2 (n - 1), or earlier for a large empirical risk",
)
def mcallester03(
    *,
    empirical_risk: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: float = 1.0,
) -> Certificate:
    """Gibbs risk at most r + loss_max sqrt((kl + ln(n/delta)) / (2 (n - 1))).

    Parameters
    ----------
    empirical_risk, kl, n_samples, delta, loss_max
        As for :func:`maurer`; ``n_samples`` at least 2.

    Returns
    -------
    Certificate
        Shape of the broadcast inputs.

    Raises
    ------
    ValueError, TypeError
        For values out of range.

    Examples
    --------
    >>> round(float(mcallester03(empirical_risk=0.05, kl=100, n_samples=5000, delta=0.05)), 10)
    0.1556102422
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max, minimum=2)
    complexity = top * np.sqrt((nats + np.log(n / failure)) / (2.0 * (n - 1.0)))
    return _sum("mcallester03", risk, complexity, failure, top)


@catalogued(
    family="one data set",
    claim="PAC-Bayes bound by the inverted binary relative entropy.",
    source="Seeger 2002; Langford 2005; constant 2 sqrt(n) of Maurer 2004",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=ASSUMPTIONS,
    vacuous_when="only where the empirical risk is loss_max; close to it once kl exceeds n",
)
def seeger(
    *,
    empirical_risk: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: float = 1.0,
) -> Certificate:
    """Gibbs risk at most kl^-1(r | (kl + ln(2 sqrt(n)/delta)) / n), rounded up.

    The losses need not be identically distributed: the mean of their means is bounded then.

    Parameters
    ----------
    empirical_risk, kl, n_samples, delta, loss_max
        As for :func:`maurer`.

    Returns
    -------
    Certificate
        Shape of the broadcast inputs.

    Raises
    ------
    ValueError, TypeError
        For values out of range.

    Examples
    --------
    >>> round(float(seeger(empirical_risk=0.05, kl=100, n_samples=5000, delta=0.05)), 10)
    0.1084125529
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max)
    budget = (nats + np.log(2.0 * np.sqrt(n) / failure)) / n
    return _inverted("seeger", risk, budget, failure, top)


@catalogued(
    family="one data set",
    claim="Seeger's bound with the exact exponential moment in place of 2 sqrt(n).",
    source="Maurer 2004 (moment xi(n)); Seeger 2002",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=ASSUMPTIONS,
    vacuous_when="as for seeger",
)
def seeger_exact(
    *,
    empirical_risk: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: float = 1.0,
) -> Certificate:
    """Gibbs risk at most kl^-1(r | (kl + ln(xi(n)/delta)) / n), rounded up; xi(n) <= 2 sqrt(n).

    Parameters
    ----------
    empirical_risk, kl, n_samples, delta, loss_max
        As for :func:`maurer`.

    Returns
    -------
    Certificate
        Shape of the broadcast inputs.

    Raises
    ------
    ValueError, TypeError
        For values out of range.

    Examples
    --------
    >>> round(float(seeger_exact(empirical_risk=0.05, kl=100, n_samples=5000, delta=0.05)), 10)
    0.1082602608
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max)
    budget = (nats + np.log(xi(n) / failure)) / n
    return _inverted("seeger_exact", risk, budget, failure, top)


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
        "losses; a fresh draw for every loss makes n_draws their number times n_samples",
    ),
    vacuous_when="only where the sampled risk is loss_max; close to it once kl exceeds n",
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
    monte_carlo_risk : array_like
        Mean loss r over the draws, in [0, loss_max].
    n_draws : array_like
        Number K of posterior draws, at least 1.
    delta_draws : array_like
        Failure probability of the draws, strictly between 0 and 1.
    kl, n_samples, delta, loss_max
        As for :func:`maurer`.
    two_sided : bool
        Spend ln(2/delta_draws) as published; ln(1/delta_draws) suffices.

    Returns
    -------
    Certificate
        Shape of the broadcast inputs.

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
    value = top * kl_inverse_upper(inner, rounded_up(budget))
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

    Parameters
    ----------
    empirical_risk, kl, n_samples, delta, loss_max
        As for :func:`maurer`; ``n_samples`` at least 2.
    variance : array_like
        Mean over the posterior of the sample variance V (divided by n - 1).
    c1, c2 : array_like
        Ratios of the two unions' grids, above 1, fixed in advance.

    Returns
    -------
    Certificate
        Shape of the broadcast inputs.

    Raises
    ------
    ValueError, TypeError
        For values out of range.

    Examples
    --------
    >>> cert = tolstikhin_seldin(empirical_risk=0.05, variance=0.01, kl=100, n_samples=5000,
    ...                          delta=0.05)
    >>> round(float(cert), 10)
    0.1259318038
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max, minimum=2)
    spread = checks.sample_variance("variance", variance, n, top) / top**2
    ratio1 = checks.above("c1", c1, 1.0)
    ratio2 = checks.above("c2", c2, 1.0)
    half = failure / 2.0
    log_half = -np.log(half)
    grid1 = np.ceil(0.5 * np.log((np.e - 2.0) * n / (4.0 * log_half)) / np.log(ratio1)) + 1.0
    inner = 0.5 * np.sqrt((n - 1.0) / log_half + 1.0) + 0.5
    grid2 = np.ceil(np.log(inner) / np.log(ratio2))
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


def _sum(name: str, risk: Array, complexity: Array, failure: Array, top: float) -> Certificate:
    return certificate(
        name,
        value=rounded_up(risk + complexity),
        terms={"empirical_risk": risk, "complexity": complexity},
        delta={"samples": failure},
        loss_max=top,
    )


def _inverted(name: str, risk: Array, budget: Array, failure: Array, top: float) -> Certificate:
    value = top * kl_inverse_upper(risk / top, rounded_up(budget))
    return certificate(
        name,
        value=value,
        terms={"empirical_risk": risk, "complexity": value - risk},
        delta={"samples": failure},
        loss_max=top,
    )
