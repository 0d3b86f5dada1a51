"""Learning to learn, earlier bounds in square-root and linear form, kept for comparison.

A prior over models is drawn from a hyper-posterior; ``kl_hyper`` is the KL of that hyper-posterior
to the hyper-prior, the clients' KL are to the drawn prior, averaged over the draw; all in nats.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import Certificate, catalogued
from latecomer.bounds.checks import (
    count,
    failure_probability,
    interval,
    largest_loss,
    nonnegative,
    positive,
    same_length,
)
from latecomer.bounds.meta_learning.pefll import CLIENTS, EQUAL, GIBBS, LEARNED
from latecomer.bounds.unit_scale import client_sizes, per_client, summed, unit_risk

__all__ = ["amit_meir", "pacoh_holder", "pentina_lampert", "rezazadeh_code"]

_ASSUMED = (
    CLIENTS,
    LEARNED,
    GIBBS,
    "the clients' KL are exact means over the hyper-posterior or upper bounds of them",
)


@catalogued(
    family="meta-learning",
    claim="Risk on a new client with a learned prior: the first bound of its kind.",
    source="Pentina and Lampert (ICML 2014), Theorem 1",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=_ASSUMED,
    vacuous_when="n_clients is below about 15, or kl_hyper of the order of its square root",
)
def pentina_lampert(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    sum_kl: ArrayLike,
    n_clients: ArrayLike,
    harmonic_size: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' Gibbs risk; linear in the KL terms.

    .. math:: \hat r + \frac{K_h + 1/8 + \ln(2/\delta)}{\sqrt n}
              + \frac{K_h + S}{n\sqrt{\bar m}} + \frac{1/8 + \ln(2/\delta)/n}{\sqrt{\bar m}}

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
    kl_hyper, sum_kl : array_like, at least 0, nats
    n_clients : array_like of int, at least 1
    harmonic_size : array_like, at least 1
        Harmonic mean of the clients' numbers of samples.
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> bound = pentina_lampert(
    ...     empirical_risk=0.1, kl_hyper=8, sum_kl=300, n_clients=200, harmonic_size=100, delta=0.05
    ... )
    >>> round(float(bound), 4)
    1.1037
    """
    scale = largest_loss("loss_max", loss_max)
    risk = unit_risk("empirical_risk", empirical_risk, scale)
    hyper = nonnegative("kl_hyper", kl_hyper)
    n = count("n_clients", n_clients).astype(np.float64)
    root = np.sqrt(interval("harmonic_size", harmonic_size, 1.0, np.inf))
    failure = failure_probability("delta", delta)
    surprise = np.log(2.0 / failure)
    samples = (hyper + nonnegative("sum_kl", sum_kl)) / n + 0.125 + surprise / n
    return summed(
        "pentina_lampert",
        terms={
            "empirical_risk": scale * risk,
            "clients": scale * (hyper + 0.125 + surprise) / np.sqrt(n),
            "samples": scale * samples / root,
        },
        delta={"clients": failure / 2.0, "samples": failure / 2.0},
        scale=scale,
    )


