"""How far a client's label counts are from those of the seen clients.

Counts are smoothed, ``p = (c + smoothing) / (sum c + smoothing * K)``. Plug-in divergences of few
samples are biased: without smoothing kl, tv and js upward, with it downward where clients are far
apart.  Report the sample sizes beside them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.certificate import Array, catalogued
from latecomer.bounds.checks import nonnegative, one_of, same_length

__all__ = ["KINDS", "Nearest", "divergence", "nearest"]

KINDS = ("kl", "tv", "js", "hellinger")


class Nearest(NamedTuple):
    """The nearest seen client: its row in the table of counts and the divergence to it."""

    client: NDArray[np.int64]
    divergence: Array


def _distribution(name: str, counts: ArrayLike, smoothing: ArrayLike) -> Array:
    checked = nonnegative(name, counts)
    added = nonnegative("smoothing", smoothing)[..., np.newaxis]
    if checked.ndim == 0 or checked.shape[-1] == 0:
        raise ValueError(f"{name} must list one count per class, got shape {checked.shape}")
    smoothed = checked + added
    total = smoothed.sum(axis=-1, keepdims=True)
    if bool(np.any(total <= 0)):
        raise ValueError(f"{name} must hold at least one sample, or smoothing exceed 0, got none")
    return np.asarray(smoothed / total)


def _relative_entropy(p: Array, q: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        summand = np.where(p > 0, p * (np.log(p) - np.log(q)), 0.0)
    return np.asarray(np.maximum(summand.sum(axis=-1), 0.0))


def _between(p: Array, q: Array, kind: str) -> Array:
    if kind == "kl":
        return _relative_entropy(p, q)
    if kind == "tv":
        return np.asarray(np.minimum(0.5 * np.abs(p - q).sum(axis=-1), 1.0))
    if kind == "js":
        middle = 0.5 * (p + q)
        mean = 0.5 * (_relative_entropy(p, middle) + _relative_entropy(q, middle))
        return np.asarray(np.minimum(mean, np.log(2.0)))
    # 1 - sum sqrt(pq) cancels for close laws; the sum of squares is the same number.
    squared = 0.5 * np.square(np.sqrt(p) - np.sqrt(q)).sum(axis=-1)
    return np.asarray(np.sqrt(np.minimum(squared, 1.0)))


@catalogued(
    family="client shift",
    claim="Divergence of a new client's class frequencies from those of a seen client.",
    source="textbook definitions",
    assumptions=(
        "plug-in estimates of few samples are biased (kl, tv, js upward without smoothing; with it "
        "downward for clients far apart): state the sample sizes",
    ),
)
def divergence(
    *,
    novel_counts: ArrayLike,
    train_counts: ArrayLike,
    kind: str = "kl",
    smoothing: ArrayLike = 0.5,
) -> Array:
    r"""Return the divergence between two clients' smoothed class frequencies.

    ``kl`` is :math:`\sum p\ln(p/q)` in nats, p the new client, infinite where a class is missing
    in q without smoothing; ``tv`` half the L1 distance; ``js`` in nats, at most ln 2, whose square
    root is a metric; ``hellinger`` :math:`\sqrt{1-\sum\sqrt{pq}}`.

    Parameters
    ----------
    novel_counts, train_counts : array_like, shape [..., K], at least 0
        Samples per class; leading axes broadcast.
    kind : {"kl", "tv", "js", "hellinger"}
        Kullback-Leibler, of the new client from the other; total variation, Jensen-Shannon,
        Hellinger distance.
    smoothing : array_like, at least 0
        Added to every class.

    Returns
    -------
    ndarray, shape [...]

    Raises
    ------
    ValueError
        Counts are negative, empty or of different lengths.

    Examples
    --------
    >>> float(divergence(novel_counts=[1, 0], train_counts=[0, 1], kind="tv", smoothing=0))
    1.0
    """
    one_of("kind", kind, KINDS)
    p = _distribution("novel_counts", novel_counts, smoothing)
    q = _distribution("train_counts", train_counts, smoothing)
    same_length(novel_counts=p, train_counts=q)
    return _between(p, q, kind)


@catalogued(
    family="client shift",
    claim="The seen client whose class frequencies are nearest to a new client's.",
    source="textbook definitions",
    assumptions=("ties go to the lowest index",),
)
def nearest(
    *,
    novel_counts: ArrayLike,
    train_counts: ArrayLike,
    kind: str = "kl",
    smoothing: ArrayLike = 0.5,
) -> Nearest:
    """Return index and divergence of the nearest seen client; ties go to the lowest index.

    Parameters
    ----------
    novel_counts : array_like, shape [..., K], at least 0
        The new client's samples per class.
    train_counts : array_like, shape [n, K], at least 0
        The same of every seen client.
    kind
        As for :func:`divergence`.
    smoothing : float, at least 0
        Added to every class.

    Returns
    -------
    Nearest
        ``client`` (row of ``train_counts``) and ``divergence``, shape [...].

    Raises
    ------
    ValueError
        Counts are negative, empty or of different lengths.

    Examples
    --------
    >>> closest = nearest(novel_counts=[5, 40, 55], train_counts=[[1, 0, 0], [0, 1, 1]], kind="tv")
    >>> int(closest.client)
    1
    """
    one_of("kind", kind, KINDS)
    table = nonnegative("train_counts", train_counts)
    if table.ndim != 2 or not len(table):
        raise ValueError(f"train_counts must be a table clients x classes, got shape {table.shape}")
    extra = nonnegative("smoothing", smoothing)
    if extra.ndim:
        raise ValueError(f"smoothing must be one number of at least 0, got shape {extra.shape}")
    p = _distribution("novel_counts", novel_counts, smoothing)
    q = _distribution("train_counts", train_counts, smoothing)
    same_length(novel_counts=p, train_counts=q)
    distances = _between(p[..., np.newaxis, :], q, kind)
    index = np.argmin(distances, axis=-1)
    chosen = np.take_along_axis(distances, index[..., np.newaxis], axis=-1)[..., 0]
    return Nearest(client=np.asarray(index, dtype=np.int64), divergence=np.asarray(chosen))
