"""Baxter's covering-number bounds, for clients seen and clients unseen, and pFedHN's.

Capacities are natural logarithms of the supremum, over measures, of the L1 covering number: of the
maps from a client's law to its best risk in a space, and of n-tuples of hypotheses from one space.
Sample sizes are returned as real numbers: round up. These results are qualitative: their constants
make every real network vacuous, and their inputs (radii, Lipschitz constants) are rarely known.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.certificate import Array, Certificate, catalogued
from latecomer.bounds.checks import (
    count,
    failure_probability,
    interval,
    largest_loss,
    nonnegative,
    positive,
)
from latecomer.bounds.unit_scale import summed, unit_risk

__all__ = [
    "baxter_eps_const",
    "baxter_thm2_eps",
    "baxter_thm2_m",
    "baxter_thm2_n",
    "baxter_thm4_m",
    "log_cover_ball",
    "pfedhn_M",
    "pfedhn_eps",
]

FAMILY = "uniform convergence"
FIXED = "the hypothesis spaces are permissible and fixed beforehand; losses in [0, loss_max]"
_LIPSCHITZ = (
    "weights and descriptors stay in balls of the given radius; the loss is Lipschitz in the "
    "target's weights, the hypernetwork in its own weights and in the descriptor"
)
_STEPS = 120


def needed(log_factor: Array, capacity: Array, epsilon: Array, coefficient: float) -> Array:
    """Return the sample size ``coefficient / epsilon^2 (log_factor + capacity)``."""
    return np.asarray(coefficient / np.square(epsilon) * (log_factor + capacity))


def smallest_epsilon(enough: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Bisect for the smallest epsilon where ``enough`` holds; the end returned satisfies it."""
    for _ in range(_STEPS):
        # By factors while the ends are far apart: epsilon may be of any size.
        far = (low > 0.0) & (high > 4.0 * low)
        middle = np.where(far, np.sqrt(low) * np.sqrt(high), 0.5 * (low + high))
        holds = enough(middle)
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return np.asarray(high)


@catalogued(
    family=FAMILY,
    claim="Samples per client that suffice for the mean risk of the seen clients to be within eps.",
    source="Baxter (2000), Theorem 4",
    assumptions=(FIXED, "the capacity is taken at epsilon / 16"),
)
def baxter_thm4_m(
    *,
    log_capacity_samples: ArrayLike,
    n_clients: ArrayLike,
    epsilon: ArrayLike,
    delta: ArrayLike,
    loss_max: ArrayLike = 1.0,
) -> Array:
    r"""Return :math:`\max\{64(\ln(4/\delta) + \ln C)/n\epsilon^2,\ 16/\epsilon^2\}` samples.

    At (epsilon / 2, delta / 2) it is :func:`baxter_thm2_m`.

    Parameters
    ----------
    log_capacity_samples : array_like, at least 0
        ln C(epsilon / 16, H^n).
    n_clients : array_like of int, at least 1
    epsilon : array_like, positive
    delta : array_like, in (0, 1)
    loss_max : float, positive

    Examples
    --------
    >>> needed = baxter_thm4_m(log_capacity_samples=5000.0, n_clients=100, epsilon=0.1, delta=0.05)
    >>> round(float(needed))
    320280
    """
    eps = positive("epsilon", epsilon) / largest_loss("loss_max", loss_max)
    failure = failure_probability("delta", delta)
    capacity = nonnegative("log_capacity_samples", log_capacity_samples)
    n = count("n_clients", n_clients)
    samples = needed(np.log(4.0 / failure), capacity, eps, 64.0) / n
    return np.asarray(np.maximum(samples, 16.0 / np.square(eps)))


@catalogued(
    family=FAMILY,
    claim="Logarithm of a covering number of a Euclidean ball.",
    source="volume argument",
)
def log_cover_ball(
    *, dimension: ArrayLike, ball_radius: ArrayLike, cover_radius: ArrayLike
) -> Array:
    r"""Return :math:`d\ln(1 + 2R/\rho)`, or 0 where one ball covers (:math:`\rho \ge R`).

    Parameters
    ----------
    dimension : array_like of int, at least 0
        d of the space that holds the ball.
    ball_radius, cover_radius : array_like, positive
        R and the radius of the cover.

    Examples
    --------
    >>> round(float(log_cover_ball(dimension=2, ball_radius=1.0, cover_radius=0.5)), 4)
    3.2189
    """
    d = count("dimension", dimension, minimum=0)
    ball = positive("ball_radius", ball_radius)
    cover = positive("cover_radius", cover_radius)
    ratio = 2.0 * ball / cover
    of_logs = np.log(2.0) + np.log(ball) - np.log(cover)
    log_number = d * np.where(np.isfinite(ratio), np.log1p(ratio), of_logs)
    return np.asarray(np.where(cover >= ball, 0.0, log_number))


