"""Bounds that pay for the length of a code: quantised systems and quantised clients' models.

Codes are prefix codes fixed beforehand, with lengths in bits; the predictor is the decoded,
deterministic one.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import (
    Array,
    Certificate,
    catalogued,
    priced,
    rounded_up,
    scaled_up,
)
from latecomer.bounds.checks import (
    count,
    failure_probability,
    largest_loss,
    losses_in,
    nonnegative,
)
from latecomer.bounds.unit_scale import kl_priced, per_client, unit_risk

__all__ = ["aid_fast", "aid_occam", "occam_client", "occam_product"]

_EQUAL = (
    "samples are drawn independently within and between the given clients, equally many each: "
    "for unequal clients n_samples is the smallest number"
)
_CODE = "the prefix codes were fixed before the data was seen"
_CODED = (
    "every client score is taken on points that the client's model was not generated from",
    "bits is the whole length of a prefix code fixed beforehand, its reference point made "
    "without these clients",
    "the certified system is run with the support size the scores used",
    "clients are independent draws of one environment, or a uniform sample without "
    "replacement from a pool that the code's reference point did not use",
)
_AID_VACUOUS = "the code is longer than about as many bits as there are samples together"


def _aid(
    name: str,
    fast: bool,
    empirical_risk: ArrayLike,
    bits_shared: ArrayLike,
    bits_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike,
) -> Certificate:
    unit, scale = unit_risk(empirical_risk, loss_max)
    each = nonnegative("bits_clients", bits_clients)
    total = per_client("bits_clients", each) * count("n_samples", n_samples).astype(np.float64)
    failure = failure_probability("delta", delta)
    bits = nonnegative("bits_shared", bits_shared) + each.sum(axis=-1)
    log_moment: Array = np.asarray(np.log(2.0) + 0.5 * np.log(total) if fast else 0.0 * total)
    budget = (bits * np.log(2.0) + log_moment - np.log(failure)) / total
    return kl_priced(name, unit, budget, {"samples": failure}, scale)


@catalogued(
    family="multi-task",
    claim="Mean risk of seen clients whose models are quantised over a shared learned subspace.",
    source="this project; in the shape of amortised intrinsic dimension (arXiv 2501.19067)",
    population="seen-clients",
    predictor="deterministic",
    sampling="iid",
    assumptions=(_EQUAL, _CODE),
    vacuous_when=_AID_VACUOUS,
)
def aid_fast(
    *,
    empirical_risk: ArrayLike,
    bits_shared: ArrayLike,
    bits_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound the seen clients' mean risk, with the code as a PAC-Bayes prior.

    .. math:: kl^{-1}\Bigl(\hat r \Bigm|
              \tfrac{(b_0 + \sum_i b_i)\ln 2 + \ln(2\sqrt{nm}/\delta)}{nm}\Bigr)

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
    bits_shared : array_like, at least 0
        Code length of the part that all clients share.
    bits_clients : array_like, shape [..., n], at least 0
        Code length of each client's own part.
    n_samples : array_like of int, at least 1
        Samples of each client.
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> bound = aid_fast(
    ...     empirical_risk=0.05, bits_shared=2000, bits_clients=[50] * 20, n_samples=1000,
    ...     delta=0.05,
    ... )
    >>> round(float(bound), 6)
    0.210984
    """
    return _aid(
        "aid_fast", True, empirical_risk, bits_shared, bits_clients, n_samples, delta, loss_max
    )


