"""Serving seen and new clients, and scoring the models they were served.

A seen client is served from its own state; any other client by the method's declared protocol,
from its support data alone. Query data are read only to score the predictions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from latecomer.eval.federation.groups import Group
from latecomer.eval.scoring.label_shift import Reweigh, corrected
from latecomer.eval.scoring.one_after_another import (
    Mask,
    Serve,
    known_classes,
    score_on_each,
    score_one_after_another,
    served,
    unmasked,
)
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.scoring.side_by_side import score_side_by_side
from latecomer.models.engine.method import Method, Predictor, versions
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import State
from latecomer.models.task.task import Task


def _known_only(logits: Tensor, known: Tensor) -> Tensor:
    return logits.masked_fill(~known, -torch.inf)


def _zeroed(logits: Tensor, known: Tensor) -> Tensor:
    return logits * known


MASKS: Mapping[str, Mask] = MappingProxyType(
    {"all": unmasked, "known": _known_only, "zero": _zeroed}
)


def client_generator(seed: int, client: int) -> torch.Generator:
    """Return a fresh generator for serving one client, the same under every shift (paired)."""
    key = np.random.SeedSequence([seed, client, 0x5E21]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(key) >> 1)


def score_group(
    method: Method,
    task: Task,
    state: State,
    group: Group,
    *,
    classes: str,
    predictor: str,
    seed: int,
    measured_on: Literal["query", "support"] = "query",
    reweigh: Reweigh | None = None,
) -> list[ClientScore]:
    """Serve and score every client of a group: one after another on a CPU, side by side elsewhere.

    Parameters
    ----------
    method, task, state
        The trained method.
    group : Group
        Seen clients are served from their own state, others by the novel-client protocol.
    classes : {"all", "known", "zero"}
        What happens to the logits of classes absent from the client's support labels: nothing,
        minus infinity, or multiplication by 0.
    predictor : str
        One of ``method.predictors``.
    seed : int
        Training seed; together with the client's id, fixes the randomness of serving.
    measured_on : {"query", "support"}
        ``support`` gives the empirical risk that generalization bounds start from.
    reweigh : callable, optional
        Clients that are not seen are served models corrected for their own shares of the classes,
        see :func:`~latecomer.eval.scoring.label_shift.corrected`. If left out, models as they are.

    Returns
    -------
    list of ClientScore
        In the order of the group's clients.
    """
    serve = _serving(method, task, state, group, predictor, seed, reweigh)
    on_cpu = group.clients.device.type == "cpu"
    score = score_one_after_another if on_cpu else score_side_by_side
    return score(task, group.clients, serve, MASKS[classes], on_support=measured_on == "support")


def score_groups(
    method: Method,
    task: Task,
    state: State,
    groups: Sequence[Group],
    *,
    classes: str,
    predictor: str,
    seed: int,
    reweigh: Reweigh | None = None,
) -> list[list[ClientScore]]:
    """Score every group as `score_group` does, clients that two of them share served once.

    Groups share their clients if these are served alike from the same supports and only their query
    data differ, as those of seen clients' test data and validation data do. Elsewhere than on a
    CPU every group is served for itself.
    """
    alone = partial(
        score_group,
        method,
        task,
        state,
        classes=classes,
        predictor=predictor,
        seed=seed,
        reweigh=reweigh,
    )
    found: dict[int, list[ClientScore]] = {}
    for first, group in enumerate(groups):
        if first in found:
            continue
        alike = [n for n in range(first, len(groups)) if _served_alike(group, groups[n])]
        if len(alike) == 1:
            found[first] = alone(group)
            continue
        serve = _serving(method, task, state, group, predictor, seed, reweigh)
        tables = [groups[n].clients for n in alike]
        scores = score_on_each(task, tables, serve, MASKS[classes])
        found |= dict(zip(alike, scores, strict=True))
    return [found[n] for n in range(len(groups))]


def _served_alike(one: Group, other: Group) -> bool:
    """Tell whether two groups' clients are served the same models, on a CPU."""
    if one is other:
        return True
    mine, theirs = one.clients, other.clients
    if one.name != other.name or mine.x is not theirs.x or mine.device.type != "cpu":
        return False
    tables = ("support", "support_sizes", "ids", "mean", "sd")
    same = all(torch.equal(getattr(mine, name), getattr(theirs, name)) for name in tables)
    return same and mine.labelled == theirs.labelled


def _serving(
    method: Method,
    task: Task,
    state: State,
    group: Group,
    predictor: str,
    seed: int,
    reweigh: Reweigh | None,
) -> Serve:
    """Return what serves a group's clients, each with random draws of its own."""
    clients, seen = group.clients, group.name == "seen"

    def serve(places: Sequence[int], supports: Sequence[Samples]) -> Iterable[Predictor]:
        members = [place if seen else None for place in places]
        draws = (client_generator(seed, int(clients.ids[place])) for place in places)
        how: dict[str, Any] = {"predictor": predictor, "generators": draws}
        models = method.serve_each(task, state, members, supports, **how)
        if seen or reweigh is None:
            return models
        pairs = zip(models, supports, strict=True)
        return (corrected(model, own, reweigh) for model, own in pairs)

    return serve


def served_models(
    method: Method, task: Task, state: State, group: Group, *, predictor: str, seed: int
) -> Iterator[tuple[Predictor, Samples]]:
    """Yield every client's model as `score_group` serves it uncorrected, and its support."""
    serve = _serving(method, task, state, group, predictor, seed, None)
    for model, (place, _) in served(task, group.clients, serve):
        yield model, group.clients.support_of(place)


@dataclass(frozen=True, eq=False)
class ServedPoints:
    """What one client's model says of its query data.

    Attributes
    ----------
    client : int
        Client id.
    n_support, n_query : int
        Samples the model was made from, and samples it is asked about.
    chances : ndarray of float, [n, classes]
        Probabilities of all classes, n being ``n_query``; if the client's model is drawn from
        several, those of each model, one after another.
    truth : ndarray of int, [n]
        True classes.
    """

    client: int
    n_support: int
    n_query: int
    chances: NDArray[np.float64]
    truth: NDArray[np.int64]


def served_points(
    method: Method,
    task: Task,
    state: State,
    group: Group,
    *,
    classes: str,
    predictor: str,
    seed: int,
    reweigh: Reweigh | None = None,
) -> list[ServedPoints]:
    """Serve every client of a group as `score_group` does; return its points' probabilities.

    Parameters
    ----------
    method, task, state, group, classes, predictor, seed, reweigh
        As for :func:`score_group`: the same models, and the same treatment of absent classes.

    Returns
    -------
    list of ServedPoints
        In the order of the group's clients.
    """
    serve = _serving(method, task, state, group, predictor, seed, reweigh)
    clients, mask, each = group.clients, MASKS[classes], []
    for model, (place, rows) in served(task, clients, serve):
        known = known_classes(task, clients.support_of(place)).expand(len(rows), -1)
        with torch.no_grad():
            x = clients.inputs(rows)
            logits = torch.cat([mask(one(x), known) for one in versions(model)])
        chances = torch.softmax(logits.double(), dim=1).cpu().numpy()
        # A model whose outputs are no numbers says nothing of any class.
        chances[~np.isfinite(chances).all(axis=1)] = 1 / task.n_classes
        truth = np.tile(clients.labels(rows).cpu().numpy(), len(chances) // len(rows))
        n_support = clients.sizes_on_host[0][place]
        own = int(clients.ids[place]), n_support, len(rows)
        each.append(ServedPoints(*own, chances, truth))
    return each