def _weights(
    n_clients: ArrayLike,
    hypernetwork_dim: ArrayLike,
    descriptor_dim: ArrayLike,
    head_dim: ArrayLike,
) -> Array:
    per_client = count("descriptor_dim", descriptor_dim) + count("head_dim", head_dim, minimum=0)
    shared = count("hypernetwork_dim", hypernetwork_dim)
    all_of_them = shared + count("n_clients", n_clients) * per_client.astype(np.float64)
    checked = count("hypernetwork_dim + n_clients (descriptor_dim + head_dim)", all_of_them)
    return checked.astype(np.float64)


def _lipschitz(
    loss: ArrayLike, weight: ArrayLike, descriptor: ArrayLike, head_dim: ArrayLike
) -> Array:
    """Return by how much a step of length 1 in every covered ball can move the loss."""
    through = nonnegative("weight_lipschitz", weight) + nonnegative(
        "descriptor_lipschitz", descriptor
    )
    positive("weight_lipschitz + descriptor_lipschitz", through)
    # A head is weights of the target itself: its own step moves the loss as well.
    headed = count("head_dim", head_dim, minimum=0) > 0
    moved = np.asarray(positive("loss_lipschitz", loss) * (through + headed))
    return interval(
        "loss_lipschitz (weight_lipschitz + descriptor_lipschitz)", moved, 1e-150, 1e150
    )


@catalogued(
    family=FAMILY,
    claim="Samples per client that suffice for pFedHN's mean risk on its seen clients within eps.",
    source="pFedHN (ICML 2021), Theorem 1, with the cover radius corrected",
    assumptions=(FIXED, _LIPSCHITZ, "qualitative only: the constants exceed any real data set"),
)
def pfedhn_M(
    *,
    epsilon: ArrayLike,
    n_clients: ArrayLike,
    descriptor_dim: ArrayLike,
    hypernetwork_dim: ArrayLike,
    radius: ArrayLike,
    loss_lipschitz: ArrayLike,
    weight_lipschitz: ArrayLike,
    descriptor_lipschitz: ArrayLike,
    delta: ArrayLike,
    head_dim: ArrayLike = 0,
    loss_max: ArrayLike = 1.0,
) -> Array:
    r"""Return the samples per client of pFedHN's Theorem 1 (through :func:`baxter_thm4_m`).

    .. math:: \ln C \le (N + n(k + q)) \ln(1 + 2R/\rho), \qquad
              \rho = \frac{\epsilon/16}{L(L_h + L_V + 1_{q > 0})}

    The paper halves :math:`\rho` once more without need.  With heads the loss is Lipschitz in the
    weights of the target and of the head together.

    Parameters
    ----------
    epsilon, loss_max : array_like, positive
    n_clients, descriptor_dim, hypernetwork_dim : array_like of int, at least 1
        n, k, and the N weights of the hypernetwork.
    radius, loss_lipschitz : array_like, positive
        R of the balls that hold weights and descriptors; L of the loss in the target's weights.
    weight_lipschitz, descriptor_lipschitz : array_like, at least 0, not both 0
        L_h and L_V of the hypernetwork; L_V is 0 if its output ignores the descriptor.
    delta : array_like, in (0, 1)
    head_dim : array_like of int, at least 0
        q weights of a personal head.

    Examples
    --------
    >>> needed = pfedhn_M(
    ...     epsilon=0.1, n_clients=90, descriptor_dim=25, hypernetwork_dim=10000, radius=1,
    ...     loss_lipschitz=1, weight_lipschitz=1, descriptor_lipschitz=1, delta=0.05,
    ... )
    >>> round(float(needed))
    5630328
    """
    eps = positive("epsilon", epsilon)
    through = _lipschitz(loss_lipschitz, weight_lipschitz, descriptor_lipschitz, head_dim)
    capacity = log_cover_ball(
        dimension=_weights(n_clients, hypernetwork_dim, descriptor_dim, head_dim),
        ball_radius=positive("radius", radius),
        cover_radius=interval("epsilon", eps, 1e-150, 1e150) / 16.0 / through,
    )
    return baxter_thm4_m(
        log_capacity_samples=capacity,
        n_clients=n_clients,
        epsilon=eps,
        delta=delta,
        loss_max=loss_max,
    )


