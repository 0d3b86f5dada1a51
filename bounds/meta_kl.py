"""Learning to learn, forms that invert the binary kl or Catoni's function.

They are tighter than the square-root forms on the same inputs. ``kl_hyper`` and ``sum_kl`` as in
``meta``. Inverses round outward. Risks lie in [0, loss_max], ``delta`` strictly between 0 and 1.
Inputs broadcast; arguments that list clients have them on their last axis. ValueError when out of
range.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import Array, Certificate, catalogued, certificate, rounded_up
from latecomer.bounds.checks import (
    count,
    failure_probability,
    interval,
    largest_loss,
    nonnegative,
    positive,
    same_length,
)
from latecomer.bounds.meta_inputs import client_sizes, kl_step, outward, per_client, unit_risk

__all__ = [
    "catoni_unequal",
    "guan_lu_catoni",
    "guan_lu_kl",
    "multitask_kl",
    "two_step_kl",
    "two_step_kl_unequal",
]

_CLIENTS = "clients are drawn independently from one environment, samples independently per client"
_SAMPLES = "samples are drawn independently within and between the given clients"
_PRIORS = "hyper-prior and priors were fixed before any client's data was seen"
_EXACT = (
    "KL sums are exact means over the hyper-posterior or upper bounds of them: a Monte-Carlo "
    "average of an unbounded KL is no certificate"
)
_GIBBS = "empirical_risk is the mean over clients of the Gibbs risk, losses in [0, loss_max]"
_VACUOUS = "kl_hyper is of the order of n_clients, or sum_kl of all samples together"


def _kl_step(unit: Array, complexity: Array, size: Array, factor: float, delta: Array) -> Array:
    budget = (complexity + np.log(factor) + 0.5 * np.log(size) - np.log(delta)) / size
    return kl_step(unit, budget)


def _nested(
    name: str, *, unit: Array, inner: Array, outer: Array, delta: dict[str, Array], scale: float
) -> Certificate:
    return certificate(
        name,
        value=outward(outer, scale),
        terms={
            "empirical_risk": scale * unit,
            "samples": scale * (inner - unit),
            "clients": scale * (outer - inner),
        },
        delta=delta,
        loss_max=scale,
    )


def _two_step(
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
    scale = largest_loss("loss_max", loss_max)
    unit = unit_risk("empirical_risk", empirical_risk, scale)
    failure = failure_probability("delta", delta)
    share = failure_probability("client_share", client_share)
    clients, samples = np.asarray(share * failure), np.asarray((1.0 - share) * failure)
    inner = _kl_step(unit, nonnegative("sum_kl", sum_kl), total, 2.0, samples)
    outer = _kl_step(inner, nonnegative("kl_hyper", kl_hyper), n, 2.0, clients)
    ledger = {"clients": clients, "samples": samples}
    return _nested(name, unit=unit, inner=inner, outer=outer, delta=ledger, scale=scale)


@catalogued(
    family="meta-learning",
    claim="Risk on an unseen client by two nested kl inversions: tighter than PeFLL's Theorem B.1.",
    source="this project (route R2)",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=(_CLIENTS, _PRIORS, _GIBBS, _EXACT, "all clients hold equally many samples"),
    vacuous_when=_VACUOUS,
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
    r"""Bound the unseen-client Gibbs risk of a system trained on the certified clients.

    .. math:: kl^{-1}\Bigl(kl^{-1}\Bigl(\hat r \Bigm| \tfrac{S + \ln(2\sqrt{nm}/\delta_2)}{nm}\Bigr)
              \Bigm| \tfrac{K_h + \ln(2\sqrt n/\delta_1)}{n}\Bigr), \qquad
              \delta_1 + \delta_2 = \delta

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

    Raises
    ------
    ValueError
        An argument is out of range.

    Examples
    --------
    >>> bound = two_step_kl(
    ...     empirical_risk=0.1, kl_hyper=8, sum_kl=300, n_clients=200, n_samples=100, delta=0.05
    ... )
    >>> round(float(bound), 10)
    0.3323755598
    """
    n = count("n_clients", n_clients).astype(np.float64)
    return _two_step(
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
    family="meta-learning",
    claim="The two-step kl bound for clients of unequal size, through the smallest of them.",
    source="this project; see Zakerinia and Lampert (NeurIPS 2025) for why no larger size will do",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=(
        _CLIENTS,
        _PRIORS,
        _GIBBS,
        _EXACT,
        "every client weighs the same; with total or harmonic size the statement is false",
    ),
    vacuous_when=_VACUOUS + "; one small client makes all small",
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
    r"""Bound the unseen-client Gibbs risk: :func:`two_step_kl` with :math:`n\min_i m_i` samples.

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
        Mean of the clients' Gibbs risks, each client weighing the same.
    kl_hyper, sum_kl : array_like, at least 0, nats
    sizes : array_like of int, shape [..., n], at least 1
    delta : array_like, in (0, 1)
    client_share : array_like, in (0, 1)
    loss_max : float, positive

    Raises
    ------
    ValueError
        An argument is out of range.

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
    return _two_step(
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


@catalogued(
    family="multi-task",
    claim="Mean risk of the seen clients, all their samples counting together.",
    source="standard; Maurer (2004) over all samples, prior and models learned jointly",
    population="seen-clients",
    predictor="gibbs",
    sampling="iid",
    assumptions=(_SAMPLES, _PRIORS, _GIBBS, _EXACT, "all clients hold equally many samples"),
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
        For unequal clients the smallest number of samples.
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Raises
    ------
    ValueError
        An argument is out of range.

    Examples
    --------
    >>> bound = multitask_kl(
    ...     empirical_risk=0.1, kl_hyper=8, sum_kl=300, n_clients=200, n_samples=100, delta=0.05
    ... )
    >>> round(float(bound), 10)
    0.1616394105
    """
    scale = largest_loss("loss_max", loss_max)
    unit = unit_risk("empirical_risk", empirical_risk, scale)
    n = count("n_clients", n_clients).astype(np.float64)
    total = np.asarray(n * count("n_samples", n_samples))
    failure = failure_probability("delta", delta)
    complexity = nonnegative("kl_hyper", kl_hyper) + nonnegative("sum_kl", sum_kl)
    value = _kl_step(unit, np.asarray(complexity), total, 2.0, failure)
    return certificate(
        "multitask_kl",
        value=outward(value, scale),
        terms={"empirical_risk": scale * unit, "samples": scale * (value - unit)},
        delta={"samples": failure},
        loss_max=scale,
    )


@catalogued(
    family="meta-learning",
    claim="Risk on an unseen client with a learned shared prior, by two nested kl inversions.",
    source="this project; in the shape of Guan and Lu (2022)",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=(_CLIENTS, _PRIORS, _GIBBS, _EXACT, "all clients hold equally many samples"),
    vacuous_when=_VACUOUS,
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
    r"""Bound the unseen-client Gibbs risk, the clients' prior drawn from the hyper-posterior.

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

    Raises
    ------
    ValueError
        An argument is out of range.

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
    inner = _kl_step(unit, np.asarray(hyper + nonnegative("sum_kl", sum_kl)), total, 4.0, failure)
    outer = _kl_step(inner, hyper, n, 4.0, failure)
    ledger = {"clients": np.asarray(failure / 2.0), "samples": np.asarray(failure / 2.0)}
    return _nested("guan_lu_kl", unit=unit, inner=inner, outer=outer, delta=ledger, scale=scale)


def _catoni_inverse(exponent: Array, temperature: Array) -> Array:
    return rounded_up(np.expm1(-exponent) / np.expm1(-temperature))


@catalogued(
    family="meta-learning",
    claim="Risk on an unseen client with a learned shared prior, by Catoni's function twice.",
    source="this project; in the shape of Guan and Lu (2022)",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
    assumptions=(_CLIENTS, _PRIORS, _GIBBS, _EXACT, "both temperatures were fixed in advance"),
    vacuous_when=_VACUOUS,
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
    r"""Bound the unseen-client Gibbs risk, the clients' prior drawn from the hyper-posterior.

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
    loss_max : float, positive

    Raises
    ------
    ValueError
        An argument is out of range.

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
    return _nested("guan_lu_catoni", unit=unit, inner=inner, outer=outer, delta=ledger, scale=scale)


def _largest_mean(sizes: Array, rates: Array, budget: Array) -> Array:
    """Largest mean(p) over p in [0, 1]^n with ``sum m_i phi_i(p_i) <= budget``, from above.

    ``phi_i(p) = -ln(1 - p g_i)``, ``g_i = 1 - exp(-rates_i)``. The Lagrangian peaks at
    ``p_i = 1/g_i - c m_i`` cut to [0, 1]; its value there bounds the maximum for every multiplier
    ``c``, so whatever bisection leaves open errs on the safe side.
    """
    n = sizes.shape[-1]
    gain = -np.expm1(-rates)
    everywhere_one = rates * sizes

    def at(multiplier: Array) -> tuple[Array, Array]:
        c = multiplier[..., np.newaxis]
        p = np.clip(1.0 / gain - c * sizes, 0.0, 1.0)
        with np.errstate(divide="ignore"):
            spent = np.where(p >= 1.0, everywhere_one, -sizes * np.log1p(-p * gain))
        return p.mean(axis=-1), spent.sum(axis=-1)

    low = np.log(np.full(budget.shape, 1e-300))
    high = np.log((1.0 / (gain * sizes)).max(axis=-1))
    for _ in range(110):
        middle = 0.5 * (low + high)
        over = at(np.exp(middle))[1] >= budget
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    multiplier = np.exp(low)
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
        _SAMPLES,
        _PRIORS,
        "empirical_risks are Gibbs risks, losses in [0, loss_max]",
        _EXACT,
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

    The largest mean of :math:`L \in [0, 1]^n` allowed by
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

    Raises
    ------
    ValueError
        An argument is out of range, or lengths differ.

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
