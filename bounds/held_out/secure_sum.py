"""Certificates from sums, so that no client has to reveal its loss.

The sum can come from secure aggregation, where parties add masks that cancel.  For a score L = 1
the logarithm is infinite, and lowering L would be wrong: all scores are multiplied by 1 - gamma,
and the bound on the mean of Z = (1 - gamma) L is divided by 1 - gamma.

For independent clients who arrive one after another the values for all n_clients hold at once, and
so does the smallest so far: prod (1 - Z_i) / (1 - E Z) is a martingale.

Every client with a loss of 1 adds ln(1 / gamma) to the product's sum, which several of them spend.
Five sums, one a bet, make the mixture of products, whose other bets they cost at most 1.7 each.
J sums tell J numbers about the losses, not one: of J clients or fewer they may tell every loss, of
more about as much as J moments of their distribution; who has which loss they do not tell.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import (
    Array,
    Certificate,
    certificate,
    rounded_up,
)
from latecomer.bounds.held_out.betting import (
    BET_WEIGHTS,
    bet_weights,
    first_refused,
    mean_catalogued,
)

__all__ = ["product_from_sum", "product_mixture_from_sums"]

_EPS = float(np.finfo(np.float64).eps)


@mean_catalogued(
    claim="Mean client score from the sum of what each client makes of its own, and no score.",
    source="this project; the product rule on shrunk scores",
    sampling="iid or finite-pool",
    assumptions=(
        "the model, gamma, the code and the number of clients were fixed before the first score",
        "log_sum is the sum of -ln(1 - (1 - gamma) L) over all clients, one score L in [0, 1] "
        "each, and every client rounded its part up",
        "clients i.i.d., or a uniform sample without replacement from a finite pool whose mean is "
        "then what is bounded",
    ),
    vacuous_when="a large share of the scores is near 1, or there are only a few clients",
)
def product_from_sum(
    *,
    log_sum: ArrayLike,
    n_clients: ArrayLike,
    delta: ArrayLike,
    gamma: ArrayLike,
    bits: ArrayLike = 0.0,
) -> Certificate:
    """Risk at most (1 - (delta 2^-bits e^-S)^(1/k)) / (1 - gamma).

    S = sum of -ln(1 - (1 - gamma) L_i), each in [0, -ln gamma].  Proof: ``product`` for the scores
    (1 - gamma) L_i; with bits, for every system at once that a prefix code can name, as in
    ``occam_product``.

    Parameters
    ----------
    log_sum : array_like
        S in nats, at least 0 and at most n_clients times -ln gamma.
    n_clients : array_like of int, at least 1
        Clients k behind the sum.
    delta : array_like, in (0, 1)
    gamma : array_like, in (0, 1)
        Fixed beforehand and the same for all clients; about 1/k.
    bits : array_like, at least 0
        Length of the code word of the system; 0 for one fixed beforehand.

    Examples
    --------
    >>> scores = np.array([0.1, 0.2] * 20)
    >>> told = -np.log1p(-(1 - 1 / 40) * scores).sum()
    >>> round(float(product_from_sum(log_sum=told, n_clients=40, delta=0.05, gamma=1 / 40)), 4)
    0.2145
    """
    total = checks.nonnegative("log_sum", log_sum)
    k = checks.count("n_clients", n_clients)
    failure = checks.failure_probability("delta", delta)
    shrunk = checks.between("gamma", gamma, 0.0, 1.0)
    code = checks.nonnegative("bits", bits)
    # Clients round their parts up, so a sum may exceed the largest possible one by this little.
    most = np.asarray(-k * np.log(shrunk) * (1.0 + 1e-6) + 1e-9)
    checks.at_most("log_sum", total, "n_clients ln(1 / gamma)", most)
    exponent = rounded_up((total - np.log(failure) + code * np.log(2.0)) / k)
    value = rounded_up(-np.expm1(-exponent) / (1.0 - shrunk))
    least = -np.expm1(-total / k) / (1.0 - shrunk)
    return certificate(
        "product_from_sum",
        value=value,
        terms={"geometric_risk": least, "price": value - least},
        delta={"clients": failure},
    )


@mean_catalogued(
    claim="Mean client score from a few sums, one a bet, that single scores of 1 leave of use.",
    source="this project; product_mixture, its last bet on shrunk scores",
    sampling="iid or finite-pool",
    assumptions=(
        "the model, gamma, the weights and the number of clients were fixed before the first score",
        "log_sums are the sums of -ln(1 - b L) over all clients for b = 1/J, ..., 1, with "
        "(1 - gamma) in place of 1, one score L in [0, 1] each, and every client rounded its parts "
        "up",
        "clients i.i.d., or a uniform sample without replacement from a finite pool whose mean is "
        "then what is bounded",
    ),
    vacuous_when="too few clients for any bet to win 1/delta by its own weight",
)
def product_mixture_from_sums(
    *,
    log_sums: ArrayLike,
    n_clients: ArrayLike,
    delta: ArrayLike,
    gamma: ArrayLike,
    weights: ArrayLike = BET_WEIGHTS,
) -> Certificate:
    """Smallest R with sum_b w_b e^(-S_b) / (1 - b R)^k > 1/delta, or 1.

    S_b = sum of -ln(1 - b L_i) for the bets b = 1/J, ..., (J - 1)/J and 1 - gamma.  Proof:
    ``product_mixture``, whose bets may be any numbers in (0, 1].

    Parameters
    ----------
    log_sums : array_like, shape [..., J]
        S_b in nats, by rising bet; each at least 0 and at most -k ln(1 - b).
    n_clients, delta : array_like, of int at least 1 and in (0, 1)
        Clients k behind each sum; failure probability.
    gamma, weights : array_like, in (0, 1) and shape [J], in [0, 1]
        About 1/k; shares of the bets, which sum to 1.  Fixed beforehand, the same for all clients.

    Examples
    --------
    >>> scores = np.array([0.1, 0.2] * 19 + [0.15, 1.0])
    >>> bets = np.array([0.2, 0.4, 0.6, 0.8, 1 - 1 / 40])
    >>> told = -np.log1p(-bets * scores[:, None]).sum(axis=0)
    >>> asked = {"n_clients": 40, "delta": 0.05, "gamma": 1 / 40}
    >>> round(float(product_mixture_from_sums(log_sums=told, **asked)), 4)
    0.2838
    >>> round(float(product_from_sum(log_sum=told[-1], **asked)), 4)
    0.283
    """
    shares = bet_weights(None, weights)
    total = checks.nonnegative("log_sums", log_sums)
    if not total.ndim or total.shape[-1] != shares.size:
        told = f"({shares.size}), got shape {total.shape}"
        raise ValueError(f"log_sums must be as many as weights {told}")
    k = checks.count("n_clients", n_clients)
    failure = checks.failure_probability("delta", delta)
    shrunk = checks.between("gamma", gamma, 0.0, 1.0)
    bets = [np.asarray(j / shares.size) for j in range(1, shares.size)] + [1.0 - shrunk]
    for j, bet in enumerate(bets):
        most = np.asarray(-k * np.log1p(-bet) * (1.0 + 1e-6) + 1e-9)
        limit = f"-n_clients ln(1 - {bet.max(initial=0.0):g})"
        checks.at_most("log_sums", total[..., j], limit, most)
    shape = np.broadcast_shapes(total.shape[:-1], k.shape, failure.shape, shrunk.shape)
    zero = np.zeros(shape)
    won = _wealth(total, k, bets, shares)
    value = first_refused(won, zero, zero + 1.0, failure, int(np.max(k, initial=1)))
    # What the smallest bet's sum makes of the mean, which is at most that.
    mean = np.minimum(-np.expm1(-total[..., 0] / k) / bets[0], value)
    return certificate(
        "product_mixture_from_sums",
        value=value,
        terms={"geometric_risk": mean, "price": value - mean},
        delta={"clients": failure},
    )


def _wealth(
    total: Array, k: NDArray[np.int64], bets: Sequence[Array], shares: Array
) -> Callable[[Array], Array]:
    """Return R -> log of the weighted mean of e^(-S_b) / (1 - b R)^k, rounded down."""

    def log_wealth(risk: Array) -> Array:
        each = [
            np.log(share) - total[..., j] - k * np.log1p(-bet * risk * (1.0 - 4.0 * _EPS))
            for j, (share, bet) in enumerate(zip(shares, bets, strict=True))
            if share > 0
        ]
        mixed = np.logaddexp.reduce(np.stack(np.broadcast_arrays(*each)), axis=0)
        # A logarithm and its product with k are off by a few roundings of the sums.
        return np.asarray(mixed - 16.0 * _EPS * (1.0 + np.abs(mixed) + np.abs(total).max(axis=-1)))

    return log_wealth
