"""Serving seen and novel clients, and scoring what they were served.

A seen client is served by its own state, any other by the method's declared protocol from its
support data alone; query data are read only to score the predictions.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from latecomer.eval.federation.groups import Group
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.scoring.side_by_side import Mask, score_side_by_side
from latecomer.models.engine.method import Method, Predictor, versions
from latecomer.models.task.state import State
from latecomer.models.task.task import Samples, Task

__all__ = ["MASKS", "client_generator", "score_group"]


def _unmasked(logits: Tensor, known: Tensor) -> Tensor:
    return logits


def _known_only(logits: Tensor, known: Tensor) -> Tensor:
    return logits.masked_fill(~known, -torch.inf)


def _zeroed(logits: Tensor, known: Tensor) -> Tensor:
    return logits * known


MASKS: Mapping[str, Mask] = MappingProxyType(
    {"all": _unmasked, "known": _known_only, "zero": _zeroed}
)


def client_generator(seed: int, client: int) -> torch.Generator:
    """Randomness of serving one client: fresh per client, the same under every shift (paired)."""
    key = np.random.SeedSequence([seed, client, 0x5E21]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(key) >> 1)


def _serve(
    method: Method,
    task: Task,
    state: State,
    group: Group,
    index: int,
    support: Samples,
    predictor: str,
    seed: int,
) -> Predictor:
    generator = client_generator(seed, int(group.clients.ids[index]))
    if group.name == "seen":
        return method.serve(task, state, index, support, predictor=predictor, generator=generator)
    return method.personalize(task, state, support, predictor=predictor, generator=generator)


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
) -> list[ClientScore]:
    """Serve and score every client of a group: one after another on a CPU, side by side elsewhere.

    Parameters
    ----------
    method, task, state
        The trained method.
    group : Group
        Seen clients are served by their own state, others by the novel-client protocol.
    classes : {"all", "known", "zero"}
        What happens to the logits of classes absent from the client's support labels: nothing,
        minus infinity, or multiplication by 0.
    predictor : str
        One of ``method.predictors``.
    seed : int
        Training seed; fixes the randomness of serving together with the client's id.
    measured_on : {"query", "support"}
        ``support`` gives the empirical risk that generalization bounds start from.

    Returns
    -------
    list of ClientScore
        In the order of the group's clients.
    """
    mask = MASKS[classes]
    scores = []
    clients = group.clients
    if clients.device.type != "cpu":

        def serve(index: int, support: Samples) -> Predictor:
            return _serve(method, task, state, group, index, support, predictor, seed)

        return score_side_by_side(task, clients, serve, mask, on_support=measured_on == "support")
    for index, client in enumerate(clients.ids.tolist()):
        support = clients.support_of(index)
        measured = clients.query_of(index) if measured_on == "query" else support
        model = _serve(method, task, state, group, index, support, predictor, seed)
        known = torch.zeros(task.n_classes, dtype=torch.bool)
        known[support.labels()] = True
        n_wrong, loss = _measured(model, measured, known, mask)
        scores.append(ClientScore(client, len(support), len(measured), n_wrong, loss))
    return scores


def _measured(model: Predictor, samples: Samples, known: Tensor, mask: Mask) -> tuple[float, float]:
    """Return how many samples are classified wrongly, and the mean loss; means over versions."""
    wrong: list[int] = []
    losses: list[float] = []
    y = samples.labels()
    for version in versions(model):
        with torch.no_grad():
            logits = version(samples.x)
            wrong.append(int((mask(logits, known).argmax(dim=1) != y).sum()))
            losses.append(float(torch.nn.functional.cross_entropy(logits, y)))
    return sum(wrong) / len(wrong), sum(losses) / len(losses)
