"""Bounds from data that played no part in training: one sample, held-out clients, two models.

Read ``empirical_risk`` over ``n_samples`` losses either as one client's samples (the certificate
is about that client) or as one score per held-out client (then it is about new clients).
``losses`` has the clients on its last axis; leading axes are separate problems.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.binary_kl import kl_inverse_upper
from latecomer.bounds.certificate import (
    Array,
    Certificate,
    catalogued,
    priced,
    rounded_up,
    scaled_up,
)
from latecomer.bounds.held_out.betting import (
    BET_WEIGHTS,
    mean_catalogued,
    product_mixture,
)
from latecomer.bounds.unit_scale import summed

__all__ = ["chernoff_kl", "emp_bernstein", "hoeffding", "mean_difference", "product"]


def loss_logs(scores: Array, top: float) -> Array:
    """Return -ln(1 - L/loss_max), accurate to a few roundings near 0 and near loss_max."""
    with np.errstate(divide="ignore"):
        high = -np.log((top - scores) / top)
        low = -np.log1p(-np.minimum(scores / top, 0.5))
    return np.where(scores > 0.5 * top, high, low)


_FIXED = (
    "the model, the rule, its order and how many losses to take were fixed before the first of "
    "these losses was seen"
)
_WHOSE = (
    "one client's samples make it about that client, one score per held-out client about new "
    "clients, never the pooled samples of several clients"
)
_MEAN = (
    _FIXED,
    "losses lie in [0, loss_max] and are independent, or a uniform sample without replacement from "
    "a finite pool, whose mean is then what is bounded",
    _WHOSE,
)


@catalogued(
    family="hold-out",
    claim="Mean loss plus a width that knows only the number of losses.",
    source="Hoeffding 1963, Theorems 1 and 4",
    population="one-client",
    predictor="any",
    sampling="iid or finite-pool",
    assumptions=_MEAN,
    vacuous_when="n_samples is at most ln(1/delta)/2, whatever the losses: one loss at delta .05",
)
def hoeffding(
    *, empirical_risk: ArrayLike, n_samples: ArrayLike, delta: ArrayLike, loss_max: float = 1.0
) -> Certificate:
    """Risk at most r + loss_max sqrt(ln(1/delta) / (2 n)), with probability 1 - delta.

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
        Mean loss r.
    n_samples : array_like of int, at least 1
        Number n of losses.
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> cert = hoeffding(empirical_risk=0.08, n_samples=200, delta=0.05)
    >>> round(float(cert), 10)
    0.1665409191
    """
    top = checks.largest_loss("loss_max", loss_max)
    risk = checks.interval("empirical_risk", empirical_risk, 0.0, top)
    n = checks.count("n_samples", n_samples)
    failure = checks.failure_probability("delta", delta)
    width = top * np.sqrt(-np.log(failure) / (2.0 * n))
    terms = {"empirical_risk": risk, "price": width}
    return summed("hoeffding", terms=terms, delta={"samples": failure}, scale=top)


@catalogued(
    family="hold-out",
    claim="Inverted binary relative entropy of the mean loss: Hoeffding's bound without its slack.",
    source="Hoeffding 1963; Langford 2005; non-identical losses by Bernoulli majorisation",
    population="one-client",
    predictor="any",
    sampling="iid or finite-pool",
    assumptions=_MEAN,
    vacuous_when="only where the mean loss is loss_max, yet at best 1 - delta^(1/n): .95 for one "
    "loss at delta .05",
)
def chernoff_kl(
    *, empirical_risk: ArrayLike, n_samples: ArrayLike, delta: ArrayLike, loss_max: float = 1.0
) -> Certificate:
    """Risk at most kl^-1(r | ln(1/delta) / n), rounded up, with probability 1 - delta.

    Losses need not be 0/1 nor identically distributed (then the mean of their means is bounded).

    Parameters
    ----------
    empirical_risk, n_samples, delta, loss_max
        As for :func:`hoeffding`.

    Examples
    --------
    >>> cert = chernoff_kl(empirical_risk=0.08, n_samples=200, delta=0.05)
    >>> round(float(cert), 10)
    0.1352668477
    """
    top = checks.largest_loss("loss_max", loss_max)
    risk = checks.interval("empirical_risk", empirical_risk, 0.0, top)
    n = checks.count("n_samples", n_samples)
    failure = checks.failure_probability("delta", delta)
    unit = kl_inverse_upper(risk / top, rounded_up(-np.log(failure) / n))
    value = scaled_up(unit, top)
    return priced("chernoff_kl", value, risk, {"samples": failure}, top)


@catalogued(
    family="hold-out",
    claim="Mean loss plus a width that shrinks with the observed variance.",
    source="Maurer and Pontil 2009, Theorem 4",
    population="one-client",
    predictor="any",
    sampling="iid",
    assumptions=(_FIXED, "losses lie in [0, loss_max] and are i.i.d.", _WHOSE),
    vacuous_when="n_samples - 1 is at most 7 ln(2/delta)/3, whatever the losses: 9 losses at "
    "delta .05",
)
def emp_bernstein(
    *,
    empirical_risk: ArrayLike,
    variance: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    loss_max: float = 1.0,
) -> Certificate:
    """Risk at most r + sqrt(2 V ln(2/delta) / n) + 7 loss_max ln(2/delta) / (3 (n - 1)).

    Parameters
    ----------
    empirical_risk : array_like, in [0, loss_max]
        Mean loss r.
    variance : array_like
        Unbiased sample variance V (divided by n - 1), at most loss_max^2 n / (4 (n - 1)).
    n_samples : array_like of int, at least 2
        Number n of losses.
    delta : array_like, in (0, 1)
        Half is spent on the variance.
    loss_max : float, positive

    Examples
    --------
    >>> cert = emp_bernstein(empirical_risk=0.08, variance=0.0736, n_samples=200, delta=0.05)
    >>> round(float(cert), 10)
    0.1753590014
    """
    top = checks.largest_loss("loss_max", loss_max)
    risk = checks.interval("empirical_risk", empirical_risk, 0.0, top)
    n = checks.count("n_samples", n_samples, minimum=2)
    spread = checks.sample_variance("variance", variance, n, top) / top / top
    failure = checks.failure_probability("delta", delta)
    log_term = np.log(2.0 / failure)
    by_variance = top * np.sqrt(2.0 * spread * log_term / n)
    by_range = 7.0 * top * log_term / (3.0 * (n - 1))
    return summed(
        "emp_bernstein",
        terms={"empirical_risk": risk, "variance": by_variance, "range": by_range},
        delta={"samples": failure / 2.0, "variance": failure / 2.0},
        scale=top,
    )


@mean_catalogued(
    claim="Mean client score bounded through the product of one minus the scores.",
    source="this project: Markov's inequality for prod (1 - L), negative association without "
    "replacement",
    sampling="iid or finite-pool",
    assumptions=(
        "the model, the rule and the number of clients were fixed before the first score was seen",
        "one score in [0, loss_max] per held-out client",
        "clients i.i.d., or a uniform sample without replacement from a finite pool whose mean is "
        "then what is bounded, or scores whose conditional means drift, whose average it is then",
    ),
    vacuous_when="a single score reaches loss_max, and weak beside `wsr` for widely spread "
    "scores or more than about 150 clients",
)
def product(*, losses: ArrayLike, delta: ArrayLike, loss_max: float = 1.0) -> Certificate:
    """Risk at most 1 - (delta prod(1 - L_i))^(1/k), for losses divided by ``loss_max``.

    Needs no tuning and does not depend on the clients' order; never above ``loss_max``.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, loss_max]
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> round(float(product(losses=[0.1] * 30, delta=0.05)), 10)
    0.1855304676
    """
    scores, failure, top = checks.scored(losses, delta, loss_max)
    with np.errstate(divide="ignore"):
        # A quotient just below 1 has lost what is left of 1; at loss_max 1 nothing is divided.
        logs = np.log1p(-scores) if top == 1.0 else -loss_logs(scores, top)
    exponent = rounded_up(-(np.log(failure) + logs.sum(axis=-1)) / scores.shape[-1])
    value = scaled_up(-np.expm1(-exponent), top)
    risk = scores.mean(axis=-1)
    return priced("product", value, risk, {"clients": failure}, top)


MONOTONE: dict[str, Callable[..., Certificate]] = {
    "product_mixture": partial(product_mixture, weights=BET_WEIGHTS),
    "product": product,
}
"""Bounds of a mean that never fall when a score rises."""
_EPS = float(np.finfo(np.float64).eps)


@mean_catalogued(
    claim="Mean difference of two models' scores over clients, bounded from above.",
    source="this project: a rule of the mean for (1 + A - B) / 2",
    sampling="iid or finite-pool",
    assumptions=(
        "both models, the rule and the number of clients were fixed before the first score was "
        "seen",
        "every held-out client has one score in [0, loss_max] of each model",
        "clients i.i.d., or a uniform sample without replacement from a finite pool whose mean "
        "difference is then what is bounded, in any order",
        "a lower bound of the same difference is another statement, with a delta of its own",
    ),
    vacuous_when="too few clients: the difference is then at most loss_max",
)
def mean_difference(
    *,
    losses: ArrayLike,
    other: ArrayLike,
    delta: ArrayLike,
    rule: str = "product_mixture",
    loss_max: float = 1.0,
) -> Certificate:
    """Mean of A - B at most loss_max (2 U(D) - 1), where D = (1 + (A - B) / loss_max) / 2.

    U is the bound of ``rule``: :func:`latecomer.bounds.held_out.betting.product_mixture` with
    ``BET_WEIGHTS``, or :func:`latecomer.bounds.held_out.losses.product`, which a single client with
    A - B = loss_max makes vacuous.  Below 0 it says that the first model serves clients better.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, loss_max]
        Scores A of the first model.
    other : array_like, shape [..., k], in [0, loss_max]
        Scores B of the second, of the same clients in the same order.
    delta : array_like, in (0, 1)
    rule : str
        ``product_mixture`` or ``product``.
    loss_max : float, positive

    Examples
    --------
    >>> better, worse = [0.1, 0.05, 0.2, 0.15, 0.1] * 20, [0.25, 0.3, 0.3, 0.25, 0.2] * 20
    >>> round(float(mean_difference(losses=better, other=worse, delta=0.05)), 3)
    -0.103
    """
    top = checks.largest_loss("loss_max", loss_max)
    mine = checks.losses_in("losses", losses, loss_max=top)
    theirs = checks.losses_in("other", other, loss_max=top)
    checks.same_length(losses=mine, other=theirs)
    failure = checks.failure_probability("delta", delta)
    bound = MONOTONE[checks.one_of("rule", rule, tuple(MONOTONE))]
    gap = mine - theirs
    # A difference and its half are rounded once each.
    unit = np.clip(0.5 * (1.0 + gap / top) + 2.0 * _EPS, 0.0, 1.0)
    limit = bound(losses=unit, delta=failure).value
    value = np.minimum(top * (2.0 * rounded_up(limit) - 1.0), top)
    return priced("mean_difference", value, gap.mean(axis=-1), {"clients": failure}, top)
