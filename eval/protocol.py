"""One cell of a study: train a method, serve every group of clients, score, certify."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.eval.artifacts import Artifact
from latecomer.eval.blindness import blindness_rows
from latecomer.eval.cell_parts import Outcome, Row, budget_of, federation_of, task_of
from latecomer.eval.certificate_rows import certificate_facts, certificate_rows
from latecomer.eval.checkpoints import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.client_targets import client_targets
from latecomer.eval.compressed_cell import evaluate_compressed
from latecomer.eval.convergence import converging, is_about
from latecomer.eval.convergence_rows import convergence_rows
from latecomer.eval.descriptors import correlations_of
from latecomer.eval.errors import InputError
from latecomer.eval.federation import Federation, Group
from latecomer.eval.held_out import score_certification
from latecomer.eval.linear_denoising import denoising_findings
from latecomer.eval.measures import measure_all
from latecomer.eval.metrics import ClientScore, GroupScore, group_score
from latecomer.eval.newcomer_rates import tune_newcomers
from latecomer.eval.progressive_cell import evaluate_progressive
from latecomer.eval.published import PUBLISHED
from latecomer.eval.route_caveats import with_caveats
from latecomer.eval.route_contract import Request
from latecomer.eval.routes import certify_all
from latecomer.eval.score_rows import client_rows, effect_rows, gap_row, group_rows
from latecomer.eval.serving import score_group
from latecomer.eval.split_facts import split_facts
from latecomer.eval.trained_model import TrainedModel
from latecomer.eval.training_curve import (
    Curve,
    Plan,
    begun,
    curve_findings,
    measured,
    restored,
    stored,
)
from latecomer.eval.tuned_cell import evaluate_tuned
from latecomer.eval.whole_cell import evaluate_whole
from latecomer.models.checkpoint import Checkpoint
from latecomer.models.engine import RoundLog, initial_state, train
from latecomer.models.method import Method
from latecomer.models.methods import make_method
from latecomer.models.state import State
from latecomer.models.task import Task

__all__ = ["Outcome", "evaluate_cell"]

OnRound = Callable[[RoundLog], None]


def _correlation(
    method: Method, task: Task, federation: Federation, state: State
) -> dict[str, Any]:
    """Return the mean rank correlation of descriptors and classes; blank where none is defined."""
    found = correlations_of(method, task, state, federation)
    if found is None:
        return {}
    defined = found[np.isfinite(found)]
    return {"spearman": float(defined.mean()) if len(defined) else ""}


# Serving newcomers by training, time and again, would cost more than the training itself.
_WITHOUT_TRAINING = ("forward", "global", "unlabelled")


def _curve_plan(
    method: Method, task: Task, federation: Federation, config: Mapping[str, Any]
) -> Plan | None:
    """Say what to measure along the training; None where only its end is looked at."""
    asked = config["evaluation"].get("measures") or ()
    also = partial(_correlation, method, task, federation) if "descriptors" in asked else None
    chooses = config["train"].get("selection", "last") == "validation"
    every = int(config["evaluation"].get("every", 0))
    if not every:
        return None
    validation = federation.validation
    if chooses and not len(validation.clients):
        raise InputError("train.selection=validation needs validation data of every seen client")
    groups = {"validation": validation, "seen": federation.seen}
    if method.personalization in _WITHOUT_TRAINING:
        groups["novel"] = federation.novel
    present = {name: group for name, group in groups.items() if len(group.clients)}
    found = None
    if "convergence" in asked:
        size, seed = int(config["train"]["batch_size"]), int(config["seed"])
        found = converging(method, task, federation.seen.clients, batch_size=size, seed=seed)
    return Plan(present, every, int(config["train"]["rounds"]), chooses, also, found)


def _judged(method: Method) -> str:
    """Return the predictor by which a model is looked at: the one without draws if there is one."""
    predictors = method.predictors
    return "deterministic" if "deterministic" in predictors else predictors[0]


def _with_rate(
    method: Method,
    task: Task,
    federation: Federation,
    state: State,
    config: Mapping[str, Any],
    rows: list[Row],
) -> tuple[Method, dict[str, Artifact]]:
    """Return the method with the rate that newcomers train at chosen, where the study asks."""
    rates = config["train"].get("tune_newcomers")
    if not rates:
        return method, {}
    classes, seed = config["evaluation"]["classes"], int(config["seed"])
    method, found = tune_newcomers(
        method, task, state, federation, rates, classes=classes, seed=seed
    )
    row, table = found.findings({"classes": classes})
    rows.append(row)
    return method, {"newcomer_rates": table}


def _trained(
    method: Method,
    task: Task,
    federation: Federation,
    config: Mapping[str, Any],
    on_round: OnRound | None,
    checkpoints: Checkpoints,
) -> tuple[Curve, Plan | None, State]:
    """Train the cell's method; what was measured on the way, and the state that is kept."""
    seed, clients = int(config["seed"]), federation.seen.clients
    budget = budget_of(config)
    plan = _curve_plan(method, task, federation, config)
    slot = checkpoints.slot("train", seed=seed, rounds=budget.rounds, device=str(clients.device))
    curve, resume = restored(slot.load())
    if plan is not None:
        start = partial(initial_state, method, task, clients, budget, seed=seed)
        curve = begun(curve, plan, start)
    predictor = _judged(method)

    def score(state: State, group: Group) -> Sequence[ClientScore]:
        classes = config["evaluation"]["classes"]
        return score_group(
            method, task, state, group, classes=classes, predictor=predictor, seed=seed
        )

    def on_checkpoint(checkpoint: Checkpoint) -> None:
        nonlocal curve
        if plan is not None:
            curve = measured(curve, plan, checkpoint, score)
        slot.offer(stored(curve, checkpoint))

    state = train(
        method,
        task,
        clients,
        budget,
        seed=seed,
        on_round=on_round,
        path=config["train"].get("path", "auto"),
        resume=resume,
        on_checkpoint=on_checkpoint,
    )
    return curve, plan, curve.state or state


