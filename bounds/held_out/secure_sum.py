"""The product rule from one sum, so that no client has to reveal its loss.

The sum can come from secure aggregation, where parties add masks that cancel.  For a score L = 1
the logarithm is infinite, and lowering L would be wrong: all scores are multiplied by 1 - gamma,
and the bound on the mean of Z = (1 - gamma) L is divided by 1 - gamma.

For independent clients who arrive one after another the values for all n_clients hold at once, and
so does the smallest so far: prod (1 - Z_i) / (1 - E Z) is a martingale.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Certificate, catalogued, certificate, rounded_up

__all__ = ["product_from_sum"]


@catalogued(
    family="hold-out",
    claim="Mean client score from the sum of what each client makes of its own, and no score.",
    source="this project; the product rule on shrunk scores",
    population="unseen-client",
    predictor="any",
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
