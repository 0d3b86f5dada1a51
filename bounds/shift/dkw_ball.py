"""Balls of populations by a band around the whole distribution of losses."""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Certificate, catalogued, priced, rounded_up
from latecomer.bounds.held_out.counting import dkw_band
from latecomer.bounds.shift.duals import DUALS

__all__ = ["dkw_ball"]

_FINE = np.concatenate([np.linspace(0.0, 0.99, 397), 1.0 - 0.01 * 0.5 ** np.arange(1, 9)])
_POINTS = {
    "tv": _FINE,
    "subgroup": _FINE,
    "chi2": np.concatenate([-np.geomspace(0.05, 20.0, 60), _FINE]),
    "kl": np.geomspace(0.01, 100.0, 400),
}


@catalogued(
    family="population shift",
    claim="Mean over a ball of populations from a band that holds for every threshold.",
    source="Najafi et al., ICML 2025 (arXiv 2410.20250), the idea; this form is this project's",
    population="unseen-client",
    predictor="any",
    sampling="iid",
    assumptions=(
        "the model and the number of clients were fixed before the first score was seen",
        "one score in [0, 1] per held-out client, clients i.i.d.",
        "KL(Q || P), TV(Q, P) or chi2(Q || P) of other clients' law Q from P is at most radius",
    ),
    vacuous_when="the band takes a share sqrt(ln(1/delta) / (2 k)) of clients for hopeless, .17 of "
    "50: what the radius makes of these alone may be all",
)
def dkw_ball(
    *, losses: ArrayLike, radius: ArrayLike, delta: ArrayLike, ball: str = "kl"
) -> Certificate:
    """Mean of the worst law within the radius of the largest law in the DKW band.

    With probability 1 - delta every share P(L > t) is at most the sampled one plus
    w = sqrt(ln(1/delta) / (2 k)) (Dvoretzky, Kiefer, Wolfowitz; Massart), so that P is
    stochastically below the sampled law with its best share w moved to 1.  Scores of a dual rise
    with the loss: their means under that law bound those under P, at every point at once, and a
    fine grid of points costs nothing.  The bound is simple and wide: it pays for the whole shape of
    the law, which a mean does not need.  It is for comparison with ``ball_mixture``.

    Parameters
    ----------
    losses : array_like, shape [..., k], in [0, 1]
    radius : array_like
        KL(Q || P), TV(Q, P) or chi2(Q || P) of another population Q from the scored one, P; the
        share for ``subgroup``.  Broadcasts with the leading axes.
    delta : array_like
        Failure probability in (0, 1/2]; broadcasts with the leading axes.
    ball : {"kl", "tv", "chi2", "subgroup"}

    Returns
    -------
    Certificate
        At most 1, shape of the leading axes broadcast with ``radius`` and ``delta``.

    Examples
    --------
    >>> curve = dkw_ball(losses=[0.1, 0.2] * 20, radius=[0.0, 0.1, 0.2], delta=0.05)
    >>> curve.value.round(4).tolist()
    [0.3247, 0.4871, 0.5603]
    """
    dual = DUALS[checks.one_of("ball", ball, tuple(DUALS))]
    scores = checks.losses_in("losses", losses)
    reach = dual.radius("radius", radius)
    failure = checks.failure_probability("delta", delta)
    width = np.minimum(dkw_band(n_clients=scores.shape[-1], delta=failure), 1.0)
    k = scores.shape[-1]
    share = np.clip(np.arange(1, k + 1) / k - width[..., None], 0.0, 1.0 / k)
    shape = np.broadcast_shapes(scores.shape[:-1], failure.shape, reach.shape)
    ordered = np.sort(scores, axis=-1)
    value = np.ones(shape)
    for point in _POINTS[ball]:
        of_point = dual.scores(ordered, np.array(point))
        mean = np.minimum(rounded_up((share * of_point).sum(axis=-1) + width), 1.0)
        value = np.minimum(value, dual.value(mean, reach, np.array(point)))
    mean = np.broadcast_to(scores.mean(axis=-1), shape)
    return priced("dkw_ball", value, mean, {"clients": failure}, part="price and shift")
