"""How alike clients are: in models, in descriptors, and new ones in inputs to certified ones.

A hypernetwork can ignore what describes a client and still learn: it then serves everybody the same
model. Errors alone do not show this, for that model may be a good one.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from latecomer.bounds.checks import real
from latecomer.eval.federation.distances import token_counts
from latecomer.eval.federation.groups import Federation, Group
from latecomer.eval.results.rows import Artifact
from latecomer.eval.scoring.serving import known_classes, served_models, share_wrong
from latecomer.eval.training.setup import TrainedModel
from latecomer.models.engine.method import FixedWeights, Method, Predictor
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import Params, State
from latecomer.models.task.task import Task

BLIND_BELOW = 0.01
"""Relative spread of the models below which a personalised method is called blind."""

COMPARED = 50
"""Largest number of seen clients whose models are compared."""

SERVED_AS_TRAINED = ("forward", "unlabelled", "embedding", "global")
"""Protocols whose seen clients are served without training."""


def model_spread(models: Sequence[Params]) -> float:
    r"""Return how far models lie apart, relative to their size.

    .. math:: \sqrt{\frac{\sum_i \|\theta_i - \bar\theta\|^2}{\sum_i \|\theta_i\|^2}}

    Between 0, where all models are equal, and 1, where they cancel. There is at least one.

    Examples
    --------
    >>> one, other = {"w": torch.tensor([3.0, 4.0])}, {"w": torch.tensor([3.0, -4.0])}
    >>> model_spread([one, one]), model_spread([one, other])
    (0.0, 0.8)
    """
    apart = size = 0.0
    for name in models[0]:
        values = torch.stack([model[name].double().flatten() for model in models])
        apart += float((values - values.mean(dim=0)).square().sum())
        size += float(values.square().sum())
    return math.sqrt(apart / size) if size else 0.0


def blindness_rows(
    method: Method,
    task: Task,
    state: State,
    seen: Group,
    *,
    classes: str,
    predictor: str,
    seed: int,
) -> list[dict[str, Any]]:
    """Measure on seen clients whether each has a model of its own, and whether it matters.

    The first ``COMPARED`` clients are looked at. Rows ``model_spread``, see :func:`model_spread`,
    with a warning as ``message`` below ``BLIND_BELOW`` where the method is said to be personalised;
    and ``swap_cost``, the mean over clients of the query error under another client's model (the
    next one's; ids are permuted) minus that under their own. No rows for methods that serve seen
    clients by training, and no spread where a model is not a set of weights.
    """
    clients = seen.clients
    n = min(COMPARED, len(clients))
    if method.personalization not in SERVED_AS_TRAINED or n < 2:
        return []
    each = served_models(method, task, state, seen, predictor=predictor, seed=seed)
    served = [model for model, _ in islice(each, n)]

    def error(index: int, model: Predictor) -> float:
        known = known_classes(task, clients.support_of(index))
        return share_wrong(model, clients.query_of(index), known, classes=classes)

    costs = [error(i, served[(i + 1) % n]) - error(i, served[i]) for i in range(n)]
    where = {**seen.condition(), "n_clients": n, "predictor": predictor, "classes": classes}
    rows = [{**where, "metric": "swap_cost", "value": sum(costs) / n}]
    weights = [model.weights for model in served if isinstance(model, FixedWeights)]
    if len(weights) < n:
        return rows
    spread = model_spread(weights)
    blind = spread < BLIND_BELOW and method.personalization != "global"
    told = "serves all clients (nearly) the same model" if blind else ""
    return [{**where, "metric": "model_spread", "value": spread, "message": told}, *rows]


Floats = NDArray[np.float64]


def descriptors_of(method: Method, task: Task, state: State, group: Group) -> Floats | None:
    """Return the descriptors ``[n, dim]`` of a group's clients; None where the method has none."""
    seen = group.name == "seen"
    described = [
        method.describe(task, state, group.clients.support_of(i), member=i if seen else None)
        for i in range(len(group.clients))
    ]
    own = [one for one in described if one is not None]
    if not own or len(own) < len(described):
        return None
    return torch.stack(own).detach().cpu().numpy().astype(np.float64)


def class_proportions(group: Group, n_classes: int) -> Floats:
    """Return each client's class proportions ``[n, n_classes]``, over its support and query."""
    counts = []
    for index in range(len(group.clients)):
        parts = (group.clients.support_of(index), group.clients.query_of(index))
        held = torch.cat([part.labels() for part in parts])
        counts.append(torch.bincount(held, minlength=n_classes).cpu().numpy())
    table = np.array(counts, dtype=np.float64)
    shares: Floats = table / table.sum(axis=1, keepdims=True)
    return shares


