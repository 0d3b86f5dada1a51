"""One cell of a study: train a method, serve every group of clients, score, certify."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.eval.certification import (
    certificate_facts,
    certificate_rows,
    certify_scores,
    sampling_of,
)
from latecomer.eval.checkpoints import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.federation import Federation, Group, build_federation
from latecomer.eval.metrics import ClientScore, GroupScore, group_score, paired_effect
from latecomer.eval.published import PUBLISHED, TrainedModel
from latecomer.eval.rows import Artifact
from latecomer.eval.serving import score_group
from latecomer.eval.shifted import CONTROL
from latecomer.eval.split_facts import split_facts
from latecomer.models.engine import RoundLog, TrainConfig, train
from latecomer.models.methods import make_method
from latecomer.models.task import Task, make_task

__all__ = ["Outcome", "evaluate_cell"]

OnRound = Callable[[RoundLog], None]
Row = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a cell leaves behind: rows for ``rows.csv`` and named artifacts."""

    rows: list[Row]
    artifacts: Mapping[str, Artifact]


def _client_rows(group: Group, scores: Sequence[ClientScore], common: Row) -> Iterator[Row]:
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


def _group_rows(group: Group, total: GroupScore, common: Row) -> Iterator[Row]:
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


def _gap(novel: Group, totals: Mapping[str, GroupScore]) -> Row:
    """Novel minus seen accuracy: negative where newcomers are served worse."""
    return {
        **novel.condition(),
        "n_clients": totals["novel"].n_clients,
        "aggregation": "per-client",
        "metric": "gap",
        "value": totals["seen"].per_client - totals["novel"].per_client,
    }


def _effects(
    scored: Mapping[Group, Sequence[ClientScore]], classes: str, predictor: str
) -> Iterator[Row]:
    """Error under another data set minus error under its control, client by client."""
    controls = {group.shift: group for group in scored if group.shift.endswith(CONTROL)}
    for group, scores in scored.items():
        control = controls.get(group.shift + CONTROL)
        if control is None:
            continue
        found = paired_effect(scores, scored[control])
        yield {
            "classes": classes,
            "predictor": predictor,
            **group.condition(),
            "n_clients": found.n_clients,
            "aggregation": "per-client",
            "metric": "shift_effect",
            "value": found.mean,
            "lower": found.lower,
            "upper": found.upper,
            "message": f"error minus that of {control.shift}, the same clients paired",
        }


@lru_cache(maxsize=2)
def _federation(key: str) -> Federation:
    return build_federation(json.loads(key))


def _federation_of(config: Mapping[str, Any]) -> Federation:
    """Return the cell's federation; cells of one study in one process share it."""
    shared = {name: config[name] for name in ("data", "split", "shifts")}
    return _federation(json.dumps(shared, sort_keys=True))


@lru_cache(maxsize=2)
def _task(federation: Federation, key: str) -> Task:
    dataset = federation.dataset
    model = json.loads(key)
    sizes = {k: v for k, v in model.get("hypernetwork", {}).items() if v != "auto"}
    return make_task(
        input_shape=tuple(dataset.x.shape[1:]),
        n_classes=dataset.n_classes,
        target=model.get("target", "auto"),
        encoder=model.get("encoder", "auto"),
        hypernetwork=sizes,
    )


def _task_of(federation: Federation, config: Mapping[str, Any]) -> Task:
    return _task(federation, json.dumps(config.get("model") or {}, sort_keys=True))


def _certify(
    config: Mapping[str, Any], federation: Federation, scores: Sequence[ClientScore], common: Row
) -> tuple[list[Row], list[Row]]:
    """Rows and facts of every certificate the study asks for, on one predictor's scores."""
    sampling = sampling_of(federation.split.kind)
    pool = len(federation.split.certification) + len(federation.split.novel)
    rows: list[Row] = []
    facts: list[Row] = []
    for wanted in config.get("certificates") or ():
        rule = wanted["rule"]
        level_name = "alpha" if rule == "conformal" else "delta"
        issued = certify_scores(
            scores,
            rule=rule,
            level=wanted[level_name],
            sampling=sampling,
            pool_size=pool if sampling == "finite-pool" else None,
            predictor=common["predictor"],
        )
        bound = f"{wanted['route']}:{rule}"
        where = {**common, **federation.certification.condition(), "n_clients": len(scores)}
        rows += certificate_rows(issued, bound=bound, common=where)
        mean = float(np.mean([score.error for score in scores]))
        inputs = [
            ("n_clients", float(len(scores)), "certification clients, each scored once"),
            ("pool_size", float(pool), "clients not trained on, certified ones included"),
            ("mean_error", mean, "mean error of the certification clients"),
        ]
        facts += certificate_facts(issued, bound=bound, inputs=inputs)
    return rows, facts


