"""Evidence that arriving clients are served worse than a threshold: alarms with a known risk.

A bet b on a client's score L against the threshold c multiplies a stake by 1 + b (L - c)/c, which
is never negative and has mean at most 1 as long as new clients score at most c on average, whatever
came before them.  Stakes grow when new clients score more.  Values are rounded down, so that
rounding cannot raise an alarm.
"""

import numpy as np
from numpy.typing import ArrayLike

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, catalogued

__all__ = ["BETS", "drift_evidence", "drift_evidence_restarted"]

BETS = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Large bets are for even scores, small bets for widely spread ones."""
_EPS = float(np.finfo(np.float64).eps)
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