@catalogued(
    family=FAMILY,
    claim="Deviation that pFedHN's Theorem 1 proves on its seen clients with the given samples.",
    source="pFedHN (ICML 2021), Theorem 1, inverted and with the cover radius corrected",
    population="seen-clients",
    predictor="deterministic",
    sampling="iid",
    assumptions=(FIXED, _LIPSCHITZ, "qualitative only: nothing is said of a new client"),
    vacuous_when="always, for a real hypernetwork",
)
def pfedhn_eps(
    *,
    n_samples: ArrayLike,
    n_clients: ArrayLike,
    descriptor_dim: ArrayLike,
    hypernetwork_dim: ArrayLike,
    radius: ArrayLike,
    loss_lipschitz: ArrayLike,
    weight_lipschitz: ArrayLike,
    descriptor_lipschitz: ArrayLike,
    delta: ArrayLike,
    head_dim: ArrayLike = 0,
    empirical_risk: ArrayLike = 0.0,
    loss_max: ArrayLike = 1.0,
) -> Certificate:
    """Bound the mean risk of the seen clients by ``empirical_risk`` + epsilon.

    Epsilon is the smallest one with ``pfedhn_M <= n_samples``, rounded up.

    Parameters
    ----------
    n_samples : array_like of int, at least 1
        Samples of each client.
    n_clients, descriptor_dim, hypernetwork_dim, radius, loss_lipschitz, weight_lipschitz,
    descriptor_lipschitz, delta, head_dim, loss_max
        As for :func:`pfedhn_M`.
    empirical_risk : array_like, in [0, loss_max]
        If left at 0, the value is the deviation alone.

    Examples
    --------
    >>> bound = pfedhn_eps(
    ...     n_samples=10**7, n_clients=90, descriptor_dim=25, hypernetwork_dim=1000, radius=1,
    ...     loss_lipschitz=1, weight_lipschitz=1, descriptor_lipschitz=1, delta=0.05,
    ... )
    >>> round(float(bound), 8)
    0.04121444
    """
    risk, scale = unit_risk(empirical_risk, loss_max)
    failure, clients = failure_probability("delta", delta), count("n_clients", n_clients)
    deviation = _smallest_deviation(
        m=count("n_samples", n_samples).astype(np.float64),
        clients=clients,
        weights=_weights(clients, hypernetwork_dim, descriptor_dim, head_dim),
        balls=interval("radius", radius, 1e-150, 1e150),
        through=_lipschitz(loss_lipschitz, weight_lipschitz, descriptor_lipschitz, head_dim),
        failure=failure,
        scale=scale,
    )
    return summed(
        "pfedhn_eps",
        terms={"empirical_risk": scale * risk, "deviation": deviation},
        delta={"samples": failure},
        scale=scale,
    )


def _smallest_deviation(
    *,
    m: Array,
    clients: NDArray[np.int64],
    weights: Array,
    balls: Array,
    through: Array,
    failure: Array,
    scale: float,
) -> Array:
    """Return the smallest epsilon for which m samples of each client suffice, rounded up."""

    def enough(epsilon: Array) -> Array:
        capacity = log_cover_ball(
            dimension=weights, ball_radius=balls, cover_radius=epsilon / 16.0 / through
        )
        needed = baxter_thm4_m(
            log_capacity_samples=capacity,
            n_clients=clients,
            epsilon=epsilon,
            delta=failure,
            loss_max=scale,
        )
        return np.asarray(needed <= m)

    # Below `low` the second condition fails; at `high` one ball covers and both hold.
    low = scale * np.sqrt(16.0 / m)
    single = scale * np.sqrt(64.0 * np.log(4.0 / failure) / (clients * m))
    high = np.maximum(np.maximum(low, single), 16.0 * balls * through) * (1.0 + 1e-9)
    shape = np.broadcast_shapes(high.shape, weights.shape)
    low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    return smallest_epsilon(enough, low * (1.0 - 1e-9), high)


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
    risk, _ = unit_risk(empirical_risk, scale)
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
