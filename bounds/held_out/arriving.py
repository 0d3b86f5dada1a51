"""Certificates that hold after every client at once, for clients that keep arriving.

If the mean score is R, (1 - L_t) / (1 - R) has mean 1 whatever came before: the products of these
factors are a martingale, and so is a fixed mixture of prod(1 - b (L_t - R)).  By Ville's inequality
such wealth passes 1/delta at *any* time with probability at most delta, so that the certificate may
be read after every client, and one may stop at any time.  R does not change: a bound that held
after some client holds after all later ones, hence the running minimum.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import (
    Array,
    Certificate,
    catalogued,
    priced,
    rounded_up,
    scaled_up,
)
from latecomer.bounds.held_out.betting import (
    bet_weights,
    first_refused,
    fixed_bets,
    fixed_products_path,
)
from latecomer.bounds.held_out.losses import loss_logs

__all__ = ["betting_mixture_path", "product_mixture_path", "product_path"]

_EPS = float(np.finfo(np.float64).eps)
_ARRIVING = (
    "the model, the rule and delta were fixed before the first score was seen; when to look and "
    "when to stop need not be",
    "one score in [0, loss_max] per client, clients i.i.d., in the order in which they arrive and "
    "none of them left out",
    "not for a finite pool, where what a new client can be expected to score hangs on who came "
    "before (product_wor, betting_wor), nor once the clients' law changes (drift_evidence)",
)


@catalogued(
    family="hold-out",
    claim="Mean client score after every arriving client, for all times at once, by the product.",
    source="this project: the product rule's factors are a martingale; Ville's inequality",
    population="unseen-client",
    predictor="any",
    sampling="iid",
    assumptions=_ARRIVING,
    vacuous_when="never after a client with a score below loss_max, yet above 1 - delta^(1/t) "
    "after t clients; a score of loss_max ends its fall",
)
def product_path(*, losses: ArrayLike, delta: ArrayLike, loss_max: float = 1.0) -> Certificate:
    """After t clients min_{s<=t} of 1 - (delta prod_{i<=s} (1 - L_i))^(1/s), for all t together.

    prod_{i<=t} (1 - L_i) / (1 - R)^t has mean 1 and is a martingale when every client's mean score
    is R given those before it; with probability 1 - delta it never reaches 1/delta (Ville), and
    then R is below each of these values and so below the smallest so far.  All times cost no more
    than :func:`latecomer.bounds.held_out.losses.product` at one time.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, loss_max]
        In the order of their arrival.
    delta : array_like, in (0, 1)
        For all times together.
    loss_max : float, positive

    Returns
    -------
    Certificate
        The leading axes broadcast with ``delta``, then k: one value after every client.

    Examples
    --------
    >>> product_path(losses=[0.0, 1.0, 0.0], delta=0.05).value.round(4).tolist()
    [0.95, 0.95, 0.95]
    """
    top = checks.largest_loss("loss_max", loss_max)
    scores = checks.losses_in("losses", losses, loss_max=top)
    failure = checks.failure_probability("delta", delta)
    seen = np.arange(1, scores.shape[-1] + 1)
    spent = np.cumsum(loss_logs(scores, top), axis=-1) - np.log(failure)[..., None]
    # A running sum of t terms of one sign is off by at most t roundings, relative.
    exponent = rounded_up(spent / seen * (1.0 + (seen + 8) * _EPS))
    value = np.minimum.accumulate(scaled_up(-np.expm1(-exponent), top), axis=-1)
    return _path("product_path", scores, value, failure, top)


@catalogued(
    family="hold-out",
    claim="Mean client score after every arriving client, for all times at once, by a mixture of "
    "bets.",
    source="this project: mixtures of fixed bets are martingales; Ville's inequality",
    population="unseen-client",
    predictor="any",
    sampling="iid",
    assumptions=("n_bets was fixed beforehand as well", *_ARRIVING),
    vacuous_when="too few clients for any bet to win n_bets/delta",
)
def betting_mixture_path(
    *, losses: ArrayLike, delta: ArrayLike, n_bets: int = 10, loss_max: float = 1.0
) -> Certificate:
    """After t clients the smallest R against which the mixture of bets has ever passed 1/delta.

    W_s(R) = (1/J) sum_{j<J} prod_{i<=s} (1 - 2^-j (L_i - R)) is a martingale of mean 1 when every
    client's mean score is R given those before it, and grows with R: by Ville's inequality all R
    with max_{s<=t} W_s(R) > 1/delta can be refused at all times together.  The result is the
    running minimum of :func:`latecomer.bounds.held_out.betting.betting_mixture`.  The work grows
    with the square of the number of clients (some seconds for a thousand).

    Parameters
    ----------
    losses, delta
        As for :func:`product_path`.
    n_bets : int
        Number J of bets 1, 1/2, 1/4, ..., at least 1.
    loss_max : float, positive

    Returns
    -------
    Certificate
        The leading axes broadcast with ``delta``, then k: one value after every client.

    Examples
    --------
    >>> path = betting_mixture_path(losses=[0.1, 0.05, 0.2, 0.15, 0.1] * 8, delta=0.05)
    >>> path.value[[4, 19, 39]].round(4).tolist()
    [1.0, 0.4143, 0.2586]
    """
    top = checks.largest_loss("loss_max", loss_max)
    scores = checks.losses_in("losses", losses, loss_max=top)
    failure = checks.failure_probability("delta", delta)
    fixed = checks.at_once("n_bets", n_bets)
    unit = scores / top
    shape = np.broadcast_shapes(unit.shape[:-1], failure.shape)
    least, path = np.ones(shape), []
    for seen in range(1, unit.shape[-1] + 1):
        log_wealth = fixed_bets(unit[..., :seen], fixed)
        least = first_refused(log_wealth, np.zeros(shape), least, failure, seen)
        path.append(least)
    value = scaled_up(np.stack(path, axis=-1), top) if top != 1.0 else np.stack(path, axis=-1)
    return _path("betting_mixture_path", scores, value, failure, top)


@catalogued(
    family="hold-out",
    claim="Mean client score after every arriving client, for all times at once, by a mixture of "
    "products.",
    source="this project: prod (1 - b L_i) / (1 - b R) are martingales; Ville's inequality",
    population="unseen-client",
    predictor="any",
    sampling="iid",
    assumptions=("the weights of the bets were fixed beforehand as well", *_ARRIVING),
    vacuous_when="too few clients for any bet to win 1/delta by its own weight; never for good",
)
def product_mixture_path(
    *,
    losses: ArrayLike,
    delta: ArrayLike,
    n_bets: int | None = None,
    weights: ArrayLike | None = None,
    loss_max: float = 1.0,
) -> Certificate:
    """After t clients the smallest R that sum_b w_b prod_{i<=s} (1 - b L_i) / (1 - b R) refused.

    For every b the product is a martingale of mean 1 when every client's mean score is R given
    those before it, and so is their mixture: it never passes 1/delta with probability 1 - delta
    (Ville).  The result is the running minimum of
    :func:`latecomer.bounds.held_out.betting.product_mixture`.  Bets below 1 survive a score of
    ``loss_max``, after which the bound goes on falling.  The work grows with the number of clients.

    Parameters
    ----------
    losses, delta
        As for :func:`product_path`.
    n_bets, weights
        As for :func:`latecomer.bounds.held_out.betting.product_mixture`.
    loss_max : float, positive

    Returns
    -------
    Certificate
        The leading axes broadcast with ``delta``, then k: one value after every client.

    Examples
    --------
    >>> path = product_mixture_path(losses=[1.0] + [0.1] * 59, delta=0.05)
    >>> path.value[[0, 19, 39, 59]].round(4).tolist()
    [1.0, 0.3856, 0.2521, 0.2035]
    """
    top = checks.largest_loss("loss_max", loss_max)
    scores = checks.losses_in("losses", losses, loss_max=top)
    failure = checks.failure_probability("delta", delta)
    unit = mixture_after(scores / top, failure, bet_weights(n_bets, weights))
    value = np.minimum.accumulate(unit if top == 1.0 else scaled_up(unit, top), axis=-1)
    return _path("product_mixture_path", scores, value, failure, top)


def mixture_after(unit: Array, failure: Array, weights: Array, known: int = 0) -> Array:
    """Return what each time by itself refuses after every client beyond the first ``known``."""
    count = unit.shape[-1] - known
    zero = np.zeros((*np.broadcast_shapes(unit.shape[:-1], failure.shape), count))
    won = fixed_products_path(unit, weights, known)
    seen = np.arange(known + 1, unit.shape[-1] + 1)
    return first_refused(won, zero, zero + 1.0, failure[..., None], seen)


def _path(name: str, scores: Array, value: Array, failure: Array, top: float) -> Certificate:
    mean = np.cumsum(scores, axis=-1) / np.arange(1, scores.shape[-1] + 1)
    return priced(name, value, mean, {"clients": failure}, top)
