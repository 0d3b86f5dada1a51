"""Certificates for new clients that need no bound within a client, exact or from drawn systems.

A *client score* is the loss on points of a client that its model was not generated from, averaged
over folds (cross-fitting). It depends on one client only and its mean is new clients' risk,
so scores are a plain sample of size ``n_clients``: the noise of a client's own sampling is already
part of their spread. ``kl_hyper`` is KL(posterior || prior) over whole systems, with the prior
fixed before the scores are seen, for instance on clients kept apart.

A mean over drawn systems has the price of a Monte-Carlo mean: systems are drawn after the posterior
is fixed, and the draws have their own failure probability. A system drawn afresh for each client
gives as many independent scores as there are clients; one shared by all clients gives only one.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import (
    Array,
    Certificate,
    catalogued,
    certificate,
    priced,
    rounded_up,
)
from latecomer.bounds.checks import (
    at_most,
    between,
    count,
    failure_probability,
    interval,
    largest_loss,
    nonnegative,
    positive,
)
from latecomer.bounds.unit_scale import kl_priced, kl_step, outward, per_client, unit_risk

__all__ = [
    "kl_from_draws",
    "product_from_draws",
    "progressive",
    "single_level_kl",
    "single_level_kl_mc",
    "single_level_product",
    "single_level_product_mc",
]

system_catalogued = partial(
    catalogued,
    family="new clients",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid or finite-pool",
)
SCORES = "every client score is taken on points that the client's model was not generated from"
PRIOR = "the prior over systems was fixed before the scores were seen"
SUPPORT = "the certified system is run with the support size the scores used"
POOL = (
    "clients are independent draws of one environment, or a uniform sample without replacement "
    "from a pool that the prior did not use"
)


@system_catalogued(
    claim="Risk on a new client of a randomised system, from cross-fitted client scores.",
    source="this project (route R1); Maurer (2004) over clients",
    assumptions=(
        SCORES,
        "empirical_risk is the exact mean over the posterior of systems: for a Monte-Carlo mean "
        "use single_level_kl_mc",
        PRIOR,
        SUPPORT,
        POOL,
    ),
    vacuous_when="kl_hyper exceeds a few times n_clients",
)
def single_level_kl(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    n_clients: ArrayLike,
    delta: ArrayLike,
    n_priors: ArrayLike = 1,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' risk: :math:`kl^{-1}(\hat s \mid (K + \ln(2J\sqrt n/\delta))/n)`.

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
        Mean client score, averaged exactly over the posterior of systems.
    kl_hyper : array_like, at least 0, nats
    n_clients : array_like of int, at least 1
        Clients scored.
    delta : array_like, in (0, 1)
    n_priors : array_like of int, at least 1
        J priors (such as a grid of variances) that the posterior chose from.
    loss_max : float, positive

    Examples
    --------
    >>> float(single_level_kl(empirical_risk=0, kl_hyper=0, n_clients=1, delta=0.05)) >= 0.975
    True
    """
    unit, scale = unit_risk(empirical_risk, loss_max)
    n = count("n_clients", n_clients).astype(np.float64)
    failure = failure_probability("delta", delta)
    log_moment = np.log(2.0 * count("n_priors", n_priors)) + 0.5 * np.log(n)
    budget = (nonnegative("kl_hyper", kl_hyper) + log_moment - np.log(failure)) / n
    return kl_priced("single_level_kl", unit, budget, {"clients": failure}, scale)


