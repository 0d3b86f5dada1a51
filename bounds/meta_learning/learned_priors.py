"""Learning to learn a prior: the clients' models are compared with a prior that was learned too.

``kl_hyper`` and ``sum_kl`` are those of :mod:`latecomer.bounds.meta_learning.pefll`, but the
clients' KL are to a prior drawn from a hyper-posterior, averaged over the draw.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import Array, Certificate, catalogued, rounded_up
from latecomer.bounds.checks import (
    count,
    failure_probability,
    largest_loss,
    nonnegative,
    one_of,
    positive,
)
from latecomer.bounds.meta_learning.kl_inverted import kl_root_step, nested
from latecomer.bounds.meta_learning.pefll import (
    CLIENTS,
    EQUAL,
    EXACT_KL,
    GIBBS,
    LEARNED,
    VACUOUS,
    VARIANTS,
    client_count,
    equal_total,
    root_bound,
)
from latecomer.bounds.unit_scale import unit_risk

__all__ = ["guan_lu_catoni", "guan_lu_kl", "zakerinia24"]


@catalogued(
    family="meta-learning",
    claim="Risk on a new client when both priors over models and algorithms are learned.",
    source="Zakerinia et al. (ICML 2024); same proof as PeFLL, Theorem B.1",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=(
        CLIENTS,
        "both hyper-priors, over algorithms and over priors, were fixed before any data was seen",
        GIBBS,
        EXACT_KL,
        EQUAL,
    ),
    vacuous_when=VACUOUS + "; with published scales the hyper-KL alone is 11 nats a weight",
)
def zakerinia24(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    kl_prior_hyper: ArrayLike,
    sum_kl: ArrayLike,
    n_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
    variant: str = "maurer",
) -> Certificate:
    r"""Bound new clients' Gibbs risk with a learned prior over the clients' models.

    As :func:`pefll_b1`, with ``kl_prior_hyper`` added to the sum of the clients' KL.

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
    kl_hyper : array_like, at least 0, nats
        KL of the hyper-posterior over algorithms.
    kl_prior_hyper : array_like, at least 0, nats
        KL of the hyper-posterior over priors.
    sum_kl : array_like, at least 0, nats
        Sum of the clients' KL to the learned prior, averaged over it.
    n_clients, n_samples : array_like of int, at least 1
    delta : array_like, in (0, 1)
    loss_max : float, positive
    variant : {"maurer", "printed", "subgauss"}

    Examples
    --------
    >>> bound = zakerinia24(
    ...     empirical_risk=0.1, kl_hyper=5, kl_prior_hyper=5, sum_kl=25, n_clients=10,
    ...     n_samples=600, delta=0.1,
    ... )
    >>> round(float(bound), 6)
    0.862042
    """
    one_of("variant", variant, VARIANTS)
    n = client_count(n_clients, variant)
    prior = nonnegative("kl_prior_hyper", kl_prior_hyper)
    nats = nonnegative("kl_hyper", kl_hyper), np.asarray(prior + nonnegative("sum_kl", sum_kl))
    samples = equal_total(n, n_samples)
    return root_bound("zakerinia24", empirical_risk, nats, n, samples, delta, loss_max, variant)


@catalogued(
    family="meta-learning",
    claim="Risk on a new client with a learned shared prior, by two nested kl inversions.",
    source="this project; in the shape of Guan and Lu (2022)",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=(CLIENTS, LEARNED, GIBBS, EXACT_KL, EQUAL),
    vacuous_when=VACUOUS,
)
def guan_lu_kl(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    sum_kl: ArrayLike,
    n_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' Gibbs risk; the clients' prior is drawn from the hyper-posterior.

    .. math:: kl^{-1}\Bigl(kl^{-1}\Bigl(\hat r \Bigm|
              \tfrac{K_h + S + \ln(4\sqrt{nm}/\delta)}{nm}\Bigr)
              \Bigm| \tfrac{K_h + \ln(4\sqrt n/\delta)}{n}\Bigr)

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
    kl_hyper, sum_kl : array_like, at least 0, nats
    n_clients, n_samples : array_like of int, at least 1
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> bound = guan_lu_kl(
    ...     empirical_risk=0.1, kl_hyper=8, sum_kl=300, n_clients=200, n_samples=100, delta=0.05
    ... )
    >>> round(float(bound), 10)
    0.3334652373
    """
    scale = largest_loss("loss_max", loss_max)
    unit = unit_risk("empirical_risk", empirical_risk, scale)
    n = count("n_clients", n_clients).astype(np.float64)
    total = np.asarray(n * count("n_samples", n_samples))
    failure = failure_probability("delta", delta)
    hyper = nonnegative("kl_hyper", kl_hyper)
    inner = kl_root_step(
        unit, np.asarray(hyper + nonnegative("sum_kl", sum_kl)), total, 4.0, failure
    )
    outer = kl_root_step(inner, hyper, n, 4.0, failure)
    ledger = {"clients": np.asarray(failure / 2.0), "samples": np.asarray(failure / 2.0)}
    return nested("guan_lu_kl", unit=unit, inner=inner, outer=outer, delta=ledger, scale=scale)


