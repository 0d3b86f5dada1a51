"""Clients that keep arriving: certificates that hold after each of them, and alarms of drift.

If the mean score is R, (1 - L_t) / (1 - R) has mean 1 whatever came before: the products of these
factors are a martingale, and so is a fixed mixture of prod(1 - b (L_t - R)).  By Ville's inequality
such wealth passes 1/delta at *any* time with probability at most delta, so that the certificate may
be read after every client, and one may stop at any time.  R does not change: a bound that held
after some client holds after all later ones, hence the running minimum.

A bet b on a client's score L against the threshold c multiplies a stake by 1 + b (L - c)/c, which
is never negative and has mean at most 1 as long as new clients score at most c on average, whatever
came before them.  Stakes grow when new clients score more.  Values are rounded down, so that
rounding cannot raise an alarm.
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
    mean_catalogued,
)
from latecomer.bounds.held_out.losses import loss_logs

__all__ = [
    "BETS",
    "betting_mixture_path",
    "drift_evidence",
    "drift_evidence_restarted",
    "product_mixture_path",
    "product_path",
]

_EPS = float(np.finfo(np.float64).eps)
_ARRIVING = (
    "the model, the rule and delta were fixed before the first score was seen; when to look and "
    "when to stop need not be",
    "one score in [0, loss_max] per client, clients i.i.d., in the order in which they arrive and "
    "none of them left out",
    "not for a finite pool, where what a new client can be expected to score hangs on who came "
    "before (product_wor, betting_wor), nor once the clients' law changes (drift_evidence)",
)


@mean_catalogued(
    claim="Mean client score after every arriving client, for all times at once, by the product.",
    source="this project: the product rule's factors are a martingale; Ville's inequality",
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
    scores, failure, top = checks.scored(losses, delta, loss_max)
    seen = np.arange(1, scores.shape[-1] + 1)
    spent = np.cumsum(loss_logs(scores, top), axis=-1) - np.log(failure)[..., None]
    # A running sum of t terms of one sign is off by at most t roundings, relative.
    exponent = rounded_up(spent / seen * (1.0 + (seen + 8) * _EPS))
    value = np.minimum.accumulate(scaled_up(-np.expm1(-exponent), top), axis=-1)
    return _path("product_path", scores, value, failure, top)


@mean_catalogued(
    claim="Mean client score after every arriving client, for all times at once, by a mixture of "
    "bets.",
    source="this project: mixtures of fixed bets are martingales; Ville's inequality",
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
    scores, failure, top = checks.scored(losses, delta, loss_max)
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


@mean_catalogued(
    claim="Mean client score after every arriving client, for all times at once, by a mixture of "
    "products.",
    source="this project: prod (1 - b L_i) / (1 - b R) are martingales; Ville's inequality",
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
    scores, failure, top = checks.scored(losses, delta, loss_max)
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


BETS = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Large bets are for even scores, small bets for widely spread ones."""
_LARGEST = float(np.finfo(np.float64).max)
_STEEPEST = 1e300  # of a score to its threshold; lowering it is safe
_AT_MOST = (
    "what is tested: every new client's expected score, given all clients before it, is at most "
    "the threshold; clients need be neither independent nor alike",
    "threshold, bets and level of the alarm were fixed before the first score was seen",
    "scores are at least 0, in the order of arrival, and no client is left out",
)


