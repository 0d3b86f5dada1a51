"""Serving seen and novel clients, and scoring the models they were served.

A seen client is served from its own state; any other client by the method's declared protocol,
from its support data alone. Query data are read only to score the predictions.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from latecomer.eval.federation.groups import Group
from latecomer.eval.scoring.label_shift import corrected
from latecomer.eval.scoring.one_after_another import Mask, score_one_after_another, unmasked
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.scoring.side_by_side import score_side_by_side
from latecomer.models.engine.method import Method, Predictor
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
    prior: str = "",
    trained_shares: Tensor | None = None,
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
    prior : str
        One of :data:`~latecomer.eval.scoring.label_shift.SHARES`: clients that are not seen are
        served models corrected for the shares of their classes. Empty: as they are.
    trained_shares : Tensor, optional
        Shares of the classes in training, ``[n_classes]``; needed with ``prior``.

    Returns
    -------
    list of ClientScore
        In the order of the group's clients.
    """
    clients, seen = group.clients, group.name == "seen"

    def serve(places: Sequence[int], supports: Sequence[Samples]) -> Iterable[Predictor]:
        members = [place if seen else None for place in places]
        draws = (client_generator(seed, int(clients.ids[place])) for place in places)
        how: dict[str, Any] = {"predictor": predictor, "generators": draws}
        served = method.serve_each(task, state, members, supports, **how)
        if seen or trained_shares is None:
            return served
        pairs = zip(served, supports, strict=True)
        return (corrected(model, own, trained_shares, prior) for model, own in pairs)

    on_cpu = clients.device.type == "cpu"
    score = score_one_after_another if on_cpu else score_side_by_side
    return score(task, clients, serve, MASKS[classes], on_support=measured_on == "support")