def rank_correlations(
    *,
    novel_descriptors: Floats,
    seen_descriptors: Floats,
    novel_proportions: Floats,
    seen_proportions: Floats,
) -> Floats:
    r"""Return how well descriptors rank seen clients by similarity, for every new client.

    For new client i, Spearman's rank correlation over seen clients j of ``|v_i - v_j|`` and
    ``|pi_i - pi_j|`` (PeFLL, section 4.1 and Figures 3, 5-7).

    Parameters
    ----------
    novel_descriptors, seen_descriptors : ndarray of shape [m, dim] and [n, dim]
        Descriptors v.
    novel_proportions, seen_proportions : ndarray of shape [m, n_classes] and [n, n_classes]
        Class proportions pi.

    Returns
    -------
    ndarray of shape [m]
        In [-1, 1]; NaN where all distances are the same, and with fewer than two seen clients.

    Examples
    --------
    >>> import numpy as np
    >>> place = np.array([[0.0], [1.0], [3.0]])
    >>> rank_correlations(
    ...     novel_descriptors=np.array([[0.5]]) ** 2, seen_descriptors=place**2,
    ...     novel_proportions=np.array([[0.5]]), seen_proportions=place,
    ... ).round(2)
    array([0.87])
    """
    from scipy.stats import ConstantInputWarning, spearmanr  # a second to load; few cells need it

    ranks = []
    for v, pi in zip(novel_descriptors, novel_proportions, strict=True):
        near = np.linalg.norm(seen_descriptors - v, axis=1)
        alike = np.linalg.norm(seen_proportions - pi, axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstantInputWarning)
            ranks.append(spearmanr(near, alike).statistic if len(near) > 1 else np.nan)
    return np.array(ranks, dtype=np.float64)


def correlations_of(
    method: Method, task: Task, state: State, federation: Federation
) -> Floats | None:
    """Return :func:`rank_correlations` of a model; None without new clients or descriptors."""
    seen, novel = federation.seen, federation.novel
    if not len(novel.clients):
        return None
    own, others = (descriptors_of(method, task, state, group) for group in (novel, seen))
    if own is None or others is None:
        return None
    return rank_correlations(
        novel_descriptors=own,
        seen_descriptors=others,
        novel_proportions=class_proportions(novel, task.n_classes),
        seen_proportions=class_proportions(seen, task.n_classes),
    )


def descriptors(model: TrainedModel) -> tuple[list[dict[str, Any]], Mapping[str, Artifact]]:
    """Return rows ``spearman`` of new clients and the artifact ``descriptors``.

    The artifact has, for seen and new clients, ``descriptor`` ``[n, dim]``,
    ``class_proportions`` ``[n, n_classes]`` and ``novel`` ``[n]``, and where classes of the data
    set have superclasses, ``superclass`` ``[n_classes]`` (-1 for a class without samples); new
    clients are left out where the method must train to describe them, and there is nothing for
    methods without descriptors. Held-out clients are not looked at.
    """
    method, task, state, federation = model.method, model.task, model.state, model.federation
    described = [
        (group, own)
        for group in (federation.seen, federation.novel)
        if len(group.clients) and (own := descriptors_of(method, task, state, group)) is not None
    ]
    if not described:
        return [], {}
    groups = [group for group, _ in described]
    shares = [class_proportions(group, task.n_classes) for group in groups]
    arrays = {
        "descriptor": np.concatenate([own for _, own in described]),
        "class_proportions": np.concatenate(shares),
        "novel": np.concatenate([np.full(len(g.clients), g.name == "novel") for g in groups]),
    }
    dataset = federation.dataset
    if dataset.coarse is not None:
        arrays["superclass"] = np.full(task.n_classes, -1)
        arrays["superclass"][dataset.y] = dataset.coarse
    ids = [client for group in groups for client in group.clients.ids.tolist()]
    artifact = Artifact(
        kind="descriptors", arrays=arrays, axes=("client", "entry"), ids={"client": ids}
    )
    rows: list[dict[str, Any]] = []
    correlations = correlations_of(method, task, state, federation)
    if correlations is not None:
        common = {**federation.novel.condition(), "metric": "spearman"}
        for client, value in zip(federation.novel.clients.ids.tolist(), correlations, strict=True):
            if np.isfinite(value):
                rows.append({**common, "client": client, "value": float(value)})
        if rows:
            mean = {"aggregation": "per-client", "n_clients": len(rows)}
            rows.append({**common, **mean, "value": float(np.nanmean(correlations))})
    return rows, {"descriptors": artifact}


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

    The mean ``[D]`` of their inputs, which go ``onto`` principal directions ``[D, m]``, at most
    `BANDS`' last many; the mean ``[d]`` of their descriptors, and the inverse ``[d, d]`` of these
    descriptors' covariance, shrunk (Ledoit, Wolf, 2004).
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
