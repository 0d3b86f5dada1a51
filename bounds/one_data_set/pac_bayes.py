"""PAC-Bayes bounds over one set of i.i.d. losses: a Gibbs predictor drawn from any posterior.

The prior is fixed before the ``n_samples`` losses are seen, the posterior may depend on them in any
way; ``kl`` is KL(posterior || prior) in nats and ``empirical_risk`` the posterior's mean loss.
Read the losses as one client's samples, or as one score per client for a bound on new clients.
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
    priced,
    rounded_up,
    scaled_up,
)

__all__ = [
    "ASSUMPTIONS",
    "inputs",
    "maurer",
    "mcallester03",
    "seeger",
    "seeger_exact",
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
    empirical_risk : array_like, in [0, loss_max]
        Mean loss r of the posterior.
    kl : array_like, at least 0, nats
        KL(posterior || prior).
    n_samples : array_like of int, at least 1
        Number n of losses.
    delta : array_like, in (0, 1)
    loss_max : float, positive

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
    vacuous_when="only where the risk is loss_max, yet within 1% of it once kl exceeds 5 n",
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

    The losses need not be identically distributed: then the mean of their means is bounded.

    Parameters
    ----------
    empirical_risk, kl, n_samples, delta, loss_max
        As for :func:`maurer`.

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
    vacuous_when="only where the risk is loss_max, yet within 1% of it once kl exceeds 5 n",
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

    Examples
    --------
    >>> round(float(seeger_exact(empirical_risk=0.05, kl=100, n_samples=5000, delta=0.05)), 10)
    0.1082602608
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max)
    budget = (nats + np.log(xi(n) / failure)) / n
    return _inverted("seeger_exact", risk, budget, failure, top)


def _sum(name: str, risk: Array, complexity: Array, failure: Array, top: float) -> Certificate:
    return certificate(
        name,
        value=rounded_up(risk + complexity),
        terms={"empirical_risk": risk, "complexity": complexity},
        delta={"samples": failure},
        loss_max=top,
    )


def _inverted(name: str, risk: Array, budget: Array, failure: Array, top: float) -> Certificate:
    value = scaled_up(kl_inverse_upper(risk / top, rounded_up(budget)), top)
    return priced(name, value, risk, {"samples": failure}, top, part="complexity")