@catalogued(
    family="multi-task",
    claim="As aid_fast, by a union over codes: strictly better for one fixed code word.",
    source="this project; Chernoff's bound and a union over a prefix code",
    population="seen-clients",
    predictor="deterministic",
    sampling="iid",
    assumptions=(_EQUAL, _CODE),
    vacuous_when=_AID_VACUOUS,
)
def aid_occam(
    *,
    empirical_risk: ArrayLike,
    bits_shared: ArrayLike,
    bits_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound the seen clients' mean risk.

    .. math:: kl^{-1}\Bigl(\hat r \Bigm|
              \tfrac{(b_0 + \sum_i b_i)\ln 2 + \ln(1/\delta)}{nm}\Bigr)

    Parameters
    ----------
    empirical_risk, bits_shared, bits_clients, n_samples, delta, loss_max
        As for :func:`aid_fast`.

    Examples
    --------
    >>> bound = aid_occam(
    ...     empirical_risk=0.05, bits_shared=2000, bits_clients=[50] * 20, n_samples=1000,
    ...     delta=0.05,
    ... )
    >>> round(float(bound), 4)
    0.2107
    """
    return _aid(
        "aid_occam", False, empirical_risk, bits_shared, bits_clients, n_samples, delta, loss_max
    )


@catalogued(
    family="new clients",
    claim="Risk on a new client of a quantised system, uniformly over all codes of its length.",
    source="this project (route R5); Chernoff's bound and a union over a prefix code",
    population="unseen-client",
    predictor="deterministic",
    sampling="iid or finite-pool",
    assumptions=_CODED,
    vacuous_when="bits exceeds about n_clients",
)
def occam_client(
    *,
    empirical_risk: ArrayLike,
    bits: ArrayLike,
    n_clients: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound new clients' risk: :math:`kl^{-1}(\hat s \mid (b\ln 2 + \ln(1/\delta))/n)`.

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
        Mean client score.
    bits : array_like, at least 0
        Length of the code of the system.
    n_clients : array_like of int, at least 1
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> bound = occam_client(empirical_risk=0.09, bits=100, n_clients=3237, delta=0.05)
    >>> round(float(bound), 8)
    0.16243548
    """
    unit, scale = unit_risk(empirical_risk, loss_max)
    n = count("n_clients", n_clients).astype(np.float64)
    failure = failure_probability("delta", delta)
    budget = (nonnegative("bits", bits) * np.log(2.0) - np.log(failure)) / n
    return kl_priced("occam_client", unit, budget, {"clients": failure}, scale)


@catalogued(
    family="new clients",
    claim="As occam_client by the product of one minus the scores: better for low or even scores.",
    source="this project (route R5); Markov's inequality for the product, a union over a prefix "
    "code",
    population="unseen-client",
    predictor="deterministic",
    sampling="iid or finite-pool",
    assumptions=_CODED,
    vacuous_when="bits exceeds about n_clients, or a score is loss_max",
)
def occam_product(
    *, losses: ArrayLike, bits: ArrayLike, delta: ArrayLike, loss_max: ArrayLike = 1.0
) -> Certificate:
    r"""Bound new clients' risk: :math:`1 - (\delta 2^{-b} \prod_i (1 - L_i))^{1/k}`.

    Losses are divided by ``loss_max`` first, and the value is multiplied by it.

    A code word is a fixed system, whose scores are independent draws or a uniform sample of a pool:
    :math:`\prod_i (1-L_i)` has mean at most :math:`(1-R)^k`, so that
    :func:`latecomer.bounds.held_out.losses.product` holds for it with probability
    :math:`1 - \delta 2^{-b}`; by Kraft's inequality all words together fail with
    probability :math:`\delta` at most.

    Parameters
    ----------
    losses : array_like, in [0, loss_max]
        Scores, shape [..., k], clients last.
    bits : array_like, at least 0
        Length of the code of the system; broadcasts with the leading axes.
    delta : array_like, in (0, 1)
        Broadcasts with the leading axes.
    loss_max : float, positive

    Examples
    --------
    >>> round(float(occam_product(losses=[0.1, 0.2] * 15, bits=10, delta=0.05)), 6)
    0.390526
    """
    scale = largest_loss("loss_max", loss_max)
    scores = losses_in("losses", losses, loss_max=scale)
    failure = failure_probability("delta", delta)
    price = nonnegative("bits", bits) * np.log(2.0) - np.log(failure)
    with np.errstate(divide="ignore"):
        level = -np.log1p(-scores / scale).sum(axis=-1)
    exponent = rounded_up((price + level) / scores.shape[-1])
    value = scaled_up(-np.expm1(-exponent), scale)
    risk = scores.mean(axis=-1)
    return priced("occam_product", value, risk, {"clients": failure}, scale, part="clients")