@system_catalogued(
    claim="Risk on a new client of a randomised system by the product rule, for low scores.",
    source="this project",
    assumptions=(
        SCORES,
        "mean_neg_log1m is the exact mean over the posterior of systems: for a Monte-Carlo mean "
        "use single_level_product_mc",
        PRIOR,
        SUPPORT,
        POOL,
    ),
    vacuous_when="kl_hyper exceeds a few times n_clients, or a score equals loss_max",
)
def single_level_product(
    *,
    mean_neg_log1m: ArrayLike,
    kl_hyper: ArrayLike,
    n_clients: ArrayLike,
    delta: ArrayLike,
    n_priors: ArrayLike = 1,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' risk: :math:`1 - \exp(-\ell - (K + \ln(J/\delta))/n)`.

    :math:`\ell` is the mean over clients and posterior of :math:`-\ln(1 - s_i)`, where s is a score
    divided by ``loss_max``. The certificate's ``empirical_risk`` is :math:`1 - e^{-\ell}`, at least
    the mean score.

    Parameters
    ----------
    mean_neg_log1m : array_like, at least 0
        The mean :math:`\ell`.
    kl_hyper : array_like, at least 0, nats
    n_clients : array_like of int, at least 1
    delta : array_like, in (0, 1)
    n_priors : array_like of int, at least 1
        J priors that the posterior chose from.
    loss_max : float, positive
        Scales the result; the scores in ``mean_neg_log1m`` are divided by it already.

    Examples
    --------
    >>> bound = single_level_product(mean_neg_log1m=0.12, kl_hyper=0, n_clients=90, delta=0.05)
    >>> round(float(bound), 6)
    0.142116
    """
    scale = largest_loss("loss_max", loss_max)
    level = nonnegative("mean_neg_log1m", mean_neg_log1m)
    n = count("n_clients", n_clients).astype(np.float64)
    failure = failure_probability("delta", delta)
    price = nonnegative("kl_hyper", kl_hyper) + np.log(count("n_priors", n_priors) / failure)
    value = rounded_up(-scale * np.expm1(-(level + price / n)))
    risk, spent = -scale * np.expm1(-level), {"clients": failure}
    return priced("single_level_product", value, risk, spent, scale, part="clients")


@catalogued(
    family="new clients",
    claim="Mean risk of the successive systems when each client is scored, then trained on.",
    source="this project (route R4)",
    population="unseen-client",
    predictor="random-checkpoint",
    sampling="martingale",
    assumptions=(
        "score t was taken before client t was trained on, with the system of step t - 1",
        "the order of clients is random and was fixed before any score; the grid as well",
        "the mean over the checkpoints that scored is bounded, not the last one",
    ),
    vacuous_when="n_steps is below about 10",
)
def progressive(
    *,
    empirical_risk: ArrayLike,
    n_steps: ArrayLike,
    delta: ArrayLike,
    grid: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound the mean risk of the systems that scored the clients.

    .. math:: \min_{\lambda \in grid} \frac{1 - \exp(-\lambda\bar x - \ln(J/\delta)/T)}
              {1 - e^{-\lambda}}

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
        Mean of the T scores.
    n_steps : array_like of int, at least 1
        T.
    delta : array_like, in (0, 1)
    grid : array_like, shape [J], positive
        Candidate temperatures, fixed beforehand; the union over them is paid for.
    loss_max : float, positive

    Examples
    --------
    >>> bound = progressive(empirical_risk=0.12, n_steps=45, delta=0.05, grid=[0.5, 1, 2, 4])
    >>> round(float(bound), 4)
    0.3091
    """
    unit, scale = unit_risk(empirical_risk, loss_max)
    steps = count("n_steps", n_steps).astype(np.float64)
    failure = failure_probability("delta", delta)
    rates = positive("grid", grid)
    per_client("grid", rates)
    if rates.ndim != 1:
        raise ValueError(f"grid must be one list of numbers above 0, got shape {rates.shape}")
    price = np.asarray(np.log(rates.size / failure) / steps)
    exponent = rates * unit[..., np.newaxis] + price[..., np.newaxis]
    value = rounded_up(scale * (np.expm1(-exponent) / np.expm1(-rates)).min(axis=-1))
    risk = scale * unit
    return priced("progressive", value, risk, {"clients": failure}, scale, part="clients")


Bounded = Callable[[Array, float], Certificate]

_DRAWS = (
    "systems were drawn independently after the posterior was fixed; a draw shared by all clients "
    "counts once in n_draws, a fresh draw for each client once per client, equally many for each"
)


def _price_of_draws(
    n_draws: ArrayLike, delta_draws: ArrayLike, delta: ArrayLike
) -> tuple[Array, Array, Array]:
    """Return both failure probabilities, and the budget of the draws' kl inverse."""
    draws = count("n_draws", n_draws).astype(np.float64)
    of_draws = failure_probability("delta_draws", delta_draws)
    failure = failure_probability("delta", delta)
    failure_probability("delta + delta_draws", failure + of_draws)
    return of_draws, failure, np.asarray(-np.log(of_draws) / draws)


def _level(monte_carlo_neg_log1m: ArrayLike, shrink: Array) -> tuple[Array, Array]:
    """Return the draws' mean level and the largest possible level."""
    largest = np.asarray(-np.log(shrink))
    level = interval("monte_carlo_neg_log1m", monte_carlo_neg_log1m, 0.0, np.inf)
    at_most("monte_carlo_neg_log1m", level, "-ln(gamma)", largest)
    return level, largest


@system_catalogued(
    claim="As single_level_kl, the posterior mean replaced by a Monte-Carlo mean and its price.",
    source="this project (route R1)",
    assumptions=(SCORES, _DRAWS, PRIOR, SUPPORT, POOL),
    vacuous_when="kl_hyper exceeds a few times n_clients",
)
def single_level_kl_mc(
    *,
    monte_carlo_risk: ArrayLike,
    n_draws: ArrayLike,
    delta_draws: ArrayLike,
    kl_hyper: ArrayLike,
    n_clients: ArrayLike,
    delta: ArrayLike,
    n_priors: ArrayLike = 1,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' risk by two nested inverses.

    The inner one is :math:`kl^{-1}(\hat s_{MC} \mid \ln(1/\delta')/N)` for :math:`N` independent
    scores, the outer one :func:`single_level_kl`; holds with probability
    :math:`1-\delta-\delta'`.

    Parameters
    ----------
    monte_carlo_risk : array_like, in [0, loss_max]
        Mean over all drawn scores.
    n_draws, n_clients, n_priors : array_like of int, at least 1
        N independently drawn scores over all clients together; clients; variances tried.
    delta_draws, delta : array_like, in (0, 1)
        Failure probabilities of the draws and of the clients.
    kl_hyper : array_like, at least 0, nats
    loss_max : float, positive

    Examples
    --------
    >>> bound = single_level_kl_mc(
    ...     monte_carlo_risk=0.1, n_draws=9000, delta_draws=0.01, kl_hyper=0, n_clients=90,
    ...     delta=0.04,
    ... )
    >>> round(float(bound), 4)
    0.2583
    """
    unit, scale = unit_risk(monte_carlo_risk, loss_max, "monte_carlo_risk")
    failure_draws, failure, budget = _price_of_draws(n_draws, delta_draws, delta)
    inner = kl_step(unit, budget)
    given = {"kl_hyper": kl_hyper, "n_clients": n_clients, "n_priors": n_priors}
    outer = single_level_kl(empirical_risk=inner, delta=failure, **given)
    return _kl_mc(unit, inner, outer, failure_draws, scale)


def _kl_mc(
    unit: Array, inner: Array, outer: Certificate, for_draws: Array | float, scale: float = 1.0
) -> Certificate:
    """Return the certificate of a drawn mean ``unit`` whose bound over the draws is ``inner``."""
    return certificate(
        "single_level_kl_mc",
        value=outward(outer.value, scale),
        terms={
            "empirical_risk": scale * unit,
            "draws": scale * (inner - unit),
            "clients": scale * outer.terms["clients"],
        },
        delta={"draws": for_draws, "clients": outer.delta["clients"]},
        loss_max=scale,
    )


@system_catalogued(
    claim="As single_level_product, the posterior mean replaced by a Monte-Carlo mean, priced.",
    source="this project (route R1)",
    assumptions=(SCORES, _DRAWS, PRIOR, SUPPORT, POOL, "gamma was fixed beforehand"),
    vacuous_when="kl_hyper exceeds a few times n_clients, or there are few draws",
)
def single_level_product_mc(
    *,
    monte_carlo_neg_log1m: ArrayLike,
    gamma: ArrayLike,
    n_draws: ArrayLike,
    delta_draws: ArrayLike,
    kl_hyper: ArrayLike,
    n_clients: ArrayLike,
    delta: ArrayLike,
    n_priors: ArrayLike = 1,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' risk by the product rule with drawn systems.

    Scores are multiplied by :math:`1-\gamma`, so that :math:`-\ln(1-(1-\gamma)s)` lies in
    :math:`[0, -\ln\gamma]` and a kl inverse bounds its mean over draws, with probability
    :math:`1-\delta'`; :func:`latecomer.bounds.single_level_product` of that bound, divided by
    :math:`1-\gamma`, holds with probability :math:`1-\delta-\delta'`.

    Parameters
    ----------
    monte_carlo_neg_log1m : array_like, in [0, -ln(gamma)]
        Mean of :math:`-\ln(1-(1-\gamma)s)` over all drawn scores s, each over ``loss_max``.
    gamma : array_like, in (0, 1)
        Fixed beforehand; about one over the number of clients is good.
    n_draws, delta_draws, kl_hyper, n_clients, delta, n_priors, loss_max
        As for :func:`single_level_kl_mc`.

    Examples
    --------
    >>> bound = single_level_product_mc(
    ...     monte_carlo_neg_log1m=0.12, gamma=0.01, n_draws=90000, delta_draws=0.01, kl_hyper=0,
    ...     n_clients=90, delta=0.04,
    ... )
    >>> round(float(bound), 4)
    0.1522
    """
    scale, shrink = largest_loss("loss_max", loss_max), between("gamma", gamma, 0.0, 1.0)
    level, largest = _level(monte_carlo_neg_log1m, shrink)
    failure_draws, failure, budget = _price_of_draws(n_draws, delta_draws, delta)
    inner = rounded_up(largest * kl_step(np.minimum(rounded_up(level / largest), 1.0), budget))
    given = {"kl_hyper": kl_hyper, "n_clients": n_clients, "n_priors": n_priors}
    outer = single_level_product(mean_neg_log1m=inner, delta=failure, **given)
    return _product_mc(level, scale / (1.0 - shrink), outer, failure_draws, scale)


def _product_mc(
    level: Array,
    factor: Array | float,
    outer: Certificate,
    for_draws: Array | float,
    scale: float = 1.0,
) -> Certificate:
    """Return the certificate of shrunk scores of mean ``level``, times ``factor``."""
    scores = -np.expm1(-level)
    return certificate(
        "single_level_product_mc",
        value=rounded_up(factor * outer.value),
        terms={
            "empirical_risk": factor * scores,
            "draws": factor * (outer.terms["empirical_risk"] - scores),
            "clients": factor * outer.terms["clients"],
        },
        delta={"draws": for_draws, "clients": outer.delta["clients"]},
        loss_max=scale,
    )


def product_from_draws(
    errors: Array, *, bounded: Bounded, gamma: float, for_draws: float, given: Mapping[str, Any]
) -> Certificate:
    """As :func:`single_level_product_mc`, the draws' levels bounded by any rule valid for them.

    Parameters
    ----------
    errors : ndarray [draws], in [0, 1]
        In the order of drawing.
    bounded : callable
        Maps levels in [0, 1] and a failure probability to a bound on the mean of their means.
    gamma : float
        Shrinkage of scores.
    for_draws : float
        Failure probability of ``bounded``.
    given : mapping
        The other arguments of
        :func:`latecomer.bounds.unseen_clients.single_level.single_level_product`.

    Examples
    --------
    >>> from latecomer.bounds.held_out.betting import betting_mixture
    >>> bound = product_from_draws(
    ...     np.full(2000, 0.1), gamma=0.01, for_draws=0.01,
    ...     bounded=lambda levels, share: betting_mixture(losses=levels, delta=share),
    ...     given={"kl_hyper": 0, "n_clients": 90, "delta": 0.04},
    ... )
    >>> round(float(bound), 3)
    0.146
    """
    largest = -np.log(gamma)
    levels = np.minimum(-np.log1p(-(1.0 - gamma) * errors) / largest, 1.0)
    inner = rounded_up(largest * np.minimum(rounded_up(bounded(levels, for_draws).value), 1.0))
    outer = single_level_product(mean_neg_log1m=inner, **given)
    return _product_mc(largest * levels.mean(), 1.0 / (1.0 - gamma), outer, for_draws)


def kl_from_draws(
    errors: Array, *, bounded: Bounded, gamma: float, for_draws: float, given: Mapping[str, Any]
) -> Certificate:
    """As :func:`single_level_kl_mc`, the draws' errors bounded by any rule valid for them.

    ``gamma`` is not used: nothing is shrunk. The rest is as for :func:`product_from_draws`.

    Examples
    --------
    >>> from latecomer.bounds.held_out.betting import betting_mixture
    >>> bound = kl_from_draws(
    ...     np.full(2000, 0.1), gamma=0.01, for_draws=0.01,
    ...     bounded=lambda levels, share: betting_mixture(losses=levels, delta=share),
    ...     given={"kl_hyper": 0, "n_clients": 90, "delta": 0.04},
    ... )
    >>> round(float(bound), 3)
    0.25
    """
    inner = np.minimum(bounded(errors, for_draws).value, 1.0)
    outer = single_level_kl(empirical_risk=inner, **given)
    return _kl_mc(errors.mean(), inner, outer, for_draws)
