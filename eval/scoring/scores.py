"""Client scores, their summaries and cross-fitting, and their rows: written, and read back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from latecomer.certify.predictor import Ints, client_folds
from latecomer.errors import InputError
from latecomer.eval.shifts.populations import CONTROL

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

    ``per_client``, the mean of the clients' errors, differs from ``pooled``, the rate on the query
    samples of all clients together, for clients of unequal size. ``lower`` and ``upper`` are its
    95% t-interval over clients, clipped to [0, 1]; NaN for a single client, or for clients of one
    error. ``loss`` is the mean over clients of the mean cross-entropy, in nats.
    """

    n_clients: int
    n_query: int
    pooled: float
    per_client: float
    lower: float
    upper: float
    loss: float


def group_score(scores: Sequence[ClientScore]) -> GroupScore:
    """Summarise the scores of one group of clients; ValueError if there is none.

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
        lower=float(np.clip(mean - half, 0.0, 1.0)),
        upper=float(np.clip(mean + half, 0.0, 1.0)),
        loss=float(np.mean([score.loss for score in scores])),
    )


def paired_effect(
    shifted: Sequence[ClientScore], control: Sequence[ClientScore]
) -> tuple[float, float, float]:
    """Compare the errors of the same clients under a shift and under its matched control.

    The mean over clients of the difference, above 0 if the shift makes clients worse, and its 95%
    t-interval over clients, NaN for one client.  ValueError if the clients differ, or there are
    none.

    Examples
    --------
    >>> before = [ClientScore(0, 9, 10, 1, .3), ClientScore(1, 9, 10, 2, .5)]
    >>> after = [ClientScore(0, 9, 10, 3, .3), ClientScore(1, 9, 10, 4, .5)]
    >>> round(paired_effect(after, before)[0], 3)
    0.2
    """
    ids = [score.client for score in shifted]
    if not ids or ids != [score.client for score in control]:
        raise ValueError("shifted and control must score the same clients, at least one")
    pairs = zip(shifted, control, strict=True)
    difference = np.array([after.error - before.error for after, before in pairs])
    mean, half = float(difference.mean()), _half_width(difference)
    return mean, mean - half, mean + half


def _half_width(values: npt.NDArray[np.float64]) -> float:
    """Return half of the 95% t interval of the mean over clients; NaN for one, or equal ones.

    That of ``scipy.stats``, which takes longer to load than all that scores.
    """
    if len(values) < 2 or np.ptp(values) < 1e-12:
        return np.nan
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(stdtrit(len(values) - 1, 0.975) * error)


def fold_groups(group: "Group", folds: int, *, seed: int) -> list["Group"]:
    """Return the group once per fold: each client's fold as query, its other points as support.

    A client's points are its support and query data; validation data are not used. InputError if a
    client has fewer points than folds.
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
    from torch.nn.utils.rnn import pad_sequence

    def padded(rows: Sequence[Ints]) -> tuple[torch.Tensor, torch.Tensor]:
        table = pad_sequence([torch.from_numpy(one) for one in rows], batch_first=True)
        sizes = torch.tensor([len(one) for one in rows], device=clients.device)
        return table.to(clients.device), sizes

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
    ``score`` serves every client of a group from its support and scores it on its query data.  One
    fold scores the group as it is; otherwise ``seed`` and a client's id fix the folds.  InputError
    if a client has fewer points than folds.
    """
    if folds == 1:
        return list(score(group))
    return merge_folds([score(part) for part in fold_groups(group, folds, seed=seed)])


Row = dict[str, Any]


def client_rows(group: "Group", scores: Sequence[ClientScore], common: Row) -> Iterator[Row]:
    """Yield the error of each client of a group."""
    for score in scores:
        yield {
            **common,
            **group.condition(),
            "client": score.client,
            "n_support": score.n_support,
            "n_query": score.n_query,
            "metric": "error",
            "value": score.error,
        }


def mean_row(group: "Group", errors: Sequence[float], common: Row) -> Row:
    """Return the mean error over the clients of a group."""
    mean = {"aggregation": "per-client", "metric": "error", "value": float(np.mean(errors))}
    return {**common, **group.condition(), "n_clients": len(errors), **mean}


def group_rows(group: "Group", total: GroupScore, common: Row) -> Iterator[Row]:
    """Yield error, accuracy and loss of a group, pooled and per client."""
    where = {**common, **group.condition(), "n_clients": total.n_clients, "n_query": total.n_query}
    interval = {"lower": total.lower, "upper": total.upper}
    flipped = {"lower": 1 - total.upper, "upper": 1 - total.lower}
    pooled = {"aggregation": "pooled"}
    mean = {"aggregation": "per-client"}
    yield {**where, **pooled, "metric": "error", "value": total.pooled}
    yield {**where, **pooled, "metric": "accuracy", "value": 1 - total.pooled}
    yield {**where, **mean, **interval, "metric": "error", "value": total.per_client}
    yield {**where, **mean, **flipped, "metric": "accuracy", "value": 1 - total.per_client}
    yield {**where, **mean, "metric": "loss", "value": total.loss}


def score_rows(group: "Group", scores: Sequence[ClientScore], common: Row) -> Iterator[Row]:
    """Yield the rows of each client, then those of the group."""
    yield from client_rows(group, scores, common)
    yield from group_rows(group, group_score(scores), common)


def gap_row(novel: "Group", totals: Mapping[str, GroupScore]) -> Row:
    """Return new- minus seen-client *accuracy*: negative if new clients are served worse.

    All that people read (page, terminal, cards, trackers) gives the gap of *errors*, whose sign is
    the other one.
    """
    return {
        **novel.condition(),
        "n_clients": totals["novel"].n_clients,
        "aggregation": "per-client",
        "metric": "gap",
        "value": totals["seen"].per_client - totals["novel"].per_client,
    }


def effect_rows(scored: Mapping["Group", Sequence[ClientScore]], common: Row) -> Iterator[Row]:
    """Yield error under another data set minus error under its control, paired by client."""
    controls = {group.shift: group for group in scored if group.shift.endswith(CONTROL)}
    for group, scores in scored.items():
        control = controls.get(group.shift + CONTROL)
        if control is None:
            continue
        mean, lower, upper = paired_effect(scores, scored[control])
        yield {
            **common,
            **group.condition(),
            "n_clients": len(scores),
            "aggregation": "per-client",
            "metric": "shift_effect",
            "value": mean,
            "lower": lower,
            "upper": upper,
            "message": f"error minus that of {control.shift}, the same clients paired",
        }


ReadRow = Mapping[str, str]


@dataclass(frozen=True)
class Condition:
    """The held-out clients under one condition, named as in the rows."""

    shift: str
    severity: float | None

    def condition(self) -> dict[str, Any]:
        """Return the columns that identify a row's group and shift."""
        severity = "" if self.severity is None else self.severity
        return {"group": "certification", "shift": self.shift, "severity": severity}


