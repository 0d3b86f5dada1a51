"""Descriptors of clients, and whether clients with similar classes have similar descriptors."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from latecomer.eval.federation.groups import Federation, Group
from latecomer.eval.results.artifacts import Artifact
from latecomer.models.engine.method import Method
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

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


def descriptor_findings(
    method: Method, task: Task, state: State, federation: Federation
) -> tuple[list[dict[str, Any]], Mapping[str, Artifact]]:
    """Return rows ``spearman`` of new clients and the artifact ``descriptors``.

    The artifact has, for seen and new clients, ``descriptor`` ``[n, dim]``,
    ``class_proportions`` ``[n, n_classes]`` and ``novel`` ``[n]``, and where classes of the data
    set have superclasses, ``superclass`` ``[n_classes]`` (-1 for a class without samples); new
    clients are left out where the method must train to describe them, and there is nothing for
    methods without descriptors. Held-out clients are not looked at.
    """
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
