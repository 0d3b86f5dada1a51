"""The least price of a certificate, for any rule, and what the best rules are measured by.

Prices are exact up to rounding.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, catalogued, priced, rounded_up
from latecomer.bounds.held_out.betting import each_sample
from latecomer.bounds.held_out.counting import pool_fraction

__all__ = ["gaffke", "reference_price", "reference_price_pool"]


@catalogued(
    family="hold-out",
    claim="Least price of a certificate from equal scores, for any deterministic rule.",
    source="this project: a share 1 - delta^(1/k) of hopeless clients goes unseen with "
    "probability delta",
    assumptions=(
        "clients i.i.d.",
        "all k scores are equal, and the rule is deterministic: a randomised rule, or one made for "
        "other scores than equal ones, can pay less",
    ),
    vacuous_when="never: it says how far above the mean loss any valid bound must lie",
)
def reference_price(
    *, mean_loss: ArrayLike, n_clients: ArrayLike, delta: ArrayLike, loss_max: float = 1.0
) -> Array:
    """Price (1 - delta^(1/k)) (loss_max - e): on k equal scores e no deterministic rule pays less.

    If a share 1 - delta^(1/k) of the clients had loss ``loss_max`` and all others e, then k clients
    would show nothing but e with probability delta; a bound must cover the mean of that population.
    This says nothing of randomised rules, nor of scores that differ.

    Parameters
    ----------
    mean_loss : array_like
        Score e in [0, loss_max].
    n_clients : array_like
        Held-out clients k, at least 1.
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> round(float(reference_price(mean_loss=0.11, n_clients=30, delta=0.05)), 4)
    0.0846
    """
    top = checks.largest_loss("loss_max", loss_max)
    mean = checks.interval("mean_loss", mean_loss, 0.0, top)
    k = checks.count("n_clients", n_clients)
    failure = checks.failure_probability("delta", delta)
    return rounded_up(-np.expm1(np.log(failure) / k) * (top - mean))


@catalogued(
    family="hold-out",
    claim="Least price of a certificate of a finite pool from equal scores, for any deterministic "
    "rule.",
    source="this project: exact hypergeometric count of the hopeless clients that go unseen",
    assumptions=(
        "a uniform sample without replacement from the pool",
        "all k scores are equal, and the rule is deterministic",
    ),
    vacuous_when="never: it is 0 once the whole pool was sampled",
)
def reference_price_pool(
    *,
    n_clients: ArrayLike,
    pool_size: ArrayLike,
    delta: ArrayLike,
    mean_loss: ArrayLike = 0.0,
    loss_max: float = 1.0,
) -> Array:
    """Price (1 - e) b / N on k equal scores e, b the largest with C(N - b, k) / C(N, k) > delta.

    If b of the pool's N clients have the largest loss, a sample of k misses all of them with
    probability above delta, more often than a rule may fail: b / N is the finite counterpart of
    1 - delta^(1/k).  Those b clients add to the pool's mean that share times ``loss_max`` - e.

    Parameters
    ----------
    n_clients : array_like
        Sampled clients k, at least 1 and at most ``pool_size``.
    pool_size : array_like
        Clients N in the pool, the sampled ones included.
    delta : array_like, in (0, 1)
    mean_loss : array_like
        Score e in [0, loss_max]; at 0 the price is the share b / N itself.
    loss_max : float, positive

    Examples
    --------
    >>> float(reference_price_pool(n_clients=30, pool_size=40, delta=0.05))
    0.05
    >>> round(float(reference_price_pool(n_clients=30, pool_size=40, delta=0.05, mean_loss=0.2)), 4)
    0.04
    """
    k = checks.count("n_clients", n_clients)
    pool = checks.count("pool_size", pool_size)
    checks.at_most("n_clients", k, "pool_size", pool)
    failure = checks.failure_probability("delta", delta)
    top = checks.largest_loss("loss_max", loss_max)
    mean = checks.interval("mean_loss", mean_loss, 0.0, top)
    # A rule may fail with probability delta itself, so that a tie proves nothing.
    above = np.minimum(failure * (1.0 + 1e-10), np.nextafter(1.0, 0.0))
    bound = pool_fraction(n_exceeding=0, n_sampled=k, pool_size=pool, delta=above)
    return bound.value * (top - mean)


@catalogued(
    family="hold-out",
    claim="Quantile of the scores' mean under random weights, one of them on a score of 1.",
    source="Gaffke 2005; Learned-Miller and Thomas 2019",
    population="unseen-client",
    predictor="any",
    sampling="iid",
    assumptions=("clients i.i.d., one score in [0, 1] each",),
    vacuous_when="too few clients",
    rigorous=False,
    reason="that it covers the mean is a conjecture: a yardstick for rules, never a certificate",
)
def gaffke(*, losses: ArrayLike, delta: ArrayLike) -> Certificate:
    r"""(1 - delta)-quantile of :math:`\sum_i D_i L_i + D_{k+1}`, D uniform on the simplex.

    D has the law of k + 1 exponential numbers over their sum, so that
    :math:`P(\sum D_i z_i \le u) = P(\sum E_i (z_i - u) \le 0)`, which is found by integrating the
    characteristic function of the sum (Gil-Pelaez), to about 1e-9.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, 1]
    delta : array_like, in (0, 1)

    Examples
    --------
    >>> round(float(gaffke(losses=[0.1, 0.05, 0.2, 0.15, 0.1] * 8, delta=0.05)), 4)
    0.1849
    """
    scores, failure, _ = checks.scored(losses, delta)
    value = each_sample(_quantile, scores[..., None, :], failure)
    return priced("gaffke", value, scores.mean(axis=-1), {"clients": failure})


def _quantile(losses: Array, delta: float) -> float:
    ends = np.append(losses, 1.0)
    low = float(ends.min())
    if low == 1.0:
        return 1.0
    return float(
        scipy.optimize.brentq(lambda u: _below(ends - u) - (1.0 - delta), low + 1e-12, 1.0 - 1e-12)
    )


def _below(weights: Array) -> float:
    """P(sum E_i w_i <= 0) for independent exponential E_i."""
    scale = float(np.sqrt((weights**2).sum()))
    unit = weights / scale

    def integrand(t: float) -> float:
        angle = np.arctan(unit * t).sum()
        return float(np.sin(angle) * np.exp(-0.5 * np.log1p((unit * t) ** 2).sum()) / t)

    near, _ = scipy.integrate.quad(integrand, 0.0, 4.0, epsabs=1e-11, limit=400)
    far, _ = scipy.integrate.quad(integrand, 4.0, np.inf, epsabs=1e-11, limit=400)
    return 0.5 - (near + far) / np.pi
