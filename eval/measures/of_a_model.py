"""What is measured of each trained model besides its errors: the work behind the measures.

Client i of the k certified ones erred n_wrong of n times; its estimate is (n_wrong + 1/2) /
(n + 1), with the binomial variance of that share over n (the halves keep the variance of clients
with no errors, or with nothing else, above 0). Hartung and Knapp's interval is about the true error
of one more client drawn like them. It is asymptotic and proves nothing: errors of clients with few
points are not normal. The certificate beside it is about a mean and is proved.
"""

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from latecomer.bounds import hartung_knapp
from latecomer.eval.devices import wait_for
from latecomer.eval.federation.groups import Federation, Group
from latecomer.eval.measures.registry import MEASURES
from latecomer.eval.results.rows import Artifact
from latecomer.eval.scoring.label_shift import ByBbse
from latecomer.eval.scoring.scores import client_rows
from latecomer.eval.scoring.serving import served_models
from latecomer.eval.training.setup import Setup, TrainedModel
from latecomer.models.engine.method import Method, versions
from latecomer.models.families.embedded_clients import EmbeddedClients
from latecomer.models.generators.hypernetworks import shapes_of
from latecomer.models.task.heads import head_names
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

Findings = tuple[list[dict[str, Any]], Mapping[str, Artifact]]


def choice_rows(
    method: Method, task: Task, state: State, groups: Iterable[Group], *, classes: str
) -> list[dict[str, Any]]:
    """Return a row for each group and each number that serving chooses: its mean over clients.

    The metrics are the names that ``method.choices`` gives, ``knn_weight`` for instance; no rows
    for methods that choose nothing. Groups are unshifted; ``seen`` is asked as seen clients, others
    as new clients. Query data are not read.
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


ALPHA = 0.1
"""Probability with which the model expects the next client's error outside of the interval."""
_FEWEST = 3
_WHY = "asymptotic: it holds for many clients with many points whose errors are normal"


def next_client(model: TrainedModel) -> Findings:
    """Return a row ``next_client_interval`` for each predictor of a model; none below 3 clients.

    ``value`` is the estimated mean over clients, ``lower`` and ``upper`` the interval for the next
    client's error, cut to [0, 1].
    """
    rows: list[dict[str, Any]] = []
    for predictor, scores in model.held_out.items():
        if len(scores) < _FEWEST:
            continue
        n = np.array([score.n_query for score in scores], dtype=np.float64)
        share = (np.array([score.n_wrong for score in scores]) + 0.5) / (n + 1)
        made = hartung_knapp(estimates=share, variances=share * (1 - share) / n, alpha=ALPHA)
        rows.append(
            {
                "group": "certification",
                "shift": "none",
                "predictor": predictor,
                "n_clients": len(scores),
                "metric": "next_client_interval",
                "value": float(made.mean),
                "lower": float(np.clip(made.lower, 0, 1)),
                "upper": float(np.clip(made.upper, 0, 1)),
                "population": "next-client",
                "rigorous": False,
                "delta": ALPHA,
                "message": _WHY,
            }
        )
    return rows, {}


def mix_and_match(model: TrainedModel) -> Findings:
    """Return the artifact ``mix_and_match`` (pFedHN, Figure 3).

    ``accuracy`` ``[n, n]``: row i is seen client i's query accuracy under its own head and the body
    of each seen client; ``normalised``: its rows stretched to [0, 1], NaN where all are equal.
    """
    method, task, clients = model.method, model.task, model.federation.seen.clients
    if not isinstance(method, EmbeddedClients) or not method.personal_layers:
        return [], {}
    heads = head_names(task, method.personal_layers)
    weights = [method.own_model(task, model.state, i) for i in range(len(clients))]
    accuracy = np.zeros((len(clients), len(clients)))
    for i in range(len(clients)):
        query = clients.query_of(i)
        head = {name: weights[i][name] for name in heads}
        for j, other in enumerate(weights):
            with torch.no_grad():
                right = task.logits({**other, **head}, query.x).argmax(dim=1) == query.labels()
            accuracy[i, j] = right.double().mean().item()
    low, high = accuracy.min(axis=1, keepdims=True), accuracy.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        normalised = (accuracy - low) / (high - low)
    ids = clients.ids.tolist()
    axes = ("client of the head", "client of the body")
    artifact = Artifact(
        kind="mix_and_match",
        arrays={"accuracy": accuracy, "normalised": normalised},
        axes=axes,
        ids=dict.fromkeys(axes, ids),
    )
    return [], {"mix_and_match": artifact}


