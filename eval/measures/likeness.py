"""Is a new client like the clients that a certificate was made on? Told by inputs alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from latecomer.bounds.checks import real
from latecomer.eval.federation.domain_classifier import token_counts
from latecomer.eval.results.artifacts import Artifact
from latecomer.eval.training.trained_model import TrainedModel
from latecomer.models.task.clients import Clients

Floats = NDArray[np.float64]

BANDS = (8, 32, 128)
"""A client is described on each of the first principal components of the seen clients' inputs, and
on further ones together up to each of these numbers: of pictures they hold ever finer detail, which
blur takes away long before it moves the first."""
_MOST_INPUTS = 4000
_TINY = 1e-6


def rank_p(distance: ArrayLike, held_out: ArrayLike) -> Floats:
    """Return the conformal p-value of distances among those of ``k`` held-out clients.

    ``(1 + number of held-out distances at least as large) / (k + 1)`` (Vovk, Gammerman, Shafer,
    2005, chapter 2). If a new client and the held-out clients are exchangeable and the distance was
    fixed without them, the p-value is at most ``a`` with probability at most ``a``, for every
    ``a``; without ties it is uniform on ``1 / (k + 1), ..., 1``. Several new clients' p-values
    depend on each other, for they share the held-out clients.

    Parameters
    ----------
    distance : array_like, shape [n]
        Finite numbers; larger is less alike.
    held_out : array_like, shape [k]

    Returns
    -------
    ndarray of shape [n]
        In [1 / (k + 1), 1].

    Raises
    ------
    ValueError
        Unless all distances are finite numbers.

    Examples
    --------
    >>> rank_p([0.5, 2.5, 9.0], [1.0, 2.0, 3.0]).tolist()
    [1.0, 0.5, 0.25]
    """
    own, others = real("distance", distance), real("held_out", held_out)
    as_far = (others[None] >= own[:, None]).sum(axis=1)
    p: Floats = (1 + as_far) / (1 + len(others))
    return p


@dataclass(frozen=True, eq=False)
class SeenClients:
    """Where the seen clients' inputs lie, and how their descriptors spread.

    Attributes
    ----------
    centre : ndarray of shape [D]
        Mean of their inputs.
    onto : ndarray of shape [D, m]
        Principal directions of their inputs, at most `BANDS`' last many.
    mean : ndarray of shape [d]
        Mean of their descriptors.
    precision : ndarray of shape [d, d]
        Inverse of the descriptors' covariance, shrunk (Ledoit, Wolf, 2004).
    """

    centre: Floats
    onto: Floats
    mean: Floats
    precision: Floats

    def described(self, x: Floats) -> Floats:
        """Return the descriptor ``[d]`` of a client's inputs ``[b, D]``.

        It holds the inputs' means along the first principal directions, the logarithms of their
        mean squares there, and of those of every band of further directions and of what all
        directions leave over, per dimension.
        """
        away = x - self.centre
        along = away @ self.onto
        squares, first = np.square(along).mean(axis=0), BANDS[0]
        bands = [squares[low:high].mean() for low, high in pairwise(BANDS) if low < len(squares)]
        rest = max(float(np.square(away).sum(axis=1).mean()) - float(squares.sum()), 0.0)
        spread = [*squares[:first], *bands, rest / max(x.shape[1] - len(squares), 1)]
        return np.concatenate([along[:, :first].mean(axis=0), np.log(np.array(spread) + _TINY)])

    def distances(self, clients: Clients) -> Floats:
        """Return every client's Mahalanobis distance ``[n]`` from the seen clients' mean."""
        own = np.stack([self.described(inputs_of(clients, i)) for i in range(len(clients))])
        away = own - self.mean
        distance: Floats = np.sqrt(np.einsum("ni,ij,nj->n", away, self.precision, away).clip(0))
        return distance


def inputs_of(clients: Clients, index: int) -> Floats:
    """Return a client's own inputs ``[b, D]`` as the network sees them, or tokens' counts."""
    x = clients.support_of(index).x.cpu().numpy()
    x = token_counts(x) if clients.holds_tokens else x
    return x.reshape(len(x), -1).astype(np.float64)


def seen_clients(clients: Clients) -> SeenClients:
    """Learn from seen clients' inputs alone what is usual.

    Parameters
    ----------
    clients : Clients
        At least two.
    """
    from sklearn.covariance import ledoit_wolf  # a second to load, and few cells need it
    from sklearn.decomposition import PCA

    inputs = [inputs_of(clients, index) for index in range(len(clients))]
    each = max(_MOST_INPUTS // len(inputs), 1)
    pooled = np.concatenate([x[np.linspace(0, len(x) - 1, each).astype(int)] for x in inputs])
    components = min(BANDS[-1], *pooled.shape)
    # One thread: the same numbers on any number of cores.
    with threadpool_limits(1):
        axes = PCA(components, svd_solver="randomized", random_state=0).fit(pooled)
        found = SeenClients(axes.mean_, axes.components_.T, np.empty(0), np.empty(0))
        own = np.stack([found.described(x) for x in inputs])
        covariance, _ = ledoit_wolf(own)
        # Where all clients agree there is nothing to divide by.
        covariance += (
            _TINY * max(np.trace(covariance) / len(covariance), _TINY) * np.eye(len(covariance))
        )
        return SeenClients(found.centre, found.onto, own.mean(axis=0), np.linalg.inv(covariance))


def likeness(model: TrainedModel) -> tuple[list[dict[str, Any]], Mapping[str, Artifact]]:
    """Return a row ``likeness_p`` for every new client, under every shift.

    It is the rank of the client's distance from the seen clients among those of the held-out
    clients, see :func:`rank_p`; descriptors are of support inputs, standardised by the seen
    clients, and read no label and no model. There are no rows without held-out clients, or
    with fewer than two seen ones.
    """
    federation = model.federation
    held_out, seen = federation.certification.clients, federation.seen.clients
    if not len(held_out) or len(seen) < 2:
        return [], {}
    usual = seen_clients(seen)
    known = usual.distances(held_out)
    rows: list[dict[str, Any]] = []
    for group in (federation.novel, *federation.shifted):
        if not len(group.clients):
            continue
        ids, sizes = group.clients.ids.tolist(), group.clients.sizes_on_host[0]
        p = rank_p(usual.distances(group.clients), known).tolist()
        for client, size, value in zip(ids, sizes, p, strict=True):
            place = {**group.condition(), "client": client, "n_support": size}
            rows.append(
                {**place, "metric": "likeness_p", "value": value, "n_clients": len(held_out)}
            )
    return rows, {}