@catalogued(
    family="meta-learning",
    claim="Risk on a new client with a learned prior, both rates fixed in advance.",
    source="this project; in the shape of Rothfuss et al. (2021), Theorem 2",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=(*_ASSUMED, "client_rate and sample_rate were fixed before the data was seen"),
    vacuous_when="kl_hyper is of the order of n_clients, or the rates are far from their best",
)
def pacoh_holder(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    sum_kl: ArrayLike,
    n_clients: ArrayLike,
    harmonic_size: ArrayLike,
    delta: ArrayLike,
    client_rate: ArrayLike,
    sample_rate: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' Gibbs risk; Hoelder's inequality saves halving ``delta``.

    .. math:: \hat r + \Bigl(\tfrac1\lambda + \tfrac1{n\beta}\Bigr)(K_h + \ln\tfrac1\delta)
              + \frac{S}{n\beta} + \frac{\lambda M^2}{8n} + \frac{\beta M^2}{8\bar m}

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
    kl_hyper, sum_kl : array_like, at least 0, nats
    n_clients, harmonic_size : array_like, at least 1
        Clients, and the harmonic mean of their numbers of samples.
    delta : array_like, in (0, 1)
    client_rate, sample_rate : array_like, positive
        Lambda and beta, in units of one over the loss.
    loss_max : float, positive

    Examples
    --------
    >>> bound = pacoh_holder(
    ...     empirical_risk=0.1, kl_hyper=2, sum_kl=20, n_clients=20, harmonic_size=100, delta=0.1,
    ...     client_rate=20, sample_rate=100,
    ... )
    >>> round(float(bound), 6)
    0.577281
    """
    scale = largest_loss("loss_max", loss_max)
    risk = unit_risk("empirical_risk", empirical_risk, scale)
    n = count("n_clients", n_clients).astype(np.float64)
    size = interval("harmonic_size", harmonic_size, 1.0, np.inf)
    failure = failure_probability("delta", delta)
    over_clients = positive("client_rate", client_rate)
    over_samples = positive("sample_rate", sample_rate)
    hyper = nonnegative("kl_hyper", kl_hyper) - np.log(failure)
    samples = (hyper + nonnegative("sum_kl", sum_kl)) / (n * over_samples)
    return summed(
        "pacoh_holder",
        terms={
            "empirical_risk": scale * risk,
            "clients": hyper / over_clients + over_clients * scale * scale / (8.0 * n),
            "samples": samples + over_samples * scale * scale / (8.0 * size),
        },
        delta={"clients and samples together": failure},
        scale=scale,
    )


@catalogued(
    family="meta-learning",
    claim="Risk on a new client with a learned prior, one square root per client.",
    source="Amit and Meir (ICML 2018), Theorem 2",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=_ASSUMED,
    vacuous_when="kl_hyper is of the order of n_clients, or of the size of most clients",
)
def amit_meir(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    kls: ArrayLike,
    sizes: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' Gibbs risk, client by client.

    .. math:: \hat r + \frac1n\sum_i\sqrt{\frac{K_h + K_i + \ln(2nm_i/\delta)}{2(m_i-1)}}
              + \sqrt{\frac{K_h + \ln(2n/\delta)}{2(n-1)}}

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
    kl_hyper : array_like, at least 0, nats
    kls : array_like, shape [..., n], at least 0, nats
    sizes : array_like of int, shape [..., n], at least 2
        At least two clients with at least two samples each.
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> bound = amit_meir(
    ...     empirical_risk=0.1, kl_hyper=0, kls=[0, 0], sizes=[2, 1000], delta=0.1
    ... )
    >>> round(float(bound), 6)
    2.234618
    """
    scale = largest_loss("loss_max", loss_max)
    risk = unit_risk("empirical_risk", empirical_risk, scale)
    hyper = nonnegative("kl_hyper", kl_hyper)
    clients = nonnegative("kls", kls)
    m = client_sizes(sizes, minimum=2).astype(np.float64)
    same_length(kls=clients, sizes=m)
    n = per_client("sizes", m, minimum=2)
    failure = failure_probability("delta", delta)
    surprise = np.log(2.0 * n / failure)
    budget = (hyper + surprise)[..., np.newaxis] + clients + np.log(m)
    return summed(
        "amit_meir",
        terms={
            "empirical_risk": scale * risk,
            "clients": scale * np.sqrt((hyper + surprise) / (2.0 * (n - 1))),
            "samples": scale * np.sqrt(budget / (2.0 * (m - 1.0))).mean(axis=-1),
        },
        delta={"clients": failure / 2.0, "samples": failure / 2.0},
        scale=scale,
    )


@catalogued(
    family="meta-learning",
    claim="Risk on a new client with a learned prior, one joint square root.",
    source=(
        "form in the code of Zakerinia et al. (ICML 2024), after Rezazadeh (2022); proved here "
        "from Amit and Meir (2018) by Cauchy-Schwarz"
    ),
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=(*_ASSUMED, EQUAL),
    vacuous_when="kl_hyper is of the order of n_clients or n_samples",
)
def rezazadeh_code(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    mean_kl: ArrayLike,
    n_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' Gibbs risk; never below :func:`amit_meir` at equal sizes.

    .. math:: \hat r + \sqrt{\Bigl(\tfrac1{2(n-1)} + \tfrac1{2(m-1)}\Bigr)
              \Bigl(2K_h + \bar K + \ln\tfrac{2nm}\delta + \ln\tfrac{2n}\delta\Bigr)}

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
    kl_hyper, mean_kl : array_like, at least 0, nats
        ``mean_kl`` is the mean of the clients' KL.
    n_clients, n_samples : array_like of int, at least 2
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> bound = rezazadeh_code(
    ...     empirical_risk=0.1, kl_hyper=3, mean_kl=2.5, n_clients=10, n_samples=600, delta=0.1
    ... )
    >>> round(float(bound), 6)
    1.298995
    """
    scale = largest_loss("loss_max", loss_max)
    risk = unit_risk("empirical_risk", empirical_risk, scale)
    n = count("n_clients", n_clients, minimum=2).astype(np.float64)
    m = count("n_samples", n_samples, minimum=2).astype(np.float64)
    failure = failure_probability("delta", delta)
    budget = 2.0 * nonnegative("kl_hyper", kl_hyper) + nonnegative("mean_kl", mean_kl)
    budget = budget + 2.0 * np.log(2.0 * n / failure) + np.log(m)
    factor = 0.5 / (n - 1.0) + 0.5 / (m - 1.0)
    return summed(
        "rezazadeh_code",
        terms={
            "empirical_risk": scale * risk,
            "clients and samples": scale * np.sqrt(factor * budget),
        },
        delta={"clients": failure / 2.0, "samples": failure / 2.0},
        scale=scale,
    )
