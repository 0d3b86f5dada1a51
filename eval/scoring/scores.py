"""Client scores and their summaries; cross-fitted ones for models that a client's points fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from latecomer.certify.predictor import Ints, client_folds

if TYPE_CHECKING:
    from latecomer.eval.federation.groups import Group
    from latecomer.models.task.clients import Clients


@dataclass(frozen=True)
class ClientScore:
    """How well one client was served: results on its query data.

    Attributes
    ----------
    client : int
        Client id.
    n_support, n_query : int
        Samples the model was fitted on, and samples it was measured on.
    n_wrong : float
        Query samples that were classified wrongly; if the client's model is drawn from several, the
        mean over them, which need not be an integer.
    loss : float
        Mean cross-entropy on the query data in nats, before any masking of classes.
    """

    client: int
    n_support: int
    n_query: int
    n_wrong: float
    loss: float

    @property
    def error(self) -> float:
        """Fraction of the query data that was classified wrongly."""
        return self.n_wrong / self.n_query


@dataclass(frozen=True)
class GroupScore:
    """Error of a group of clients, pooled over samples and averaged over clients.

    Attributes
    ----------
    n_clients, n_query : int
        Clients and query samples in the group.
    pooled : float
        Error rate on the query samples of all clients together.
    per_client : float
        Mean of the clients' errors; differs from ``pooled`` for clients of unequal size.
    lower, upper : float
        95% t-interval of ``per_client`` over clients, clipped to [0, 1]; NaN for a single client.
    loss : float
        Mean over clients of the mean cross-entropy, in nats.
    """

    n_clients: int
    n_query: int
    pooled: float
    per_client: float
    lower: float
    upper: float
    loss: float


def group_score(scores: Sequence[ClientScore]) -> GroupScore:
    """Summarise the scores of one group of clients.

    Parameters
    ----------
    scores : sequence of ClientScore
        At least one.

    Returns
    -------
    GroupScore

    Raises
    ------
    ValueError
        There is no score.

    Examples
    --------
    >>> s = [ClientScore(0, 9, 10, 1, .3), ClientScore(1, 9, 30, 6, .5)]
    >>> g = group_score(s)
    >>> g.pooled, round(g.per_client, 3)
    (0.175, 0.15)
    """
    if not scores:
        raise ValueError("scores must hold at least one client, got none")
    errors = np.array([score.error for score in scores])
    n_query = sum(score.n_query for score in scores)
    mean = float(errors.mean())
    half = _half_width(errors)
    return GroupScore(
        n_clients=len(scores),
        n_query=n_query,
        pooled=sum(score.n_wrong for score in scores) / n_query,
        per_client=mean,
        lower=max(0.0, mean - half) if len(errors) > 1 else np.nan,
        upper=min(1.0, mean + half) if len(errors) > 1 else np.nan,
        loss=float(np.mean([score.loss for score in scores])),
    )


@dataclass(frozen=True)
class PairedEffect:
    """Mean over clients of the difference between two errors of the same client.

    Attributes
    ----------
    n_clients : int
        Clients with both errors.
    mean : float
        In [-1, 1]; above 0 the shift makes clients worse.
    lower, upper : float
        95% t-interval over clients; NaN for a single client.
    """

    n_clients: int
    mean: float
    lower: float
    upper: float


def paired_effect(shifted: Sequence[ClientScore], control: Sequence[ClientScore]) -> PairedEffect:
    """Compare the errors of the same clients under a shift and under its matched control.

    Raises
    ------
    ValueError
        The clients differ, or there are none.

    Examples
    --------
    >>> before = [ClientScore(0, 9, 10, 1, .3), ClientScore(1, 9, 10, 2, .5)]
    >>> after = [ClientScore(0, 9, 10, 3, .3), ClientScore(1, 9, 10, 4, .5)]
    >>> round(paired_effect(after, before).mean, 3)
    0.2
    """
    ids = [score.client for score in shifted]
    if not ids or ids != [score.client for score in control]:
        raise ValueError("shifted and control must score the same clients, at least one")
    pairs = zip(shifted, control, strict=True)
    difference = np.array([after.error - before.error for after, before in pairs])
    mean, half = float(difference.mean()), _half_width(difference)
    return PairedEffect(len(difference), mean, mean - half, mean + half)


def _half_width(values: npt.NDArray[np.float64]) -> float:
    """Return half of the 95% t interval of the mean over clients; NaN for a single one.

    That of ``scipy.stats``, which takes longer to load than all that scores.
    """
    if len(values) < 2:
        return np.nan
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(stdtrit(len(values) - 1, 0.975) * error)


def fold_groups(group: "Group", folds: int, *, seed: int) -> list["Group"]:
    """Return the group once per fold: each client's fold as query, its other points as support.

    A client's points are its support and query data; validation data are not used.

    Raises
    ------
    InputError
        A client has fewer points than folds.
    """
    import torch

    clients = group.clients
    parts: list[list[tuple[Ints, Ints]]] = [[] for _ in range(folds)]
    for index, client in enumerate(clients.ids.tolist()):
        own = torch.cat(
            [
                clients.support[index, : int(clients.support_sizes[index])],
                clients.query[index, : int(clients.query_sizes[index])],
            ]
        )
        rows = own.cpu().numpy()
        for number, fold in enumerate(client_folds(len(rows), folds, seed=seed, client=client)):
            parts[number].append((np.delete(rows, fold), rows[fold]))
    return [replace(group, clients=_rearranged(clients, part)) for part in parts]


def _rearranged(clients: "Clients", part: Sequence[tuple[Ints, Ints]]) -> "Clients":
    import torch

    def padded(rows: Sequence[Ints]) -> tuple[torch.Tensor, torch.Tensor]:
        sizes = [len(one) for one in rows]
        table = np.zeros((len(rows), max(sizes)), dtype=np.int64)
        for index, one in enumerate(rows):
            table[index, : len(one)] = one
        device = clients.device
        return torch.from_numpy(table).to(device), torch.tensor(sizes, device=device)

    support, support_sizes = padded([own for own, _ in part])
    query, query_sizes = padded([held for _, held in part])
    return replace(
        clients,
        support=support,
        support_sizes=support_sizes,
        query=query,
        query_sizes=query_sizes,
    )


def merge_folds(per_fold: Sequence[Sequence[ClientScore]]) -> list[ClientScore]:
    """Average each client's scores over folds, weighted by size: every point counts once.

    ``n_support`` is the smallest number of support points of any fold.
    """
    merged = []
    for own in zip(*per_fold, strict=True):
        n_query = sum(score.n_query for score in own)
        merged.append(
            ClientScore(
                client=own[0].client,
                n_support=min(score.n_support for score in own),
                n_query=n_query,
                n_wrong=sum(score.n_wrong for score in own),
                loss=sum(score.loss * score.n_query for score in own) / n_query,
            )
        )
    return merged


def cross_fitted(
    score: Callable[["Group"], Sequence[ClientScore]], group: "Group", *, folds: int, seed: int
) -> list[ClientScore]:
    """Score a group's clients on points that their models were not fitted on.

    Everything that serving learns from a client (masks of absent classes, neighbours and mixing
    weights, fresh heads, embeddings) is recomputed from each fold's support; what comes from
    training (the model, standardisation of inputs and descriptors) stays fixed.  Each score then
    depends on one client only; its mean is the risk of the system with that many support points.

    Parameters
    ----------
    score : callable
        Serves every client of a group from its support and scores it on its query data.
    group : Group
    folds : int
        1 scores the group as it is.
    seed : int
        Together with the client's id, fixes the folds.

    Returns
    -------
    list of ClientScore
        In the order of the group's clients.

    Raises
    ------
    InputError
        A client has fewer points than folds.
    """
    if folds == 1:
        return list(score(group))
    return merge_folds([score(part) for part in fold_groups(group, folds, seed=seed)])