def _method_cell(
    config: Mapping[str, Any], on_round: OnRound | None, checkpoints: Checkpoints
) -> Outcome:
    federation = federation_of(config)
    settings = {k: v for k, v in config["method"].items() if k != "label"}
    method = make_method(**settings)
    task = task_of(federation, config, method)
    seed = int(config["seed"])
    curve, plan, state = _trained(method, task, federation, config, on_round, checkpoints)
    classes = config["evaluation"]["classes"]
    rows: list[Row] = []
    facts: list[Row] = []
    method, tuned = _with_rate(method, task, federation, state, config, rows)
    certification: dict[str, dict[Group, Sequence[ClientScore]]] = {}
    seen_error: dict[str, float] = {}
    for predictor in method.predictors:
        common: Row = {"classes": classes, "predictor": predictor}
        certification[predictor] = {}
        unshifted: dict[str, GroupScore] = {}
        scored: dict[Group, Sequence[ClientScore]] = {}
        score = partial(
            score_group, method, task, state, classes=classes, predictor=predictor, seed=seed
        )
        for group in federation.evaluated():
            held_out = group.name == federation.certification.name
            scores = score_certification(config, score, group) if held_out else score(group)
            scored[group] = scores
            total = group_score(scores)
            rows += client_rows(group, scores, common)
            rows += group_rows(group, total, common)
            if group.shift == "none":
                unshifted[group.name] = total
            if held_out:
                certification[predictor][group] = scores
        rows += effect_rows(scored, common)
        seen_error[predictor] = unshifted["seen"].pooled
        if "novel" in unshifted:
            rows.append({**common, **gap_row(federation.novel, unshifted)})

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

    judged = _judged(method)
    look = {"classes": classes, "predictor": judged, "seed": seed}
    rows += blindness_rows(method, task, state, federation.seen, **look)
    model = TrainedModel(
        method=method,
        task=task,
        state=state,
        federation=federation,
        seen_error=seen_error,
        support_error=support_error,
        seed=seed,
    )
    found = certify_all(
        Request(entry, model, config, certification) for entry in config.get("certificates") or ()
    )
    rows += found.rows
    facts += found.facts
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
    chosen, along = curve_findings(curve, plan, {"classes": classes})
    rows += chosen
    trained = curve.round if chosen else config["train"]["rounds"]
    named = {"personalization": method.personalization, "round": trained}
    if is_about(method):
        budget = budget_of(config)
        portions = {key: getattr(budget, key) for key in ("cohort", "local_steps", "batch_size")}
        along_rows = convergence_rows(
            curve.quantities, method, n_clients=len(federation.seen.clients), **portions
        )
        rows += [{"classes": classes, **row} for row in along_rows]
    asked, measures = measure_all(model, config["evaluation"].get("measures") or ())
    rows += [{"classes": classes, **row} for row in asked]
    sizes = client_targets(method, task, state, federation)
    artifacts = {**sizes, **along, **tuned, **measures, **found.artifacts}
    if facts:
        artifacts["certificates"] = Artifact(kind="certificates", table=facts, axes=("fact",))
    return Outcome([{**named, **row} for row in rows], artifacts)


def _split_cell(
    config: Mapping[str, Any], on_round: OnRound | None, checkpoints: Checkpoints
) -> Outcome:
    """Measure how far novel clients are from the training clients, whatever the method."""
    asked = config.get("evaluation") or {}
    classifier = asked.get("domain_classifier", "linear")
    return Outcome(*split_facts(federation_of(config), classifier=classifier))


def _denoising_cell(
    config: Mapping[str, Any], on_round: OnRound | None, checkpoints: Checkpoints
) -> Outcome:
    """Simulate the linear hypernetwork; no data and no method of the study have part in it."""
    return Outcome(*denoising_findings(config["denoising"]))


_CellWork = Callable[[Mapping[str, Any], OnRound | None, Checkpoints], Outcome]
_CELLS: Mapping[str, _CellWork] = MappingProxyType(
    {
        "method": _method_cell,
        "split": _split_cell,
        "progressive": evaluate_progressive,
        "tuned": evaluate_tuned,
        "compressed": evaluate_compressed,
        "denoising": _denoising_cell,
        "whole": evaluate_whole,
    }
)


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
    outcome = _CELLS[config["kind"]](config, on_round, checkpoints)
    if not config.get("certificates"):
        return outcome
    return with_caveats(outcome, config, federation_of(config).split)
