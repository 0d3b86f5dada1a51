"""Learning to learn, forms that invert the binary kl, and forms that learn a prior.

They are never above the square-root forms with the same constants; ``kl_hyper`` and ``sum_kl`` are
those of :mod:`latecomer.bounds.meta_learning.pefll`. Inverses round outward.

Where a prior is learned, the clients' KL are to a prior drawn from the hyper-posterior, averaged
over the draw.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import Array, Certificate, catalogued, certificate, rounded_up
from latecomer.bounds.checks import (
    count,
    failure_probability,
    nonnegative,
    one_of,
    positive,
)
from latecomer.bounds.meta_learning.pefll import (
    ASSUMED,
    CLIENTS,
    EQUAL,
    EXACT_KL,
    GIBBS,
    LEARNED,
    VACUOUS,
    VARIANTS,
    client_count,
    equal_total,
    meta_catalogued,
    root_bound,
)
from latecomer.bounds.unit_scale import (
    client_sizes,
    kl_step,
    nested,
    outward,
    shared_delta,
    unit_risk,
)

__all__ = [
    "guan_lu_catoni",
    "guan_lu_kl",
    "multitask_kl",
    "two_step_fixed",
    "two_step_kl",
    "zakerinia24",
]

SAMPLES = "samples are drawn independently within and between the given clients"
SHARES = "the shares of delta were fixed beforehand"


def kl_root_step(unit: Array, complexity: Array, size: Array, factor: float, delta: Array) -> Array:
    """Return the upper kl inverse at (complexity + ln(factor sqrt(size) / delta)) / size."""
    budget = (complexity + np.log(factor) + 0.5 * np.log(size) - np.log(delta)) / size
    return kl_step(unit, budget)


def two_step(
    name: str,
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    sum_kl: ArrayLike,
    n: Array,
    total: Array,
    delta: ArrayLike,
    client_share: ArrayLike,
    loss_max: ArrayLike,
) -> Certificate:
    """Return the two-step bound for ``n`` clients, counting ``total`` samples."""
    unit, scale = unit_risk(empirical_risk, loss_max)
    clients, samples = shared_delta(delta, client_share)
    inner = kl_root_step(unit, nonnegative("sum_kl", sum_kl), total, 2.0, samples)
    outer = kl_root_step(inner, nonnegative("kl_hyper", kl_hyper), n, 2.0, clients)
    ledger = {"clients": clients, "samples": samples}
    return nested(name, unit=unit, inner=inner, outer=outer, delta=ledger, scale=scale)


@meta_catalogued(
    claim="Two nested inversions for clients that had no part in the law over systems.",
    source="this project (route R2); Chernoff's bound over clients",
    assumptions=(
        CLIENTS,
        "the law over systems and the clients' priors were settled without these clients",
        GIBBS,
        EXACT_KL,
        "every client weighs the same; the smallest client's samples count for all",
        SHARES,
    ),
    vacuous_when="there are fewer than about 10 clients, or sum_kl is of the order of all samples",
)
def two_step_fixed(
    *,
    empirical_risk: ArrayLike,
    sum_kl: ArrayLike,
    sizes: ArrayLike,
    delta: ArrayLike,
    client_share: ArrayLike = 0.5,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' Gibbs risk of systems whose law did not look at these clients.

    .. math:: kl^{-1}\Bigl(kl^{-1}\Bigl(\hat r \Bigm| \tfrac{1}{n m}\Bigl(
              S + \ln\tfrac{2\sqrt{nm}}{\delta_2}\Bigr)\Bigr)
              \Bigm| \tfrac{\ln(1/\delta_1)}{n}\Bigr), \qquad m = \min_i m_i

    For a fixed law over systems a client's Gibbs risk, with the model made from its sample, is a
    function of client and sample alone.  These risks are i.i.d. over clients and their expectation
    is bounded here, so that Chernoff's inequality takes the place of a PAC-Bayes step: no
    hyper-divergence and no :math:`2\sqrt n`.  The inner step bounds the clients' mean risk with
    probability :math:`1-\delta_2`, and :math:`kl^{-1}` grows with that mean.

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
        Mean of the clients' Gibbs risks, each client weighing the same.
    sum_kl : array_like, at least 0, nats
        Sum over clients, and mean over the law of systems, of KL(posterior || prior).
    sizes : array_like of int, shape [..., n], at least 1
    delta : array_like, in (0, 1)
    client_share : array_like, in (0, 1)
        Part of ``delta`` spent on the draw of clients.
    loss_max : float, positive

    Examples
    --------
    >>> bound = two_step_fixed(empirical_risk=0.1, sum_kl=0, sizes=[40] * 90, delta=0.05)
    >>> round(float(bound), 4)
    0.2348
    """
    unit, scale = unit_risk(empirical_risk, loss_max)
    m = client_sizes(sizes)
    n = float(m.shape[-1])
    clients, samples = shared_delta(delta, client_share)
    total = np.asarray(n * m.min(axis=-1))
    inner = kl_root_step(unit, nonnegative("sum_kl", sum_kl), total, 2.0, samples)
    outer = kl_step(inner, -np.log(clients) / n)
    ledger = {"clients": clients, "samples": samples}
    return nested("two_step_fixed", unit=unit, inner=inner, outer=outer, delta=ledger, scale=scale)


