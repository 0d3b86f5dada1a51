"""PAC-Bayes bounds with a trade-off between empirical risk and complexity, and its best values.

The setting is that of :mod:`latecomer.bounds.one_data_set.pac_bayes`. A trade-off chosen after the
losses were seen needs a bound that holds for all values at once (``thiemann``) or a union over a
grid fixed beforehand (``catoni_grid``): ``catoni`` at its best constant is no proven bound.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, catalogued, priced, rounded_up
from latecomer.bounds.one_data_set.pac_bayes import ASSUMPTIONS, inputs

__all__ = ["catoni", "catoni_grid", "pbb_quad", "thiemann", "thiemann_opt"]


def _catoni(unit: Array, budget: Array, c: Array) -> Array:
    return rounded_up(np.expm1(-rounded_up(c * unit + budget)) / np.expm1(-c))


@catalogued(
    family="one data set",
    claim="Exponential-moment bound with a constant fixed in advance; no 2 sqrt(n) to pay.",
    source="Catoni 2007, Theorem 1.2.6",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
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
        As for :func:`~latecomer.bounds.one_data_set.pac_bayes.maurer`.
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


@catalogued(
    family="one data set",
    claim="Best of Catoni's bounds over a grid of constants fixed in advance, the union paid for.",
    source="Catoni 2007, Theorem 1.2.6, with a union over the grid",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
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


@catalogued(
    family="one data set",
    claim="Linear trade-off between empirical risk and complexity, for all trade-offs at once.",
    source="Thiemann, Igel, Wintenberger and Seldin 2017, Theorem 3",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=ASSUMPTIONS,
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


@catalogued(
    family="one data set",
    claim="Thiemann's bound at its best trade-off; the same number as pbb_quad.",
    source="Thiemann, Igel, Wintenberger and Seldin 2017, Theorem 3, minimised over lam",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=ASSUMPTIONS,
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


@catalogued(
    family="one data set",
    claim="The square of a sum of two roots: a fast rate for small empirical risks.",
    source="Perez-Ortiz, Rivasplata, Shawe-Taylor and Szepesvari 2021, Theorem 1",
    population="one-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=ASSUMPTIONS,
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
