"""Clients of unequal size but equal weight: which number of samples counts in which form.

Square-root forms take the harmonic mean of the sizes, kl forms only the smallest, Catoni's form a
temperature for each client. ``kl_hyper`` and ``sum_kl`` are those of
:mod:`latecomer.bounds.meta_learning.pefll`; ``sizes`` [..., n] lists the clients' samples.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import Array, Certificate, catalogued, certificate, halved
from latecomer.bounds.checks import (
    failure_probability,
    interval,
    largest_loss,
    nonnegative,
    one_of,
    positive,
    same_length,
)
from latecomer.bounds.meta_learning.kl_inverted import SAMPLES, SHARES, two_step
from latecomer.bounds.meta_learning.pefll import (
    ASSUMED,
    EXACT_KL,
    VACUOUS,
    VARIANTS,
    client_count,
    meta_catalogued,
    root_bound,
)
from latecomer.bounds.unit_scale import client_sizes, harmonic_total, outward, per_client

__all__ = ["catoni_unequal", "pefll_b1_unequal", "two_step_kl_unequal"]


@meta_catalogued(
    claim="PeFLL's Theorem B.1 for clients of unequal size, through their harmonic mean.",
    source="this project; proof of PeFLL (ICLR 2024), Theorem B.1",
    assumptions=ASSUMED,
    vacuous_when=VACUOUS,
)
def pefll_b1_unequal(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    sum_kl: ArrayLike,
    sizes: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
    variant: str = "maurer",
) -> Certificate:
    r"""Bound new clients' Gibbs risk when client ``i`` holds ``sizes[..., i]`` samples.

    As :func:`pefll_b1` with :math:`nm` replaced by :math:`N = n \bar m`, :math:`\bar m` the
    harmonic mean, and :math:`\ln(8nm/\delta)` by :math:`\ln(2\lceil 4N\rceil/\delta)`.
    Equal sizes give :func:`pefll_b1` exactly.

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
        Mean of the clients' Gibbs risks, each client weighing the same.
    kl_hyper, sum_kl : array_like, at least 0, nats
    sizes : array_like of int, shape [..., n], at least 1
    delta : array_like, in (0, 1)
    loss_max : float, positive
    variant : {"maurer", "printed", "subgauss"}

    Examples
    --------
    >>> bound = pefll_b1_unequal(
    ...     empirical_risk=0.1, kl_hyper=5, sum_kl=20, sizes=[10, 20, 400], delta=0.05
    ... )
    >>> round(float(bound), 10)
    1.8920207755
    """
    one_of("variant", variant, VARIANTS)
    samples = harmonic_total(sizes)
    n = client_count(np.shape(sizes)[-1], variant)
    nats = nonnegative("kl_hyper", kl_hyper), nonnegative("sum_kl", sum_kl)
    return root_bound(
        "pefll_b1_unequal", empirical_risk, nats, n, samples, delta, loss_max, variant
    )


@meta_catalogued(
    claim="The two-step kl bound for clients of unequal size, through the smallest of them.",
    source="this project; see Zakerinia and Lampert (NeurIPS 2025) for why no larger size will do",
    assumptions=(
        *ASSUMED,
        "every client weighs the same; with total or harmonic size the statement is false",
        SHARES,
    ),
    vacuous_when=VACUOUS + "; one small client makes all small",
)
def two_step_kl_unequal(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    sum_kl: ArrayLike,
    sizes: ArrayLike,
    delta: ArrayLike,
    client_share: ArrayLike = 0.5,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' Gibbs risk: :func:`two_step_kl` with :math:`n\min_i m_i` samples.

    Parameters
    ----------
    empirical_risk, kl_hyper, sum_kl, sizes, delta, loss_max
        As for :func:`pefll_b1_unequal`.
    client_share : array_like, in (0, 1)

    Examples
    --------
    >>> bound = two_step_kl_unequal(
    ...     empirical_risk=0.1, kl_hyper=0, sum_kl=0, sizes=[40] * 90, delta=0.05
    ... )
    >>> round(float(bound), 4)
    0.2809
    """
    m = client_sizes(sizes)
    n = np.asarray(float(m.shape[-1]))
    return two_step(
        "two_step_kl_unequal",
        empirical_risk=empirical_risk,
        kl_hyper=kl_hyper,
        sum_kl=sum_kl,
        n=n,
        total=np.asarray(n * m.min(axis=-1)),
        delta=delta,
        client_share=client_share,
        loss_max=loss_max,
    )