@meta_catalogued(
    claim="Risk on a new client by two nested kl inversions, after PeFLL's Theorem B.1.",
    source="this project (route R2)",
    assumptions=(*ASSUMED, EQUAL, SHARES),
    vacuous_when=VACUOUS,
)
def two_step_kl(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    sum_kl: ArrayLike,
    n_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    client_share: ArrayLike = 0.5,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' Gibbs risk of a system trained on the certified clients.

    .. math:: kl^{-1}\Bigl(kl^{-1}\Bigl(\hat r \Bigm| \tfrac{S + \ln(2\sqrt{nm}/\delta_2)}{nm}\Bigr)
              \Bigm| \tfrac{K_h + \ln(2\sqrt n/\delta_1)}{n}\Bigr), \qquad
              \delta_1 + \delta_2 = \delta

    With equal shares never above :func:`pefll_b1`, variant ``maurer``; its other variants can be
    lower where the risk is near 1/2.

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
    kl_hyper, sum_kl : array_like, at least 0, nats
    n_clients, n_samples : array_like of int, at least 1
        Clients, and samples of each.
    delta : array_like, in (0, 1)
    client_share : array_like, in (0, 1)
        Part of ``delta`` spent on the draw of clients.
    loss_max : float, positive

    Examples
    --------
    >>> bound = two_step_kl(
    ...     empirical_risk=0.1, kl_hyper=8, sum_kl=300, n_clients=200, n_samples=100, delta=0.05
    ... )
    >>> round(float(bound), 10)
    0.3323755598
    """
    n = count("n_clients", n_clients).astype(np.float64)
    return two_step(
        "two_step_kl",
        empirical_risk=empirical_risk,
        kl_hyper=kl_hyper,
        sum_kl=sum_kl,
        n=n,
        total=np.asarray(n * count("n_samples", n_samples)),
        delta=delta,
        client_share=client_share,
        loss_max=loss_max,
    )


@catalogued(
    family="multi-task",
    claim="Mean risk of the seen clients, all their samples counting together.",
    source="standard; Maurer (2004) over all samples, prior and models learned jointly",
    population="seen-clients",
    predictor="gibbs",
    sampling="iid",
    assumptions=(SAMPLES, LEARNED, GIBBS, EXACT_KL, EQUAL),
    vacuous_when="kl_hyper + sum_kl is of the order of all samples together",
)
def multitask_kl(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    sum_kl: ArrayLike,
    n_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound the seen clients' mean Gibbs risk: one kl inversion over all nm samples.

    .. math:: kl^{-1}\Bigl(\hat r \Bigm| \tfrac{K_h + S + \ln(2\sqrt{nm}/\delta)}{nm}\Bigr)

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
    kl_hyper, sum_kl : array_like, at least 0, nats
    n_clients, n_samples : array_like of int, at least 1
        For clients of unequal size, the smallest number of samples.
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> bound = multitask_kl(
    ...     empirical_risk=0.1, kl_hyper=8, sum_kl=300, n_clients=200, n_samples=100, delta=0.05
    ... )
    >>> round(float(bound), 10)
    0.1616394105
    """
    unit, scale = unit_risk(empirical_risk, loss_max)
    n = count("n_clients", n_clients).astype(np.float64)
    total = np.asarray(n * count("n_samples", n_samples))
    failure = failure_probability("delta", delta)
    complexity = nonnegative("kl_hyper", kl_hyper) + nonnegative("sum_kl", sum_kl)
    value = kl_root_step(unit, np.asarray(complexity), total, 2.0, failure)
    return certificate(
        "multitask_kl",
        value=outward(value, scale),
        terms={"empirical_risk": scale * unit, "samples": scale * (value - unit)},
        delta={"samples": failure},
        loss_max=scale,
    )


@meta_catalogued(
    claim="Risk on a new client when both priors over models and algorithms are learned.",
    source="Zakerinia et al. (ICML 2024); same proof as PeFLL, Theorem B.1",
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


@meta_catalogued(
    claim="Risk on a new client with a learned shared prior, by two nested kl inversions.",
    source="this project; in the shape of Guan and Lu (2022)",
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
    unit, scale = unit_risk(empirical_risk, loss_max)
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


@meta_catalogued(
    claim="Risk on a new client with a learned shared prior, by Catoni's function twice.",
    source="this project; in the shape of Guan and Lu (2022)",
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
    unit, scale = unit_risk(empirical_risk, loss_max)
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