def serving_cost(model: TrainedModel) -> Findings:
    """Return the artifact ``serving_cost``, a record per new client.

    ``personalize_seconds`` until the client has its model, on this machine, server's work
    included; ``predict_seconds`` for its query data; ``rounds`` of messages between client and
    server; ``down_bytes`` and ``up_bytes`` of these, blank for protocols that are not counted.
    """
    method, novel = model.method, model.federation.novel
    predictor = method.predictors[-1]
    table = []
    for index, client in enumerate(novel.clients.ids.tolist()):
        support, query = novel.clients.support_of(index), novel.clients.query_of(index)
        rounds, down, up = _messages(model, len(support))
        generator = torch.Generator().manual_seed(model.seed)
        wait_for(support.x.device)
        began = time.perf_counter()
        served = method.personalize(
            model.task, model.state, support, predictor=predictor, generator=generator
        )
        wait_for(support.x.device)
        made = time.perf_counter()
        with torch.no_grad():
            served(query.x)
        wait_for(support.x.device)
        ended = time.perf_counter()
        table.append(
            {
                "client": client,
                "n_support": len(support),
                "n_query": len(query),
                "personalize_seconds": made - began,
                "predict_seconds": ended - made,
                "rounds": rounds,
                "down_bytes": down,
                "up_bytes": up,
            }
        )
    return [], {"serving_cost": Artifact(kind="serving_cost", table=table, axes=("client",))}


def training_error(model: TrainedModel) -> Findings:
    """Return a row ``training_error`` per seen client and predictor: its model on its support."""
    rows: list[dict[str, Any]] = []
    for predictor in model.method.predictors:
        scores = model.support_scores(predictor)
        for row in client_rows(model.federation.seen, scores, {"predictor": predictor}):
            rows.append({**row, "metric": "training_error"})
    return rows, {}


def _messages(model: TrainedModel, n_support: int) -> tuple[int, int | str, int | str]:
    """Return rounds, bytes to a new client and bytes from it, by its method's protocol."""
    sent = model.method.serving_messages(model.task, model.state, n_support)
    if sent is None:
        return 1, "", ""
    floats = [value for value in model.state.server.values() if value.is_floating_point()]
    size = max([value.element_size() for value in floats], default=0)
    return sent.rounds, sent.down * size, sent.up * size


def measure_all(model: TrainedModel, names: Iterable[str]) -> Findings:
    """Return rows and artifacts of the measures named."""
    rows: list[dict[str, Any]] = []
    artifacts: dict[str, Artifact] = {}
    for name in names:
        if MEASURES[name].along_training:
            continue
        further, made = MEASURES[name].follow(model)
        rows += further
        artifacts |= made
    return rows, artifacts


def client_targets(
    method: Method, task: Task, state: State, federation: Federation
) -> dict[str, Artifact]:
    """Return the artifact ``target_sizes``; nothing for a method without sizes.

    Its records ``group client target weights`` are joined with rows by cell, group and client, so
    that accuracy can be split by size. Shifted new clients have the targets of the unshifted
    ones. A new client served by several seen clients' models has blank entries.
    """
    if not method.sizes:
        return {}

    def entry(group: Group, index: int) -> dict[str, Any]:
        name = method.target_of(state, index if group is federation.seen else None)
        weights = sum(math.prod(shape) for shape in shapes_of(task, name).values())
        return {
            "group": group.name,
            "client": int(group.clients.ids[index]),
            "target": name,
            "weights": weights if name else "",
        }

    groups = (federation.seen, federation.certification, federation.novel)
    table = [entry(group, index) for group in groups for index in range(len(group.clients))]
    return {"target_sizes": Artifact(kind="target_sizes", table=table, axes=("client",))}
