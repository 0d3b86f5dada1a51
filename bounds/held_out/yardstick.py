"""What the best rules of the mean are measured by: a bound that nobody has proved."""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, catalogued, priced

__all__ = ["gaffke"]


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
    scores = checks.losses_in("losses", losses)
    failure = checks.failure_probability("delta", delta)
    shape = np.broadcast_shapes(scores.shape[:-1], failure.shape)
    samples = np.broadcast_to(scores, (*shape, scores.shape[-1]))
    levels = np.broadcast_to(failure, shape)
    value = np.empty(shape)
    for place in np.ndindex(*shape):
        value[place] = _quantile(samples[place], float(levels[place]))
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
