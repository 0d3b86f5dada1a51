"""What one cell does: train, serve, score, certify, measure.

A certificate of held-out clients is about a system trained without them.  What holding them out
costs is measured by a cell that trains the same method, seed and rounds on seen and held-out
clients together, inputs scaled by all of their support, and measures the new clients.  Nothing of
it is certified.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.errors import InputError
from latecomer.eval.denoising import Row, denoising_findings
from latecomer.eval.federation.groups import Group, split_facts
from latecomer.eval.measures.likeness import blindness_rows, correlations_of
from latecomer.eval.measures.of_a_model import choice_rows, client_targets, measure_all, ridge_rows
from latecomer.eval.measures.registry import bound_called
from latecomer.eval.measures.theorem31 import convergence_rows, converging, is_about
from latecomer.eval.results.rows import Artifact
from latecomer.eval.routes.arrivals import joined
from latecomer.eval.routes.contract import (
    Request,
    certificate_facts,
    certificate_rows,
    certify_all,
    vouched_for,
    with_caveats,
)
from latecomer.eval.routes.r0_held_out import score_certification
from latecomer.eval.routes.registry import CELL_ROUTES, read_cell
from latecomer.eval.scoring.scores import (
    ClientScore,
    GroupScore,
    client_rows,
    effect_rows,
    gap_row,
    group_rows,
    group_score,
    score_rows,
)
from latecomer.eval.settings.cell import DenoisingCell, SplitCell, TrainingCell
from latecomer.eval.settings.study_sections import Bounds, bound_names
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.training.curve import (
    Curve,
    Plan,
    begun,
    curve_findings,
    measured,
    restored,
    stored,
    tune_newcomers,
)
from latecomer.eval.training.setup import (
    OnRound,
    Outcome,
    Setup,
    TrainedModel,
    federation_of,
    setup_of,
)
from latecomer.models.engine.training import Checkpoint, initial_state
from latecomer.models.task.state import State

__all__ = ["Outcome", "evaluate_cell"]


Scores = Mapping[Group, Sequence[ClientScore]]


def _correlation(setup: Setup, state: State) -> dict[str, Any]:
    """Return the mean rank correlation of descriptors and classes; blank where none is defined."""
    correlations = correlations_of(setup.method, setup.task, state, setup.federation)
    if correlations is None:
        return {}
    defined = correlations[np.isfinite(correlations)]
    return {"spearman": float(defined.mean()) if len(defined) else ""}


# Serving new clients by training at every measurement would cost more than the training itself.
_WITHOUT_TRAINING = (
    *("forward", "global", "unlabelled", "intercept", "chosen", "mixture", "gaussian"),
)


def _curve_plan(setup: Setup, cell: TrainingCell) -> Plan | None:
    """Return what to measure during the training; None if only its end is measured."""
    federation, budget = setup.federation, setup.budget
    asked = cell.evaluation.measures or ()
    also = partial(_correlation, setup) if "descriptors" in asked else None
    chooses = cell.train.selection == "validation"
    every = cell.evaluation.every
    if not every or not budget.rounds:
        return None
    validation = federation.validation
    if chooses and not len(validation.clients):
        raise InputError("train.selection=validation needs validation data of every seen client")
    groups = {"validation": validation, "seen": federation.seen}
    if setup.method.personalization in _WITHOUT_TRAINING:
        groups["novel"] = federation.novel
    present = {name: group for name, group in groups.items() if len(group.clients)}
    quantities = None
    if "convergence" in asked:
        size, clients = budget.batch_size, federation.seen.clients
        quantities = converging(setup.method, setup.task, clients, batch_size=size, seed=setup.seed)
    return Plan(present, every, budget.rounds, chooses, also, quantities)


def _trained(
    setup: Setup, cell: TrainingCell, on_round: OnRound | None, checkpoints: Checkpoints
) -> tuple[Curve, Plan | None, State]:
    """Train the cell's method; return the measured curve, its plan and the state that is kept."""
    clients, budget, seed = setup.federation.seen.clients, setup.budget, setup.seed
    plan = _curve_plan(setup, cell)
    slot = checkpoints.slot("train", seed=seed, rounds=budget.rounds, device=str(clients.device))
    curve, resume = restored(slot.load(), clients.device)
    if plan is not None:
        start = partial(initial_state, setup.method, setup.task, clients, budget, seed=seed)
        curve = begun(curve, plan, start)

    def on_checkpoint(checkpoint: Checkpoint) -> None:
        nonlocal curve
        if plan is not None:
            curve = measured(curve, plan, checkpoint, setup.score_each)
        measured_next = plan is not None and plan.falls_on(checkpoint.rounds_done + 1)
        slot.offer(stored(curve, checkpoint), long_ahead=measured_next)

    state = setup.train(
        clients, slot, on_round=on_round, resume=resume, on_checkpoint=on_checkpoint
    )
    return curve, plan, curve.state or state