Scores = dict[str, dict[Condition, Sequence[ClientScore]]]
"""Scores by predictor and condition, clients in the order of their ids."""


def scores_of(rows: Sequence[ReadRow]) -> Scores:
    """Return one trained model's scores of held-out clients, from the rows of its cell, as text.

    By predictor, then by condition; empty if the cell scored no held-out client.

    Raises
    ------
    InputError
        A client was scored twice under one condition, an error is not a fraction of its points, or
        conditions have different clients.

    Examples
    --------
    >>> row = {"group": "certification", "metric": "error", "client": "7", "shift": "none",
    ...        "severity": "", "predictor": "gibbs", "n_support": "20", "n_query": "10",
    ...        "value": "0.3"}
    >>> scores_of([row])["gibbs"][Condition("none", None)][0].n_wrong
    3
    """
    scores: dict[str, dict[Condition, dict[int, ClientScore]]] = {}
    for row in rows:
        if row["group"] != "certification" or row["metric"] != "error" or not row["client"]:
            continue
        severity = float(row["severity"]) if row["severity"] else None
        where = Condition(row["shift"] or "none", severity)
        own = scores.setdefault(row["predictor"], {}).setdefault(where, {})
        score = _score(row)
        if score.client in own:
            raise InputError(
                f"held-out client {score.client} was scored twice ({row['predictor']}, "
                f"{where.shift}): which score a certificate is made from is not known"
            )
        own[score.client] = score
    everyone = {tuple(sorted(own)) for groups in scores.values() for own in groups.values()}
    if len(everyone) > 1:
        raise InputError("held-out clients differ between predictors or shifts")
    return {
        predictor: {where: [own[name] for name in sorted(own)] for where, own in groups.items()}
        for predictor, groups in scores.items()
    }


def _score(row: ReadRow) -> ClientScore:
    try:
        client, n_support, n_query = (int(row[key]) for key in ("client", "n_support", "n_query"))
        error = float(row["value"])
        n_wrong = round(error * n_query)
        if not 0 <= n_wrong <= n_query or n_wrong / n_query != error:
            raise ValueError(f"its error {error!r} is no share of {n_query} points")
    except (ValueError, ZeroDivisionError, OverflowError) as error_:
        raise InputError(f"held-out client {row['client']}: {error_}") from None
    # Only errors are certified, so the loss is not needed.
    return ClientScore(client, n_support, n_query, n_wrong, float("nan"))
