"""PAC-Bayesian bounds for one predictor and one data set: a Gibbs predictor from any posterior.

The prior is fixed before the ``n_samples`` losses are seen, the posterior may depend on them in any
way; ``kl`` is KL(posterior || prior) in nats and ``empirical_risk`` the posterior's mean loss.
Read the losses as one client's samples, or as one score per client for a bound on new clients.

A trade-off chosen after the losses were seen needs a bound that holds for all values at once
(``thiemann``) or a union over a grid fixed beforehand (``catoni_grid``): ``catoni`` at its best
constant is no proven bound.
"""

from functools import partial

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
from latecomer.bounds.unit_scale import summed

__all__ = [
    "ASSUMPTIONS",
    "catoni",
    "catoni_grid",
    "inputs",
    "maurer",
    "mc_then_kl",
    "mcallester03",
    "pbb_quad",
    "seeger",
    "seeger_exact",
    "thiemann",
    "thiemann_opt",
    "tolstikhin_seldin",
]

ASSUMPTIONS = (
    "the prior was fixed before the losses were seen",
    "losses lie in [0, loss_max] and are independent given the predictor",
    "empirical_risk is the posterior's exact mean loss, no Monte-Carlo average (see mc_then_kl)",
)
gibbs_catalogued = partial(
    catalogued,
    family="one data set",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=ASSUMPTIONS,
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


@gibbs_catalogued(
    claim="Square-root PAC-Bayes bound: empirical risk plus a complexity term.",
    source="Maurer 2004 with Pinsker's inequality",
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
    terms = {"empirical_risk": risk, "complexity": complexity}
    return summed("maurer", terms=terms, delta={"samples": failure}, scale=top)


@gibbs_catalogued(
    claim="The older square-root bound, with ln(n/delta) over 2 (n - 1).",
    source="McAllester 2003, Theorem 1 (other constants circulate under this name)",
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
    terms = {"empirical_risk": risk, "complexity": complexity}
    return summed("mcallester03", terms=terms, delta={"samples": failure}, scale=top)


@gibbs_catalogued(
    claim="PAC-Bayes bound by the inverted binary relative entropy.",
    source="Seeger 2002; Langford 2005; constant 2 sqrt(n) of Maurer 2004",
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


@gibbs_catalogued(
    claim="Seeger's bound with the exact exponential moment in place of 2 sqrt(n).",
    source="Maurer 2004 (moment xi(n)); Seeger 2002",
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


def _inverted(name: str, risk: Array, budget: Array, failure: Array, top: float) -> Certificate:
    value = scaled_up(kl_inverse_upper(risk / top, rounded_up(budget)), top)
    return priced(name, value, risk, {"samples": failure}, top, part="complexity")


@gibbs_catalogued(
    claim="Seeger's bound when the posterior's loss is known from random draws only.",
    source="Langford and Caruana 2001; Perez-Ortiz et al. 2021",
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


@gibbs_catalogued(
    claim="PAC-Bayes-Bernstein bound: the complexity term shrinks with the posterior's variance.",
    source="Tolstikhin and Seldin 2013, Theorems 3 and 4, with the safe +1 in the first union",
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
    terms = {"empirical_risk": risk, "complexity": complexity}
    ledger = {"samples": half, "variance": half}
    return summed("tolstikhin_seldin", terms=terms, delta=ledger, scale=top)


def _catoni(unit: Array, budget: Array, c: Array) -> Array:
    return rounded_up(np.expm1(-rounded_up(c * unit + budget)) / np.expm1(-c))


@gibbs_catalogued(
    claim="Exponential-moment bound with a constant fixed in advance; no 2 sqrt(n) to pay.",
    source="Catoni 2007, Theorem 1.2.6",
    assumptions=(*ASSUMPTIONS, "c was fixed before the losses were seen"),
    vacuous_when="c r + (kl + ln(1/delta))/n reaches c",
)
def catoni(
    *,
    empirical_risk: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    c: ArrayLike,
    loss_max: float = 1.0,
) -> Certificate:
    """Gibbs risk at most (1 - exp(-c r - (kl + ln(1/delta))/n)) / (1 - exp(-c)).

    Parameters
    ----------
    empirical_risk, kl, n_samples, delta
        As for :func:`~latecomer.bounds.one_data_set.maurer`.
    c : array_like
        Trade-off constant, above 0, fixed in advance; small values weigh complexity more.
    loss_max : float
        Largest possible loss, above 0; the risk is divided by it, the value multiplied by it.

    Examples
    --------
    >>> round(float(catoni(empirical_risk=0.05, kl=100, n_samples=5000, delta=0.05, c=1.0)), 10)
    0.1078348936
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max)
    constant = checks.positive("c", c)
    value = top * _catoni(risk / top, (nats - np.log(failure)) / n, constant)
    return _certificate("catoni", value, risk, failure, top)


@gibbs_catalogued(
    claim="Best of Catoni's bounds over a grid of constants fixed in advance, the union paid for.",
    source="Catoni 2007, Theorem 1.2.6, with a union over the grid",
    assumptions=(*ASSUMPTIONS, "the grid was fixed before the losses were seen"),
    vacuous_when="c r + (kl + ln(J/delta))/n reaches c for all J constants c of the grid",
)
def catoni_grid(
    *,
    empirical_risk: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    grid: ArrayLike,
    loss_max: float = 1.0,
) -> Certificate:
    """Gibbs risk at most the smallest :func:`catoni` value over ``grid`` at delta / len(grid).

    Parameters
    ----------
    empirical_risk, kl, n_samples, delta, loss_max
        As for :func:`catoni`.
    grid : array_like
        Constants, each above 0, shape [J]; it does not broadcast.

    Returns
    -------
    Certificate
        Shape of the broadcast inputs without ``grid``.

    Examples
    --------
    >>> cert = catoni_grid(empirical_risk=0.05, kl=100, n_samples=5000, delta=0.05,
    ...                    grid=[0.25, 0.5, 1.0, 2.0])
    >>> round(float(cert), 4)
    0.1082
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max)
    constants = checks.positive("grid", grid)
    if constants.ndim != 1 or not constants.size:
        raise ValueError(f"grid must be a list of numbers above 0, got shape {constants.shape}")
    budget = np.asarray((nats + np.log(constants.size / failure)) / n)
    unit = risk / top
    values = _catoni(unit[..., None], budget[..., None], constants)
    return _certificate("catoni_grid", top * values.min(axis=-1), risk, failure, top)


@gibbs_catalogued(
    claim="Linear trade-off between empirical risk and complexity, for all trade-offs at once.",
    source="Thiemann, Igel, Wintenberger and Seldin 2017, Theorem 3",
    vacuous_when="kl + ln(2 sqrt(n)/delta) reaches n/2 at the best lam",
)
def thiemann(
    *,
    empirical_risk: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    lam: ArrayLike,
    loss_max: float = 1.0,
) -> Certificate:
    """Gibbs risk at most (r + loss_max b / (n lam)) / (1 - lam/2), b = kl + ln(2 sqrt(n)/delta).

    Parameters
    ----------
    empirical_risk, kl, n_samples, delta, loss_max
        As for :func:`catoni`.
    lam : array_like
        Trade-off strictly between 0 and 2; may be chosen after the losses were seen.

    Examples
    --------
    >>> cert = thiemann(empirical_risk=0.05, kl=100, n_samples=5000, delta=0.05, lam=0.5)
    >>> round(float(cert), 10)
    0.1242386539
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max)
    weight = checks.between("lam", lam, 0.0, 2.0)
    b = nats + np.log(2.0 * np.sqrt(n) / failure)
    value = _linear(risk, top * b / n, weight)
    return _certificate("thiemann", rounded_up(value), risk, failure, top)


@gibbs_catalogued(
    claim="Thiemann's bound at its best trade-off; the same number as pbb_quad.",
    source="Thiemann, Igel, Wintenberger and Seldin 2017, Theorem 3, minimised over lam",
    vacuous_when="kl + ln(2 sqrt(n)/delta) reaches n/2",
)
def thiemann_opt(
    *,
    empirical_risk: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: float = 1.0,
) -> Certificate:
    """Return :func:`thiemann` at lam = 2 / (sqrt(2 n r / b + 1) + 1), its minimum.

    Parameters
    ----------
    empirical_risk, kl, n_samples, delta, loss_max
        As for :func:`catoni`.

    Examples
    --------
    >>> round(float(thiemann_opt(empirical_risk=0.05, kl=100, n_samples=5000, delta=0.05)), 10)
    0.1228247938
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max)
    b = nats + np.log(2.0 * np.sqrt(n) / failure)
    best = 2.0 / (np.sqrt(2.0 * n * risk / (top * b) + 1.0) + 1.0)
    value = _linear(risk, top * b / n, best)
    return _certificate("thiemann_opt", rounded_up(value), risk, failure, top)


@gibbs_catalogued(
    claim="The square of a sum of two roots: a fast rate for small empirical risks.",
    source="Perez-Ortiz, Rivasplata, Shawe-Taylor and Szepesvari 2021, Theorem 1",
    vacuous_when="kl + ln(2 sqrt(n)/delta) reaches n/2",
)
def pbb_quad(
    *,
    empirical_risk: ArrayLike,
    kl: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: float = 1.0,
) -> Certificate:
    """Gibbs risk at most (sqrt(r + b/(2n)) + sqrt(b/(2n)))^2 with b = kl + ln(2 sqrt(n)/delta).

    Parameters
    ----------
    empirical_risk, kl, n_samples, delta, loss_max
        As for :func:`catoni`.

    Examples
    --------
    >>> round(float(pbb_quad(empirical_risk=0.05, kl=100, n_samples=5000, delta=0.05)), 10)
    0.1228247938
    """
    risk, nats, n, failure, top = inputs(empirical_risk, kl, n_samples, delta, loss_max)
    half = top * (nats + np.log(2.0 * np.sqrt(n) / failure)) / (2.0 * n)
    value = (np.sqrt(risk + half) + np.sqrt(half)) ** 2
    return _certificate("pbb_quad", rounded_up(value), risk, failure, top)


def _linear(risk: Array, complexity: Array, lam: Array) -> Array:
    return np.asarray((risk + complexity / lam) / (1.0 - lam / 2.0))


def _certificate(name: str, value: Array, risk: Array, failure: Array, top: float) -> Certificate:
    return priced(name, value, risk, {"samples": failure}, top, part="complexity")