@catalogued(
    family="hold-out",
    claim="Evidence after every arriving client that new clients score above a threshold.",
    source="this project: a mixture of bets against the threshold; Ville's inequality",
    assumptions=_AT_MOST,
    vacuous_when="for a change that comes late: what the bets lost before it must be won back "
    "(drift_evidence_restarted forgets it)",
)
def drift_evidence(
    *,
    losses: ArrayLike,
    threshold: ArrayLike,
    bets: ArrayLike = BETS,
    loss_max: float = 1.0,
) -> Array:
    r"""Mean over bets b of prod_{i<=t} (1 + b (L_i - c)/c), after every client t.

    As long as each client's expected score given those before it is at most c, every factor has
    mean at most 1 and their products, and the products' mean, are supermartingales that start at 1.
    By Ville's inequality the probability that an alarm at 1/alpha is ever raised is at most alpha,
    over an endless stream.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, loss_max]
        In the order of their arrival.
    threshold : array_like
        Expected score c up to which nothing is wrong, strictly between 0 and ``loss_max``;
        broadcasts with the leading axes.
    bets : array_like
        Stakes b in (0, 1], one or more; 1 stakes everything on every client.
    loss_max : float, positive

    Returns
    -------
    ndarray
        The leading axes broadcast with ``threshold``, then k.

    Examples
    --------
    >>> evidence = drift_evidence(losses=[0.5, 0.6, 0.4, 0.7], threshold=0.2, bets=[0.25, 0.5])
    >>> evidence.round(4).tolist()
    [1.5625, 2.7812, 3.9141, 8.001]
    """
    ratios, stakes = _checked(losses, threshold, bets, loss_max)
    seen = np.arange(1, ratios.shape[-1] + 1)
    each = []
    for bet in stakes:
        with np.errstate(divide="ignore"):
            gains = np.log((1.0 - bet) + bet * ratios)
        # Logarithms are accurate to a few units of argument and value, each partial sum to one.
        error = _EPS * (seen + 4) * (5.0 + 2.0 * np.cumsum(np.abs(gains), axis=-1))
        each.append(np.cumsum(gains, axis=-1) - error)
    mixed = np.logaddexp.reduce(np.stack(each), axis=0) - np.log(stakes.size)
    with np.errstate(over="ignore"):
        value = np.exp(mixed - 16.0 * _EPS * (1.0 + np.abs(mixed)))
    return np.asarray(np.minimum(value, _LARGEST))


@catalogued(
    family="hold-out",
    claim="The same, restarted at every client: for a change at a time that nobody knows.",
    source="Shiryaev-Roberts as an e-detector, Shin, Ramdas and Rinaldo 2023; bets as in "
    "drift_evidence",
    assumptions=_AT_MOST,
    vacuous_when="as a probability over an endless stream: some false alarm comes in the end, on "
    "average not before as many clients as the level says",
)
def drift_evidence_restarted(
    *,
    losses: ArrayLike,
    threshold: ArrayLike,
    bets: ArrayLike = BETS,
    loss_max: float = 1.0,
) -> Array:
    r"""After every client the mean over bets b of S_t = (1 + S_{t-1}) (1 + b (L_t - c)/c), S_0 = 0.

    S_t sums the products of :func:`drift_evidence` started at every client up to t.  As long as
    each client's expected score given those before it is at most c, S_t - t is a supermartingale:
    an alarm at level A comes on average after at least A clients, and among the first n with
    probability at most n/A.

    Parameters
    ----------
    losses, threshold, bets, loss_max
        As for :func:`drift_evidence`.

    Returns
    -------
    ndarray
        One value after every client, shaped as in :func:`drift_evidence`.

    Examples
    --------
    >>> evidence = drift_evidence_restarted(losses=[0.5, 0.6, 0.4], threshold=0.2, bets=[0.5])
    >>> evidence.round(4).tolist()
    [1.75, 5.5, 9.75]
    """
    ratios, stakes = _checked(losses, threshold, bets, loss_max)
    value = np.empty(ratios.shape)
    running = np.zeros((*ratios.shape[:-1], stakes.size))
    for seen in range(ratios.shape[-1]):
        factor = (1.0 - stakes) + stakes * ratios[..., seen, None]
        with np.errstate(over="ignore"):
            running = np.minimum((1.0 + running) * factor, _LARGEST / stakes.size)
        value[..., seen] = running.mean(axis=-1)
    # All terms are positive: each client adds at most five roundings, relative.
    roundings = 8.0 * (np.arange(1, ratios.shape[-1] + 1) + stakes.size)
    return np.asarray(value * (1.0 - roundings * _EPS))


def _checked(
    losses: ArrayLike, threshold: ArrayLike, bets: ArrayLike, loss_max: float
) -> tuple[Array, Array]:
    """Return the scores divided by the threshold, and the bets."""
    top = checks.largest_loss("loss_max", loss_max)
    scores = checks.losses_in("losses", losses, loss_max=top)
    limit = checks.between("threshold", threshold, 0.0, top)
    stakes = checks.interval("bets", bets, 0.0, 1.0)
    if stakes.ndim != 1 or stakes.size == 0 or stakes.min() == 0.0:
        raise ValueError(f"bets must list one number or more in (0, 1], got bets={stakes.tolist()}")
    with np.errstate(over="ignore"):
        ratios = np.minimum(scores / limit[..., None], _STEEPEST)
    return np.asarray(ratios), stakes
