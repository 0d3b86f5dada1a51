"""Certificates for new clients that need no bound within a client.

A *client score* is the loss on points of a client that its model was not generated from, averaged
over folds (cross-fitting). It depends on one client only and its mean is new clients' risk,
so scores are a plain sample of size ``n_clients``: the noise of a client's own sampling is already
part of their spread. ``kl_hyper`` is KL(posterior || prior) over whole systems, with the prior
fixed before the scores are seen, for instance on clients kept apart.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import Certificate, catalogued, priced, rounded_up
from latecomer.bounds.checks import (
    count,
    failure_probability,
    largest_loss,
    nonnegative,
    positive,
)
from latecomer.bounds.unit_scale import kl_step, outward, per_client, unit_risk

__all__ = [
    "progressive",
    "single_level_kl",
    "single_level_product",
]

SCORES = "every client score is taken on points that the client's model was not generated from"
PRIOR = "the prior over systems was fixed before the scores were seen"
SUPPORT = "the certified system is run with the support size the scores used"
POOL = (
    "clients are independent draws of one environment, or a uniform sample without replacement "
    "from a pool that the prior did not use"
)


@catalogued(
    family="new clients",
    claim="Risk on a new client of a randomised system, from cross-fitted client scores.",
    source="this project (route R1); Maurer (2004) over clients",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid or finite-pool",
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
    scale = largest_loss("loss_max", loss_max)
    unit = unit_risk("empirical_risk", empirical_risk, scale)
    n = count("n_clients", n_clients).astype(np.float64)
    failure = failure_probability("delta", delta)
    log_moment = np.log(2.0 * count("n_priors", n_priors)) + 0.5 * np.log(n)
    budget = (nonnegative("kl_hyper", kl_hyper) + log_moment - np.log(failure)) / n
    value = outward(kl_step(unit, np.asarray(budget)), scale)
    risk = scale * unit
    return priced("single_level_kl", value, risk, {"clients": failure}, scale, part="clients")


@catalogued(
    family="new clients",
    claim="Risk on a new client of a randomised system by the product rule, for low scores.",
    source="this project",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid or finite-pool",
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
    scale = largest_loss("loss_max", loss_max)
    unit = unit_risk("empirical_risk", empirical_risk, scale)
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
