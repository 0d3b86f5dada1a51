"""Uniform convergence to new clients: Baxter's Theorem 2 and its inversion for epsilon.

Capacities are natural logarithms of the supremum, over measures, of the L1 covering number: of the
maps from a client's law to its best risk in a space, and of n-tuples of hypotheses from one space.
Sample sizes are returned as real numbers: round up. They are qualitative, as in ``seen_clients``.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds.certificate import Array, Certificate, catalogued
from latecomer.bounds.checks import (
    count,
    failure_probability,
    largest_loss,
    nonnegative,
    positive,
)
from latecomer.bounds.uniform_convergence.seen_clients import (
    FAMILY,
    FIXED,
    needed,
    smallest_epsilon,
)
from latecomer.bounds.unit_scale import summed, unit_risk

__all__ = ["baxter_eps_const", "baxter_thm2_eps", "baxter_thm2_m", "baxter_thm2_n"]

_ENVIRONMENT = "clients are drawn independently from one environment"
_BEST = "bounds the best hypothesis of a space for the new client, not a model that was generated"


@catalogued(
    family=FAMILY,
    claim="Clients that suffice for every hypothesis space's new clients' risk to be within eps.",
    source="Baxter (2000), Theorem 2, first condition",
    assumptions=(FIXED, _ENVIRONMENT, _BEST, "the capacity is taken at epsilon / 32"),
)
def baxter_thm2_n(
    *,
    log_capacity_clients: ArrayLike,
    epsilon: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Array:
    r"""Return :math:`\max\{256(\ln(8/\delta) + \ln C)/\epsilon^2,\ 64/\epsilon^2\}` clients.

    Parameters
    ----------
    log_capacity_clients : array_like, at least 0
        ln C(epsilon / 32, H*): maps from a client's law to the best risk in the space.
    epsilon : array_like, positive
        Deviation in units of the loss.
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> round(float(baxter_thm2_n(log_capacity_clients=20.0, epsilon=0.2, delta=0.05)))
    160481
    """
    eps = positive("epsilon", epsilon) / largest_loss("loss_max", loss_max)
    failure = failure_probability("delta", delta)
    capacity = nonnegative("log_capacity_clients", log_capacity_clients)
    clients = needed(np.log(8.0 / failure), capacity, eps, 256.0)
    return np.asarray(np.maximum(clients, 64.0 / np.square(eps)))


@catalogued(
    family=FAMILY,
    claim="Samples per client that, given enough clients, bring new clients' risk within eps.",
    source="Baxter (2000), Theorem 2, second condition",
    assumptions=(FIXED, _ENVIRONMENT, _BEST, "the capacity is taken at epsilon / 32"),
)
def baxter_thm2_m(
    *,
    log_capacity_samples: ArrayLike,
    n_clients: ArrayLike,
    epsilon: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Array:
    r"""Return :math:`\max\{256(\ln(8/\delta) + \ln C)/n\epsilon^2,\ 64/\epsilon^2\}` samples.

    Parameters
    ----------
    log_capacity_samples : array_like, at least 0
        ln C(epsilon / 32, H^n): n-tuples of hypotheses from one space.
    n_clients : array_like of int, at least 1
    epsilon : array_like, positive
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> needed = baxter_thm2_m(log_capacity_samples=5000.0, n_clients=100, epsilon=0.1, delta=0.05)
    >>> round(float(needed))
    1281299
    """
    eps = positive("epsilon", epsilon) / largest_loss("loss_max", loss_max)
    failure = failure_probability("delta", delta)
    capacity = nonnegative("log_capacity_samples", log_capacity_samples)
    n = count("n_clients", n_clients)
    samples = needed(np.log(8.0 / failure), capacity, eps, 256.0) / n
    return np.asarray(np.maximum(samples, 64.0 / np.square(eps)))


@catalogued(
    family=FAMILY,
    claim="New clients' deviation reached with the given clients and samples, fixed capacities.",
    source="Baxter (2000), Theorem 2, inverted by this project",
    population="unseen-client",
    predictor="deterministic",
    sampling="iid",
    assumptions=(FIXED, _ENVIRONMENT, _BEST, "the capacities do not depend on epsilon"),
    vacuous_when="n_clients is below some thousands, for any capacity",
)
def baxter_eps_const(
    *,
    log_capacity_clients: ArrayLike,
    log_capacity_samples: ArrayLike,
    n_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    empirical_risk: ArrayLike = 0.0,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    r"""Bound the best-in-space new clients' risk by ``empirical_risk`` + epsilon.

    .. math:: \epsilon = \max\Bigl\{\sqrt{\max(256(\ln\tfrac8\delta + c_*), 64)/n},\
              \sqrt{\max(256(\ln\tfrac8\delta + c_n)/n, 64)/m}\Bigr\}

    Parameters
    ----------
    log_capacity_clients, log_capacity_samples : array_like, at least 0
        :math:`c_*` and :math:`c_n`, the capacities of :func:`baxter_thm2_n` and
        :func:`baxter_thm2_m`.
    n_clients, n_samples : array_like of int, at least 1
    delta : array_like, in (0, 1)
    empirical_risk : array_like, in [0, loss_max]
        If left at 0, the value is the deviation alone.
    loss_max : float, positive

    Examples
    --------
    >>> bound = baxter_eps_const(
    ...     log_capacity_clients=10, log_capacity_samples=1000, n_clients=3237, n_samples=200,
    ...     delta=0.05,
    ... )
    >>> round(float(bound), 6)
    1.091892
    """
    scale = largest_loss("loss_max", loss_max)
    failure = failure_probability("delta", delta)
    n = count("n_clients", n_clients)
    m = count("n_samples", n_samples)
    log_factor = np.log(8.0 / failure)
    over_clients = nonnegative("log_capacity_clients", log_capacity_clients)
    over_samples = nonnegative("log_capacity_samples", log_capacity_samples)
    clients = np.sqrt(np.maximum(256.0 * (log_factor + over_clients), 64.0) / n)
    samples = np.sqrt(np.maximum(256.0 * (log_factor + over_samples) / n, 64.0) / m)
    risk = unit_risk("empirical_risk", empirical_risk, scale)
    return summed(
        "baxter_eps_const",
        terms={
            "empirical_risk": scale * risk,
            "deviation": scale * np.maximum(clients, samples),
        },
        delta={"clients": failure / 2.0, "samples": failure / 2.0},
        scale=scale,
    )


def baxter_thm2_eps(
    *,
    log_capacity_clients: Callable[[Array], Array],
    log_capacity_samples: Callable[[Array], Array],
    n_clients: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    largest: float = 32.0,
) -> Array:
    r"""Invert Baxter's Theorem 2 for epsilon when the capacities depend on it; losses in [0, 1].

    Both conditions ease as epsilon grows, so that bisection finds the smallest epsilon, rounded up.

    Parameters
    ----------
    log_capacity_clients, log_capacity_samples : callable
        Log-capacity as a nonincreasing function of the radius (epsilon / 32).
    n_clients, n_samples : array_like of int, at least 1
    delta : array_like, in (0, 1)
    largest : float, positive
        Infinity is returned where even this epsilon is too small.

    Examples
    --------
    >>> eps = baxter_thm2_eps(
    ...     log_capacity_clients=lambda radius: 0 * radius + 10.0,
    ...     log_capacity_samples=lambda radius: 0 * radius + 1000.0,
    ...     n_clients=3237, n_samples=200, delta=0.05,
    ... )
    >>> round(float(eps), 6)
    1.091892
    """
    n = count("n_clients", n_clients)
    m = count("n_samples", n_samples)
    failure = failure_probability("delta", delta)
    top = positive("largest", largest)

    def enough(epsilon: Array) -> Array:
        radius = np.asarray(epsilon / 32.0)
        clients = baxter_thm2_n(
            log_capacity_clients=log_capacity_clients(radius), epsilon=epsilon, delta=failure
        )
        samples = baxter_thm2_m(
            log_capacity_samples=log_capacity_samples(radius),
            n_clients=n,
            epsilon=epsilon,
            delta=failure,
        )
        return np.asarray((clients <= n) & (samples <= m))

    shape = np.broadcast_shapes(n.shape, m.shape, failure.shape)
    high = np.full(shape, float(top))
    reached = enough(high)
    return np.asarray(np.where(reached, smallest_epsilon(enough, np.zeros(shape), high), np.inf))
