"""What clients were served with: numbers that serving chose from each client's own samples."""

from collections.abc import Iterable
from typing import Any

from latecomer.eval.federation.groups import Group
from latecomer.eval.scoring.label_shift import ByBbse
from latecomer.eval.scoring.serving import served_models
from latecomer.eval.training.setup import Setup
from latecomer.models.engine.method import Method, versions
from latecomer.models.task.state import State
from latecomer.models.task.task import Task


def choice_rows(
    method: Method, task: Task, state: State, groups: Iterable[Group], *, classes: str
) -> list[dict[str, Any]]:
    """Return a row for each group and each number that serving chooses: its mean over clients.

    The metrics are the names that ``method.choices`` gives, ``knn_weight`` for instance; no rows
    for methods that choose nothing. Query data are not read.

    Parameters
    ----------
    method, task, state
        The trained method.
    groups : iterable of Group
        Unshifted; the group ``seen`` is asked as seen clients, others as new clients.
    classes : str
        Masking of absent classes, as the other rows have it.
    """
    rows = []
    for group in groups:
        clients = group.clients
        chosen = [
            method.choices(
                task, state, clients.support_of(i), member=i if group.name == "seen" else None
            )
            for i in range(len(clients))
        ]
        where = {**group.condition(), "n_clients": len(clients), "classes": classes}
        rows += [
            {
                **where,
                "aggregation": "per-client",
                "metric": metric,
                "value": sum(one[metric] for one in chosen) / len(chosen),
            }
            for metric in (chosen[0] if chosen else ())
        ]
    return rows


def ridge_rows(setup: Setup, state: State, group: Group) -> list[dict[str, Any]]:
    """Return the row ``bbse_ridge``: for which share of new clients nothing was inverted.

    That is where shares of classes come from a model's confusion matrix, which was near singular
    (:func:`~latecomer.eval.scoring.label_shift.weights_by_bbse`). No rows where they do not. Query
    data are not read.
    """
    reweigh, clients = setup.reweigh, group.clients
    if not isinstance(reweigh, ByBbse) or not len(clients):
        return []
    each: list[bool] = []
    for model, support in served_models(
        setup.method, setup.task, state, group, predictor=setup.judged, seed=setup.seed
    ):
        each += [reweigh.found(one, support.x).ridge for one in versions(model)]
    where = {**group.condition(), "n_clients": len(clients), "classes": setup.classes}
    found = {"metric": "bbse_ridge", "value": sum(each) / len(each)}
    return [{**where, "aggregation": "per-client", **found}]