def _with_rate(
    setup: Setup, state: State, cell: TrainingCell
) -> tuple[Setup, list[Row], dict[str, Artifact]]:
    """Choose new clients' rate where the study asks; return the set-up with it and the trials."""
    rates = cell.train.tune_newcomers
    if not rates:
        return setup, [], {}
    method, tuning = tune_newcomers(
        setup.method,
        setup.task,
        state,
        setup.federation,
        rates,
        classes=setup.classes,
        seed=setup.seed,
    )
    row, table = tuning.findings({"classes": setup.classes})
    return replace(setup, method=method), [row], {"newcomer_rates": table}


@dataclass(frozen=True, eq=False)
class _Scored:
    """What every predictor of a method scored: rows, and what certificates start from."""

    rows: list[Row]
    certification: Mapping[str, Scores]
    seen_error: Mapping[str, float]

    @property
    def held_out(self) -> dict[str, list[ClientScore]]:
        """Scores of the unshifted held-out clients by predictor."""
        return {
            predictor: [one for group, own in held.items() if group.shift == "none" for one in own]
            for predictor, held in self.certification.items()
        }


def _scored(setup: Setup, state: State, cell: TrainingCell) -> _Scored:
    rows: list[Row] = []
    certification: dict[str, Scores] = {}
    seen_error: dict[str, float] = {}
    for predictor in setup.method.predictors:
        common: Row = {"classes": setup.classes, "predictor": predictor}
        scored = _by_group(setup, state, cell, predictor)
        unshifted: dict[str, GroupScore] = {}
        for group, scores in scored.items():
            total = group_score(scores)
            rows += client_rows(group, scores, common)
            rows += group_rows(group, total, common)
            if group.shift == "none":
                unshifted[group.name] = total
        rows += effect_rows(scored, common)
        rows += _on_validation(setup, state, common)
        if "novel" in unshifted:
            rows.append({**common, **gap_row(setup.federation.novel, unshifted)})
        seen_error[predictor] = unshifted["seen"].pooled
        held_out = setup.federation.certification.name
        certification[predictor] = {g: s for g, s in scored.items() if g.name == held_out}
    return _Scored(rows, certification, seen_error)


def _on_validation(setup: Setup, state: State, common: Row) -> list[Row]:
    """Measure the seen clients on their validation data, by which a report chooses a model."""
    group = setup.federation.validation
    if not len(group.clients):
        return []
    total = group_score(setup.score(state, group, predictor=common["predictor"]))
    told = {"metric": "validation_error", "aggregation": "per-client", "value": total.per_client}
    return [{**common, **group.condition(), "n_clients": len(group.clients), **told}]


def _by_group(setup: Setup, state: State, cell: TrainingCell, predictor: str) -> Scores:
    """Score all groups with a predictor, held-out clients as the certificates require."""
    score = partial(setup.score, state, predictor=predictor)
    federation = setup.federation
    return {
        group: score_certification(cell, score, group)
        if group.name == federation.certification.name
        else score(group)
        for group in federation.evaluated()
    }


def _bounded(model: TrainedModel, asked: Bounds, classes: str) -> tuple[list[Row], ...]:
    """Return rows and facts of the papers' bounds, and of one's own, on the model."""
    rows: list[Row] = []
    facts: list[Row] = []
    for name, trusted in bound_names(asked).items():
        for published in bound_called(name, trusted=trusted).follow(model):
            group = published.group
            where = {"classes": classes, **group.condition(), "n_clients": len(group.clients)}
            rows += certificate_rows(published.certificate, bound=name, common=where)
            facts += certificate_facts(
                published.certificate,
                bound=name,
                shift=group.shift,
                severity=group.severity,
                inputs=published.inputs,
            )
    return rows, facts


def _convergence(setup: Setup, curve: Curve) -> list[Row]:
    if not is_about(setup.method):
        return []
    keys = ("cohort", "local_steps", "batch_size")
    portions = {key: getattr(setup.budget, key) for key in keys}
    n_clients = len(setup.federation.seen.clients)
    return convergence_rows(curve.quantities, setup.method, n_clients=n_clients, **portions)