def _method_cell(
    config: Mapping[str, Any], on_round: OnRound | None, checkpoints: Checkpoints
) -> Outcome:
    federation = _federation_of(config)
    settings = {k: v for k, v in config["method"].items() if k != "label"}
    method = make_method(**settings)
    task = _task_of(federation, config)
    seed = int(config["seed"])
    budget = {key: value for key, value in config["train"].items() if key != "path"}
    clients = federation.seen.clients
    slot = checkpoints.slot(
        "train", seed=seed, rounds=int(budget["rounds"]), device=str(clients.device)
    )
    state = train(
        method,
        task,
        clients,
        TrainConfig(**budget),
        seed=seed,
        on_round=on_round,
        path=config["train"].get("path", "auto"),
        resume=slot.load(),
        on_checkpoint=slot.offer,
    )
    classes = config["evaluation"]["classes"]
    rows: list[Row] = []
    facts: list[Row] = []
    seen_error: dict[str, float] = {}
    for predictor in method.predictors:
        common: Row = {"classes": classes, "predictor": predictor}
        unshifted: dict[str, GroupScore] = {}
        scored: dict[Group, Sequence[ClientScore]] = {}
        for group in federation.evaluated():
            scores = score_group(
                method, task, state, group, classes=classes, predictor=predictor, seed=seed
            )
            scored[group] = scores
            total = group_score(scores)
            rows += _client_rows(group, scores, common)
            rows += _group_rows(group, total, common)
            if group.shift == "none":
                unshifted[group.name] = total
            if group is federation.certification:
                issued = _certify(config, federation, scores, common)
                rows += issued[0]
                facts += issued[1]
        rows += _effects(scored, classes, predictor)
        seen_error[predictor] = unshifted["seen"].pooled
        if "novel" in unshifted:
            rows.append({**common, **_gap(federation.novel, unshifted)})

    def support_error(predictor: str) -> float:
        scores = score_group(
            method,
            task,
            state,
            federation.seen,
            classes=classes,
            predictor=predictor,
            seed=seed,
            measured_on="support",
        )
        return group_score(scores).per_client

    model = TrainedModel(
        method=method,
        task=task,
        state=state,
        federation=federation,
        seen_error=seen_error,
        support_error=support_error,
        seed=seed,
    )
    for name in config.get("bounds") or ():
        for published in PUBLISHED[name](model):
            where = {
                "classes": classes,
                **published.group.condition(),
                "n_clients": len(published.group.clients),
            }
            rows += certificate_rows(published.certificate, bound=name, common=where)
            facts += certificate_facts(
                published.certificate,
                bound=name,
                shift=published.group.shift,
                severity=published.group.severity,
                inputs=published.inputs,
            )
    named = {"personalization": method.personalization, "round": config["train"]["rounds"]}
    artifacts = {}
    if facts:
        artifacts["certificates"] = Artifact(kind="certificates", table=facts, axes=("fact",))
    return Outcome([{**row, **named} for row in rows], artifacts)


def _split_cell(
    config: Mapping[str, Any], on_round: OnRound | None, checkpoints: Checkpoints
) -> Outcome:
    """Measure how far novel clients are from the training clients, whatever the method."""
    asked = config.get("evaluation") or {}
    classifier = asked.get("domain_classifier", "linear")
    return Outcome(*split_facts(_federation_of(config), classifier=classifier))


_CellWork = Callable[[Mapping[str, Any], OnRound | None, Checkpoints], Outcome]
_CELLS: Mapping[str, _CellWork] = MappingProxyType({"method": _method_cell, "split": _split_cell})


def evaluate_cell(
    config: Mapping[str, Any],
    on_round: OnRound | None = None,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> Outcome:
    """Do the work of one cell.

    Parameters
    ----------
    config : mapping
        The cell's ``config.json``.
    on_round : callable, optional
        Called with a ``RoundLog`` after every training round.
    checkpoints : Checkpoints
        Where each training of the cell has a slot to keep its checkpoints in, and to go on from.

    Returns
    -------
    Outcome
        Rows without the columns that only name the cell (the runner adds those), and artifacts.

    Raises
    ------
    DivergedError
        When the training loss stops being finite.
    InputError
        When the data or the split cannot be made.
    """
    return _CELLS[config["kind"]](config, on_round, checkpoints)
