"""Cross-fitted scores: each point of a held-out client is scored by a model not fitted on it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from latecomer.certify.predictor import Ints, client_folds
from latecomer.eval.scoring.scores import ClientScore

if TYPE_CHECKING:
    from latecomer.eval.federation.groups import Group
    from latecomer.models.task.clients import Clients


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
