"""Learning to learn, square-root and linear forms: PeFLL's theorems and those they come from.

Shared notation. ``n_clients`` clients are drawn from an environment, client ``i`` draws its own
samples. ``kl_hyper`` is KL(hyper-posterior || hyper-prior), ``sum_kl`` the sum over the clients of
KL(generated posterior || data-free prior), averaged over the hyper-posterior; both in nats.

In the earlier bounds a prior over models is drawn from the hyper-posterior, and the clients' KL are
to the drawn prior, averaged over the draw.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import Array, Certificate, catalogued
from latecomer.bounds.checks import (
    count,
    failure_probability,
    interval,
    nonnegative,
    one_of,
    positive,
    same_length,
)
from latecomer.bounds.unit_scale import (
    client_sizes,
    gaussian_nats,
    harmonic_total,
    per_client,
    summed,
    unit_risk,
)

__all__ = ["amit_meir", "pacoh_holder", "pefll_32", "pefll_b1", "pentina_lampert", "rezazadeh_code"]

VARIANTS = ("printed", "maurer", "subgauss")

CLIENTS = (
    "clients are drawn independently from one environment, with their sizes where these differ, "
    "samples independently per client; a new client and its size are drawn likewise"
)
EQUAL = "all clients hold equally many samples"
GIBBS = "empirical_risk is the mean over clients of the Gibbs risk, losses in [0, loss_max]"
EXACT_KL = (
    "KL sums are exact means over the hyper-posterior or upper bounds of them: a Monte-Carlo "
    "average of an unbounded KL is no certificate"
)
LEARNED = (
    "the hyper-prior was fixed before any client's data was seen; the clients' prior is drawn from "
    "the hyper-posterior"
)
ASSUMED = (
    CLIENTS,
    "the hyper-prior was fixed before any client's data was seen",
    "the priors on the clients' models use no data and do not depend on the hyper-posterior",
    GIBBS,
    EXACT_KL,
)
VACUOUS = "kl_hyper is of the order of n_clients, or sum_kl of all samples together"
meta_catalogued = partial(
    catalogued,
    family="meta-learning",
    population="unseen-client",
    predictor="gibbs",
    sampling="iid",
)


def _client_term(kl_hyper: Array, n: Array, delta: Array, variant: str) -> Array:
    factor = 4.0 if variant == "maurer" else 2.0
    exponent = n - 1.0 if variant == "subgauss" else n
    budget = kl_hyper + np.log(factor) + 0.5 * np.log(n) - np.log(delta)
    return np.asarray(np.sqrt(budget / (2.0 * exponent)))


def _sample_term(sum_kl: Array, total: Array, grid: Array, delta: Array) -> Array:
    budget = sum_kl + np.log(2.0) + np.log(grid) - np.log(delta) + 1.0
    return np.asarray(np.sqrt(budget / (2.0 * total)))


def root_bound(
    name: str,
    empirical_risk: ArrayLike,
    nats: tuple[Array, Array],
    n: Array,
    samples: tuple[Array, Array],
    delta: ArrayLike,
    loss_max: ArrayLike,
    variant: str,
) -> Certificate:
    """Return a square-root bound of n clients.

    ``nats`` holds the KL of the hyper-posterior and the sum of the clients' KL; ``samples`` the
    number of all clients' samples and the length of the grid 1, 2, ... that the rate is taken from.
    """
    risk, scale = unit_risk(empirical_risk, loss_max)
    failure = failure_probability("delta", delta)
    (kl_hyper, sum_kl), (total, grid) = nats, samples
    made = summed(
        name,
        terms={
            "empirical_risk": scale * risk,
            "clients": scale * _client_term(kl_hyper, n, failure, variant),
            "samples": scale * _sample_term(sum_kl, total, grid, failure),
        },
        delta={"clients": failure / 2.0, "samples": failure / 2.0},
        scale=scale,
    )
    if variant != "printed" or bool(np.all(n >= 3)):
        return made
    reason = "the printed constant has no proof for fewer than 3 clients"
    return replace(made, rigorous=False, reason=reason)


def client_count(n_clients: ArrayLike, variant: str) -> Array:
    """Return the number of clients as floats, at least 2 where the variant divides by n - 1."""
    minimum = 2 if variant == "subgauss" else 1
    return count("n_clients", n_clients, minimum=minimum).astype(np.float64)


def equal_total(n: Array, n_samples: ArrayLike) -> tuple[Array, Array]:
    """Return the samples of n clients with ``n_samples`` each, and the length of the grid."""
    total = np.asarray(n * count("n_samples", n_samples))
    return total, np.asarray(4.0 * total)


@meta_catalogued(
    claim="Risk of the system on a new client, from the seen clients' own samples.",
    source="PeFLL (ICLR 2024), Theorem B.1; arXiv v1, Theorem 4.1",
    assumptions=(*ASSUMED, EQUAL),
    vacuous_when=VACUOUS,
)
def pefll_b1(
    *,
    empirical_risk: ArrayLike,
    kl_hyper: ArrayLike,
    sum_kl: ArrayLike,
    n_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
    variant: str = "maurer",
) -> Certificate:
    r"""Bound new clients' Gibbs risk of a system that maps a data set to a model.

    .. math:: \hat r + M\sqrt{\frac{K_h + \ln(k\sqrt n/\delta)}{2 n'}}
              + M\sqrt{\frac{S + \ln(8nm/\delta) + 1}{2nm}}

    ``variant`` sets (k, n'): ``maurer`` (4, n) is what the quoted lemma gives at delta / 2,
    ``printed`` (2, n) is the paper's constant, true for n >= 3, ``subgauss`` (2, n - 1) is proved
    for n >= 2.

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
    kl_hyper, sum_kl : array_like, at least 0, nats
    n_clients, n_samples : array_like of int, at least 1
        Clients, and samples of each client.
    delta : array_like, in (0, 1)
        Half is spent on the draw of clients, half on their samples.
    loss_max : float, positive
    variant : {"maurer", "printed", "subgauss"}

    Examples
    --------
    >>> bound = pefll_b1(
    ...     empirical_risk=0.1, kl_hyper=8, sum_kl=300, n_clients=200, n_samples=100, delta=0.05
    ... )
    >>> round(float(bound), 10)
    0.3827293063
    """
    one_of("variant", variant, VARIANTS)
    n = client_count(n_clients, variant)
    nats = nonnegative("kl_hyper", kl_hyper), nonnegative("sum_kl", sum_kl)
    samples = equal_total(n, n_samples)
    return root_bound("pefll_b1", empirical_risk, nats, n, samples, delta, loss_max, variant)


@meta_catalogued(
    claim="Risk of PeFLL on a client it never saw, from the norms of its Gaussian posteriors.",
    source="PeFLL (ICLR 2024), Theorem 3.2",
    assumptions=(
        CLIENTS,
        "priors are centred Gaussians with the posteriors' own variances, all fixed beforehand",
        "empirical_risk draws hypernetwork, encoder and client model from their Gaussians: the "
        "theorem as printed drops the last draw",
        "theta_squared holds means over the hyper-posterior or upper bounds of them: a "
        "Monte-Carlo average is no certificate",
        "losses in [0, loss_max]; descriptors use the client's whole data set",
    ),
    vacuous_when="the weights are many or far from 0, as for every real hypernetwork",
)
def pefll_32(
    *,
    empirical_risk: ArrayLike,
    eta_h_squared: ArrayLike,
    alpha_h: ArrayLike,
    eta_v_squared: ArrayLike,
    alpha_v: ArrayLike,
    theta_squared: ArrayLike,
    alpha_theta: ArrayLike,
    delta: ArrayLike,
    n_samples: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    loss_max: ArrayLike = 1.0,
    variant: str = "maurer",
) -> Certificate:
    r"""Bound new clients' Gibbs risk of stochastic PeFLL.

    :func:`pefll_b1` with :math:`K_h = \|\eta_h\|^2/2\alpha_h + \|\eta_v\|^2/2\alpha_v` and
    :math:`S = \sum_i \|\theta_i\|^2/2\alpha_\theta`.

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
        Gibbs risk: all three sets of weights are drawn.
    eta_h_squared, eta_v_squared : array_like, at least 0
        Squared norms of the posterior's mean, of hypernetwork and encoder.
    theta_squared : array_like, shape [..., n], at least 0
        Squared norm of the posterior's mean generated for each of n clients.
    alpha_h, alpha_v, alpha_theta, delta : array_like, positive
        Variances of the Gaussians; failure probability, below 1.
    n_samples, sizes : array_like of int, at least 1
        Samples: ``n_samples`` of each client, or ``sizes`` ``[..., n]``, client by client, used
        through their harmonic mean.
    loss_max, variant
        As for :func:`pefll_b1`.

    Examples
    --------
    >>> bound = pefll_32(
    ...     empirical_risk=0.1, eta_h_squared=30.0, alpha_h=1.0, eta_v_squared=4.0, alpha_v=0.5,
    ...     theta_squared=[1.0, 2.5, 0.0], alpha_theta=0.25, n_samples=50, delta=0.1,
    ... )
    >>> round(float(bound), 10)
    2.3087828649
    """
    one_of("variant", variant, VARIANTS)
    theta = nonnegative("theta_squared", theta_squared)
    n = client_count(per_client("theta_squared", theta), variant)
    samples = _samples(theta, n, n_samples, sizes)
    hyper = gaussian_nats("eta_h_squared", eta_h_squared, "alpha_h", alpha_h)
    encoder = gaussian_nats("eta_v_squared", eta_v_squared, "alpha_v", alpha_v)
    clients = gaussian_nats("theta_squared", theta.sum(axis=-1), "alpha_theta", alpha_theta)
    nats = np.asarray(hyper + encoder), clients
    return root_bound("pefll_32", empirical_risk, nats, n, samples, delta, loss_max, variant)


def _samples(
    theta: Array, n: Array, n_samples: ArrayLike | None, sizes: ArrayLike | None
) -> tuple[Array, Array]:
    """Return all clients' samples, from one number or one per client, and the grid's length."""
    if (n_samples is None) == (sizes is None):
        raise ValueError("n_samples or sizes must be given, and not both")
    if sizes is not None:
        same_length(theta_squared=theta, sizes=client_sizes(sizes))
        return harmonic_total(sizes)
    return equal_total(n, n_samples if n_samples is not None else 0)


_ASSUMED = (
    CLIENTS,
    LEARNED,
    GIBBS,
    "the clients' KL are exact means over the hyper-posterior or upper bounds of them",
)


@meta_catalogued(
    claim="Risk on a new client with a learned prior: the first bound of its kind.",
    source="Pentina and Lampert (ICML 2014), Theorem 1",
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
    risk, scale = unit_risk(empirical_risk, loss_max)
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


@meta_catalogued(
    claim="Risk on a new client with a learned prior, both rates fixed in advance.",
    source="this project; in the shape of Rothfuss et al. (2021), Theorem 2",
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
    risk, scale = unit_risk(empirical_risk, loss_max)
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


@meta_catalogued(
    claim="Risk on a new client with a learned prior, one square root per client.",
    source="Amit and Meir (ICML 2018), Theorem 2",
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
    risk, scale = unit_risk(empirical_risk, loss_max)
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


@meta_catalogued(
    claim="Risk on a new client with a learned prior, one joint square root.",
    source=(
        "form in the code of Zakerinia et al. (ICML 2024), after Rezazadeh (2022); proved here "
        "from Amit and Meir (2018) by Cauchy-Schwarz"
    ),
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
    risk, scale = unit_risk(empirical_risk, loss_max)
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