def _catoni_inverse(exponent: Array, temperature: Array) -> Array:
    return rounded_up(np.expm1(-exponent) / np.expm1(-temperature))


@catalogued(
    family="meta-learning",
    claim="Risk on a new client with a learned shared prior, by Catoni's function twice.",
    source="this project; in the shape of Guan and Lu (2022)",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=(
        *(CLIENTS, LEARNED, GIBBS, EXACT_KL, EQUAL),
        "both temperatures were fixed in advance",
    ),
    vacuous_when=VACUOUS,
)
def guan_lu_catoni(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    sum_kl: ArrayLike,
    n_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    client_temperature: ArrayLike,
    sample_temperature: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' Gibbs risk; the clients' prior is drawn from the hyper-posterior.

    With :math:`\Phi_C^{-1}(x) = (1-e^{-x})/(1-e^{-C})`, the inner value
    :math:`u = \min\{1, \Phi_{C_s}^{-1}(C_s\hat r + (K_h + S + \ln(2/\delta))/nm)\}` gives
    :math:`\Phi_{C_c}^{-1}(C_c u + (K_h + \ln(2/\delta))/n)`.

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
    kl_hyper, sum_kl : array_like, at least 0, nats
    n_clients, n_samples : array_like of int, at least 1
    delta : array_like, in (0, 1)
    client_temperature, sample_temperature : array_like, positive
        C of the step over clients and of that over their samples, fixed beforehand.
    loss_max : float, positive

    Examples
    --------
    >>> bound = guan_lu_catoni(
    ...     empirical_risk=0.1, kl_hyper=8, sum_kl=300, n_clients=200, n_samples=100, delta=0.05,
    ...     client_temperature=1, sample_temperature=1,
    ... )
    >>> round(float(bound), 4)
    0.3265
    """
    scale = largest_loss("loss_max", loss_max)
    unit = unit_risk("empirical_risk", empirical_risk, scale)
    n = count("n_clients", n_clients).astype(np.float64)
    total = n * count("n_samples", n_samples)
    failure = failure_probability("delta", delta)
    hyper = nonnegative("kl_hyper", kl_hyper) + np.log(2.0 / failure)
    within = positive("sample_temperature", sample_temperature)
    across = positive("client_temperature", client_temperature)
    over_samples = within * unit + (hyper + nonnegative("sum_kl", sum_kl)) / total
    inner = np.minimum(1.0, _catoni_inverse(np.asarray(over_samples), within))
    outer = _catoni_inverse(np.asarray(across * inner + hyper / n), across)
    ledger = {"clients": np.asarray(failure / 2.0), "samples": np.asarray(failure / 2.0)}
    return nested("guan_lu_catoni", unit=unit, inner=inner, outer=outer, delta=ledger, scale=scale)
