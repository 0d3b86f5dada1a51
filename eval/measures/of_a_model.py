"""What is measured of each trained model besides its errors: the work behind the measures."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from latecomer.eval.devices import wait_for
from latecomer.eval.measures.descriptors import descriptor_findings
from latecomer.eval.measures.next_client import next_client_rows
from latecomer.eval.measures.registry import MEASURES
from latecomer.eval.results.artifacts import Artifact
from latecomer.eval.scoring.rows import client_rows
from latecomer.eval.training.trained_model import TrainedModel
from latecomer.models.families.embedded_clients import EmbeddedClients
from latecomer.models.task.heads import head_names

Findings = tuple[list[dict[str, Any]], Mapping[str, Artifact]]


def descriptors(model: TrainedModel) -> Findings:
    """Return what `descriptor_findings` says of a model."""
    return descriptor_findings(model.method, model.task, model.state, model.federation)


def mix_and_match(model: TrainedModel) -> Findings:
    """Return the artifact ``mix_and_match`` (pFedHN, Figure 3).

    ``accuracy`` ``[n, n]``: row i is seen client i's query accuracy under its own head and the body
    of each seen client; ``normalised``: its rows stretched to [0, 1], NaN where all are equal.
    """
    method, task, clients = model.method, model.task, model.federation.seen.clients
    if not isinstance(method, EmbeddedClients) or not method.personal_layers:
        return [], {}
    heads = head_names(task, method.personal_layers)
    weights = [method.weights_of(task, model.state, i) for i in range(len(clients))]
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


def next_client(model: TrainedModel) -> Findings:
    """Return what `next_client_rows` says of a model."""
    return next_client_rows(model.held_out), {}


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
