"""Whether a method's models differ between clients at all, or are all the same model.

A hypernetwork can ignore what describes a client and still learn: it then serves everybody the same
model. Errors alone do not show this, for that model may be a good one.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from latecomer.eval.federation.groups import Group
from latecomer.eval.scoring.serving import MASKS, client_generator
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

    Between 0, where all models are equal, and 1, where they cancel.

    Parameters
    ----------
    models : sequence of dict of str to Tensor
        Weights of each client's model, at least one.

    Returns
    -------
    float

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

    Rows ``model_spread``, see :func:`model_spread`, with a warning as ``message`` below
    ``BLIND_BELOW`` where the method is said to be personalised; and ``swap_cost``, the mean over
    clients of the query error under another client's model (the next one's; ids are permuted) minus
    that under their own. No rows for methods that serve seen clients by training, and no spread
    where a model is not a set of weights.

    Parameters
    ----------
    method, task, state
        The trained method.
    seen : Group
        The seen clients; the first ``COMPARED`` of them are looked at.
    classes, predictor, seed
        As for :func:`latecomer.eval.scoring.serving.score_group`.
    """
    clients = seen.clients
    n = min(COMPARED, len(clients))
    if method.personalization not in SERVED_AS_TRAINED or n < 2:
        return []
    served: list[Predictor] = [
        method.serve(
            task,
            state,
            index,
            clients.support_of(index),
            predictor=predictor,
            generator=client_generator(seed, int(clients.ids[index])),
        )
        for index in range(n)
    ]

    def error(index: int, model: Predictor) -> float:
        return _query_error(model, task, clients, index, classes)

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


def _query_error(model: Predictor, task: Task, clients: Clients, index: int, classes: str) -> float:
    """Return a model's error on a client's query data, absent classes masked as the rows say."""
    query, known = clients.query_of(index), clients.support_of(index).labels()
    with torch.no_grad():
        logits = model(query.x)
    held: Tensor = torch.zeros(task.n_classes, dtype=torch.bool, device=logits.device)
    held[known] = True
    wrong = MASKS[classes](logits, held).argmax(dim=1) != query.labels()
    return float(wrong.double().mean())
