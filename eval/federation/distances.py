"""Distances of evaluated clients from seen clients, by labels and by a domain classifier."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.shift.client_shift import KINDS, divergence, nearest
from latecomer.eval.federation.domain_classifier import (
    ADistance,
    a_distance,
    token_counts,
)

if TYPE_CHECKING:
    from latecomer.models.task.clients import Clients

__all__ = [
    "ADistance",
    "LabelDivergence",
    "a_distance",
    "label_distances",
    "label_divergence",
    "split_diagnostics",
]

_SMOOTHING: Mapping[str, float] = {"kl": 0.5, "js": 0.0, "hellinger": 0.0, "tv": 0.0}


@dataclass(frozen=True, eq=False)
class LabelDivergence:
    """Divergence of each client's labels from those of the nearest seen client.

    Attributes
    ----------
    kl, tv : ndarray, shape [n]
        KL in nats (counts smoothed by 1/2), and total variation (not smoothed).
    kl_nearest, tv_nearest : ndarray of int64, shape [n]
        Index of the nearest seen client; ties go to the lowest.
    """

    kl: NDArray[np.float64]
    tv: NDArray[np.float64]
    kl_nearest: NDArray[np.int64]
    tv_nearest: NDArray[np.int64]


def label_divergence(counts: ArrayLike, train_counts: ArrayLike) -> LabelDivergence:
    """Return plug-in KL and TV to the nearest seen client, biased for few samples.

    KL is of counts smoothed by 1/2, which brings clients far apart nearer; TV is of plain counts.

    Parameters
    ----------
    counts : array_like, shape [n, n_classes]
        Samples per class of the evaluated clients (p of the KL).
    train_counts : array_like, shape [n_train, n_classes]

    Examples
    --------
    >>> gap = label_divergence([[5, 5, 0]], [[0, 0, 9], [8, 2, 0]])
    >>> float(gap.tv[0].round(2)), int(gap.tv_nearest[0])
    (0.3, 1)
    """
    pair: dict[str, Any] = {"novel_counts": counts, "train_counts": train_counts}
    kl_nearest, kl = nearest(**pair, kind="kl", smoothing=_SMOOTHING["kl"])
    tv_nearest, tv = nearest(**pair, kind="tv", smoothing=0.0)
    return LabelDivergence(kl, tv, kl_nearest, tv_nearest)


def label_distances(counts: ArrayLike, others: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Return KL, TV, Jensen-Shannon and Hellinger for every pair of clients.

    Parameters
    ----------
    counts, others : array_like, shape [n, n_classes] and [m, n_classes]
        Samples per class; ``counts`` is p of the KL. For the KL, counts are smoothed by 1/2 as in
        :func:`label_divergence`; for the other measures they are not. KL and JS are in nats.

    Returns
    -------
    dict of str to ndarray, shape [n, m]
        ``kl``, ``tv``, ``js``, ``hellinger``; plug-in estimates, biased if samples are few.

    Examples
    --------
    >>> gaps = label_distances([[5, 5, 0]], [[0, 0, 9], [5, 5, 0]])
    >>> gaps["tv"].tolist(), gaps["hellinger"].tolist()
    ([[1.0, 0.0]], [[1.0, 0.0]])
    """
    first, second = np.asarray(counts)[:, None], np.asarray(others)
    return {
        kind: np.asarray(
            [
                divergence(
                    novel_counts=row, train_counts=second, kind=kind, smoothing=_SMOOTHING[kind]
                )
                for row in first
            ]
        )
        for kind in KINDS
    }


def split_diagnostics(
    train: "Clients", group: "Clients", *, classifier: str = "linear"
) -> list[dict[str, Any]]:
    """Return rows with the distance of each client of a group from the seen clients.

    ``label_kl``, ``label_tv``, ``label_js`` and ``label_hellinger`` are distances to the seen
    client nearest in that measure; ``a_distance`` is the proxy A-distance to the seen client
    nearest in TV. (The smallest of many noisy A-distances would be biased towards 0.)
    Support and query samples count alike. Each row's message names the seen client and, for
    the A-distance, the held-out error with its standard error.

    Parameters
    ----------
    train : Clients
        Clients that trained.
    group : Clients
        Clients to compare, shifted or not.
    classifier : {"linear", "mlp"}
        Domain classifier of the A-distance, on standardised inputs.
    """
    n_classes = 1 + max(int(train.y.max()), int(group.y.max()))
    near = [_samples(train, i) for i in range(len(train))]
    train_counts = [np.bincount(y, minlength=n_classes) for _, y in near]
    rows: list[dict[str, Any]] = []
    for i in range(len(group)):
        x, y = _samples(group, i)
        label = label_divergence([np.bincount(y, minlength=n_classes)], train_counts)
        by_kl, by_tv = int(label.kl_nearest[0]), int(label.tv_nearest[0])
        apart = a_distance(x, near[by_tv][0], seed=i, classifier=classifier)
        judged = f"held-out error {apart.error:.3f} (standard error {apart.standard_error:.3f}), "
        pair: dict[str, Any] = {
            "novel_counts": np.bincount(y, minlength=n_classes),
            "train_counts": train_counts,
        }
        more = {kind: nearest(**pair, kind=kind, smoothing=0.0) for kind in ("js", "hellinger")}
        for metric, value, nearest_one, note in (
            ("label_kl", label.kl[0], by_kl, ""),
            ("label_tv", label.tv[0], by_tv, ""),
            *(
                (f"label_{kind}", nearby.divergence, int(nearby.client), "")
                for kind, nearby in more.items()
            ),
            ("a_distance", apart.proxy, by_tv, judged),
        ):
            rows.append(
                {
                    "client": int(group.ids[i]),
                    "n_support": int(group.support_sizes[i]),
                    "n_query": int(group.query_sizes[i]),
                    "metric": metric,
                    "value": float(value),
                    "message": f"{note}seen client {int(train.ids[nearest_one])}",
                }
            )
    return rows


def _samples(clients: "Clients", index: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return inputs as the network sees them, or tokens' counts, and labels, of one client."""
    own, test = clients.support_of(index), clients.query_of(index)
    x = np.concatenate([own.x.cpu().numpy(), test.x.cpu().numpy()])
    x = token_counts(x) if clients.holds_tokens else x
    return x, np.concatenate([own.labels().cpu().numpy(), test.labels().cpu().numpy()])