def _largest_mean(sizes: Array, rates: Array, budget: Array) -> Array:
    """Largest mean(p) over p in [0, 1]^n with ``sum m_i phi_i(p_i) <= budget``, or slightly more.

    ``phi_i(p) = -ln(1 - p g_i)``, ``g_i = 1 - exp(-rates_i)``. The Lagrangian peaks at
    ``p_i = 1/g_i - c m_i`` clipped to [0, 1], where ``phi_i = -ln(c m_i g_i)``; its value there
    bounds the maximum for every multiplier ``c``, so an inexact bisection errs on the safe side.
    """
    n = sizes.shape[-1]
    gain = -np.expm1(-rates)
    everywhere_one = rates * sizes

    def at(multiplier: Array) -> tuple[Array, Array]:
        c = multiplier[..., np.newaxis]
        p = np.clip(1.0 / gain - c * sizes, 0.0, 1.0)
        # Not from p, which rounds to 1 long before the peak is there.
        spent = np.clip(-sizes * np.log(c * sizes * gain), 0.0, everywhere_one)
        return p.mean(axis=-1), spent.sum(axis=-1)

    low = np.log(np.full(budget.shape, 1e-300))
    high = np.log((1.0 / (gain * sizes)).max(axis=-1))
    multiplier = np.exp(halved(low, high, 110, lambda log: at(np.exp(log))[1] < budget)[0])
    mean, spent = at(multiplier)
    dual = mean + multiplier * (budget - spent) / n
    full = everywhere_one.sum(axis=-1) <= budget
    return np.asarray(np.where(full, 1.0, np.minimum(dual * (1.0 + 1e-13), 1.0)))


@catalogued(
    family="multi-task",
    claim="Mean risk of seen clients of unequal size, each weighing the same, fixed rate.",
    source="this project; Catoni (2007) with one temperature per client",
    population="seen-clients",
    predictor="gibbs",
    sampling="iid",
    assumptions=(
        SAMPLES,
        "the priors on the clients' models were fixed before any client's data was seen",
        "empirical_risks are Gibbs risks, losses in [0, loss_max]",
        EXACT_KL,
        "rate was fixed before the data was seen",
    ),
    vacuous_when="sum_kl is of the order of rate",
)
def catoni_unequal(
    *,
    empirical_risks: ArrayLike,
    sum_kl: ArrayLike,
    sizes: ArrayLike,
    delta: ArrayLike,
    rate: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound the seen clients' mean Gibbs risk without falling back on the smallest client.

    The bound is the largest mean of :math:`L \in [0, 1]^n` allowed by
    :math:`\sum_i -m_i\ln(1 - L_i(1-e^{-\lambda/nm_i})) \le \lambda\bar r + S + \ln(1/\delta)`.
    With equal sizes it is Catoni's bound at temperature :math:`\lambda/nm`, cut at 1.

    Parameters
    ----------
    empirical_risks : array_like, shape [..., n], in [0, loss_max]
    sum_kl : array_like, at least 0, nats
    sizes : array_like of int, shape [..., n], at least 1
    delta : array_like, in (0, 1)
    rate : array_like, positive
        Lambda; about the number of samples that count.
    loss_max : float, positive

    Examples
    --------
    >>> bound = catoni_unequal(
    ...     empirical_risks=[0.1, 0.1], sum_kl=0, sizes=[50, 50], delta=0.05, rate=50
    ... )
    >>> round(float(bound), 6)
    0.195299
    """
    scale = largest_loss("loss_max", loss_max)
    risks = np.asarray(interval("empirical_risks", empirical_risks, 0.0, scale) / scale)
    per_client("empirical_risks", risks)
    m = client_sizes(sizes).astype(np.float64)
    n = same_length(empirical_risks=risks, sizes=m)
    failure = failure_probability("delta", delta)
    total_rate = positive("rate", rate)
    unit = risks.mean(axis=-1)
    budget = total_rate * unit + nonnegative("sum_kl", sum_kl) - np.log(failure)
    budget = np.asarray(budget + np.zeros(m.shape[:-1]))
    rates = total_rate[..., np.newaxis] / (n * m)
    value = _largest_mean(m, np.broadcast_to(rates, (*budget.shape, n)), budget)
    return certificate(
        "catoni_unequal",
        value=outward(value, scale),
        terms={"empirical_risk": scale * unit, "samples": scale * (value - unit)},
        delta={"samples": failure},
        loss_max=scale,
    )