def evaluate_method(
    cell: TrainingCell, on_round: OnRound | None, checkpoints: Checkpoints
) -> Outcome:
    """Do the work of one cell of a method."""
    setup = setup_of(cell)
    curve, plan, state = _trained(setup, cell, on_round, checkpoints)
    setup, rows, tuned = _with_rate(setup, state, cell)
    method, task, federation = setup.method, setup.task, setup.federation
    scored = _scored(setup, state, cell)
    rows += scored.rows + blindness_rows(
        method,
        task,
        state,
        federation.seen,
        classes=setup.classes,
        predictor=setup.judged,
        seed=setup.seed,
    )
    unshifted = federation.seen, federation.novel
    rows += choice_rows(method, task, state, unshifted, classes=setup.classes)
    rows += ridge_rows(setup, state, federation.novel)

    def support_scores(predictor: str) -> Sequence[ClientScore]:
        return setup.score(state, federation.seen, predictor=predictor, measured_on="support")

    model = TrainedModel(
        method=method,
        task=task,
        state=state,
        federation=federation,
        seen_error=scored.seen_error,
        support_scores=support_scores,
        seed=setup.seed,
        held_out=scored.held_out,
        points=lambda group, predictor: setup.points(state, group, predictor=predictor),
    )
    certified = certify_all(
        Request(entry, model, cell, scored.certification) for entry in cell.certificates
    )
    bounds, facts = _bounded(model, cell.bounds, setup.classes)
    chosen, along = curve_findings(curve, plan, {"classes": setup.classes})
    asked, measures = measure_all(model, cell.evaluation.measures or ())
    measured_rows = [*_convergence(setup, curve), *asked]
    rows += [*certified.rows, *bounds, *chosen]
    rows += [{"classes": setup.classes, **row} for row in measured_rows]
    sizes = client_targets(method, task, state, federation)
    artifacts = {**sizes, **along, **tuned, **measures, **certified.artifacts}
    if facts := [*certified.facts, *facts]:
        artifacts["certificates"] = Artifact(kind="certificates", table=facts, axes=("fact",))
    trained = curve.round if chosen else cell.train.rounds
    named = {"personalization": setup.personalization, "round": trained}
    return Outcome([{**named, **row} for row in rows], artifacts)


def evaluate_whole(
    cell: TrainingCell,
    on_round: OnRound | None = None,
    kept: Checkpoints = NO_CHECKPOINTS,
) -> Outcome:
    """Train on all clients but the novel ones and measure these; raises as `evaluate_cell`."""
    setup = setup_of(cell)
    everyone, novel, validation = setup.through(*joined(setup.dealt))
    # What new clients' models are corrected by is of those that trained, scaled as they are.
    trained = Group("seen", "none", None, everyone)
    judged = replace(trained, clients=validation)
    setup = replace(setup, federation=replace(setup.federation, seen=trained, validation=judged))
    rounds, device = setup.budget.rounds, str(everyone.device)
    slot = kept.slot("train", seed=setup.seed, rounds=rounds, device=device)
    state = setup.train(everyone, slot, on_round=on_round)
    group = Group("novel", "none", None, novel)
    rows: list[Row] = []
    for predictor in setup.method.predictors:
        scores = setup.score(state, group, predictor=predictor)
        common: Row = {"classes": setup.classes, "predictor": predictor}
        rows += score_rows(group, scores, common)
    named = {"personalization": setup.personalization, "round": cell.train.rounds}
    return Outcome([{**row, **named} for row in rows], {})


_Training = Callable[[TrainingCell, OnRound | None, Checkpoints], Outcome]
_TRAINING: Mapping[str, _Training] = MappingProxyType(
    {
        "method": evaluate_method,
        "whole": evaluate_whole,
        **{kind: route.follow for kind, route in CELL_ROUTES.items()},
    }
)


def evaluate_cell(
    config: Mapping[str, Any],
    on_round: OnRound | None = None,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> Outcome:
    """Do the work of the cell with this ``config.json``; rows lack the columns that only name it.

    ``checkpoints`` give each training a slot to save in and to resume from.  ``DivergedError``: the
    training loss stops being finite; ``InputError``: the data or the split cannot be made, the
    split has too few clients for a certificate, or its route cannot be used with the method.
    """
    cell = read_cell(config)
    if isinstance(cell, DenoisingCell):
        return Outcome(*denoising_findings(cell.denoising))
    if isinstance(cell, SplitCell):
        classifier = cell.evaluation.domain_classifier
        return Outcome(*split_facts(federation_of(cell), classifier=classifier))
    outcome = _TRAINING[cell.kind](cell, on_round, checkpoints)
    if not cell.certificates:
        return outcome
    split = federation_of(cell).split
    vouched = vouched_for(cell.train.rounds, cell.model)
    return with_caveats(outcome, cell.certificates, split, vouched=vouched)
