r"""What one cell does: train, serve, score, certify, measure; or simulate noisy solutions.

The simulation: client i has a design :math:`X_i` with orthonormal columns and labels :math:`y_i =
X_i\theta_i^* + \sigma z`.  Its own least-squares solution is :math:`\bar\theta_i = X_i^Ty_i =
\theta_i^* + \sigma\epsilon_i` with :math:`\epsilon_i` standard normal: exactly, where the paper has
a limit. True models lie in a subspace of the few dimensions with nonzero variance.  The best linear
hypernetwork of k dimensions gives :math:`\bar\theta_i` projected on the k leading principal
components, uncentred (Proposition 1).  Errors are :math:`|\hat\theta_i - \theta_i^*|^2`, a client's
excess loss on its own design.

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
from numpy.typing import NDArray

from latecomer.bounds import linear_optimum
from latecomer.errors import InputError
from latecomer.eval.federation.groups import Group, split_facts
from latecomer.eval.measures.differences import blindness_rows, correlations_of
from latecomer.eval.measures.of_a_model import choice_rows, client_targets, measure_all, ridge_rows
from latecomer.eval.measures.registry import bound_called
from latecomer.eval.measures.theorem31 import convergence_rows, converging, is_about
from latecomer.eval.results.rows import Artifact
from latecomer.eval.routes.arrivals import joined
from latecomer.eval.routes.contract import Request, certify_all
from latecomer.eval.routes.r0_held_out import score_certification
from latecomer.eval.routes.registry import CELL_ROUTES, read_cell
from latecomer.eval.routes.rows import certificate_facts, certificate_rows, with_caveats
from latecomer.eval.scoring.rows import client_rows, effect_rows, gap_row, group_rows
from latecomer.eval.scoring.scores import ClientScore, GroupScore, group_score
from latecomer.eval.settings.cell import DenoisingCell, SplitCell, TrainingCell
from latecomer.eval.settings.study_sections import Bounds, Denoising, bound_names
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

Floats = NDArray[np.float64]
Row = dict[str, Any]

_INERTIA = 0.9
SOLVERS = ("local", "principal components", "gradient descent")


@dataclass(frozen=True, eq=False)
class LinearClients:
    """Linear regressions with orthonormal designs.

    Attributes
    ----------
    designs : ndarray of shape [n, m, d]
        With orthonormal columns.
    labels : ndarray of shape [n, m]
    truth : ndarray of shape [n, d]
        The models behind the labels.
    """

    designs: Floats
    labels: Floats
    truth: Floats

    @property
    def solutions(self) -> Floats:
        """Each client's least-squares solution, ``[n, d]``."""
        solutions: Floats = np.einsum("nmd,nm->nd", self.designs, self.labels)
        return solutions

    def error(self, models: Floats) -> float:
        """Return the mean over clients of the squared distance from their true models."""
        return float(np.square(models - self.truth).sum(axis=1).mean())


def draw_clients(
    rng: np.random.Generator, truth: Floats, *, n_samples: int, noise: float
) -> LinearClients:
    """Draw designs and labels for clients of these true models.

    Parameters
    ----------
    rng : numpy.random.Generator
    truth : ndarray of shape [n, d]
    n_samples : int
        Samples per client, at least d.
    noise : float
        Standard deviation of the label noise.
    """
    n, d = truth.shape
    designs = np.linalg.qr(rng.standard_normal((n, n_samples, d)))[0]
    labels = np.einsum("nmd,nd->nm", designs, truth)
    labels = labels + noise * rng.standard_normal((n, n_samples))
    return LinearClients(designs, labels, truth)


def train_linear(
    clients: LinearClients, dimension: int, *, rounds: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    r"""Train :math:`\theta_i = Wv_i` by gradient descent on the clients' losses.

    Every round all clients send the gradient of :math:`|X_i\theta_i - y_i|^2` at the model they
    got, which for an orthonormal design is :math:`2(\theta_i - X_i^Ty_i)`; the server propagates it
    back to W and the descriptors. (Several local steps would scale all of them by one factor.)

    Returns
    -------
    tuple of ndarray
        W ``[d, k]`` and the descriptors ``[n, k]``.
    """
    solutions = clients.solutions
    n, d = solutions.shape
    size = float(np.linalg.norm(solutions, 2))
    weights = rng.standard_normal((d, dimension)) * (size / d) ** 0.5
    descriptors = rng.standard_normal((n, dimension)) * (size / n) ** 0.5
    moving = [np.zeros_like(weights), np.zeros_like(descriptors)]
    # Near an optimum the norm of both factors is the square root of the solutions' norm.
    lr = 0.1 / (4 * size)
    for _ in range(rounds):
        against = 2 * (descriptors @ weights.T - solutions)
        slopes = (against.T @ descriptors, against @ weights)
        moving = [_INERTIA * old + new for old, new in zip(moving, slopes, strict=True)]
        weights, descriptors = weights - lr * moving[0], descriptors - lr * moving[1]
    return weights, descriptors


def fixed_subspace_error(variances: Floats, subspace: Floats, noise: float) -> float:
    r"""Return the expected error of new clients whose solutions are projected on a subspace.

    .. math:: \operatorname{tr}((I-P)\Sigma) + \sigma^2k

    The first term is what the subspace leaves out, the second the noise that stays; exact for a
    subspace that does not depend on the clients' noise.

    Parameters
    ----------
    variances : ndarray of shape [d, d]
        Second moments :math:`\Sigma` of the true models.
    subspace : ndarray of shape [d, k]
        Orthonormal columns.
    noise : float

    Examples
    --------
    >>> fixed_subspace_error(np.diag([4.0, 1.0, 0.0]), np.eye(3)[:, :1], noise=0.5)
    1.25
    """
    kept = float(np.trace(subspace.T @ variances @ subspace))
    return float(np.trace(variances)) - kept + noise * noise * int(subspace.shape[1])


def estimated_error(solutions: Floats, dimension: int, noise: float) -> float:
    r"""Estimate the mean error after projection on the solutions' own k leading components.

    Unbiased over the noise, from the solutions alone: Stein's estimate
    :math:`(|\bar\Theta - \hat\Theta|^2 + 2\sigma^2\,df)/n - \sigma^2d` with the divergence of a
    truncated singular value decomposition, :math:`df = k(k + |n-d|) +
    2\sum_{i\le k<j}s_i^2/(s_i^2-s_j^2)` (Candès, Sing-Long and Trzasko, 2013). It is unstable
    where two singular values nearly agree.

    Parameters
    ----------
    solutions : ndarray of shape [n, d]
    dimension : int
        k, at most the smaller of n and d.
    noise : float
    """
    n, d = map(int, solutions.shape)
    squares = np.square(np.linalg.svd(solutions, compute_uv=False))
    kept, left = squares[:dimension], squares[dimension:]
    freedom = float(dimension * (dimension + abs(n - d)))
    freedom += 2 * float((kept[:, None] / (kept[:, None] - left[None])).sum())
    return (float(left.sum()) + 2 * noise * noise * freedom) / n - noise * noise * d


def _one_draw(settings: Denoising, noise: float, draw: int) -> list[Row]:
    """Return one record per dimension for one drawn federation."""
    # Every noise level has the same true models and designs.
    rng = np.random.default_rng([settings.seed, draw])
    d, variances = settings.weights, np.asarray(settings.variances, dtype=np.float64)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0][:, : len(variances)]

    def population(n: int) -> LinearClients:
        truth = (rng.standard_normal((n, len(variances))) * np.sqrt(variances)) @ basis.T
        return draw_clients(rng, truth, n_samples=settings.samples, noise=noise)

    seen, novel = population(settings.clients), population(settings.novel)
    moments = (basis * variances) @ basis.T
    order = basis[:, np.argsort(-variances, kind="stable")]
    solutions, newcomers = seen.solutions, novel.solutions
    records = []
    for k in settings.dimensions:
        best = linear_optimum(solutions=solutions, dimension=k)
        weights, descriptors = train_linear(seen, k, rounds=settings.rounds, rng=rng)
        made = descriptors @ weights.T
        span = np.linalg.qr(weights)[0]
        reached = float(np.square(made - solutions).sum())
        records.append(
            {
                "noise": noise,
                "dimension": k,
                "draw": draw,
                "local": seen.error(solutions),
                "principal_components": seen.error(best.descriptors @ best.weights.T),
                "gradient_descent": seen.error(made),
                "novel_local": novel.error(newcomers),
                "novel_principal_components": novel.error(
                    newcomers @ best.weights @ best.weights.T
                ),
                "novel_gradient_descent": novel.error(newcomers @ span @ span.T),
                # Closed forms: noise alone; the best subspace, if known; the draw's own estimate.
                "local_expected": noise * noise * d,
                "known_subspace": _known_subspace(moments, order, k, noise),
                "estimated": estimated_error(solutions, k, noise),
                "novel_expected": fixed_subspace_error(moments, best.weights, noise),
                "optimal_loss": float(best.loss),
                "reached_loss": reached,
            }
        )
    return records


def _known_subspace(moments: Floats, order: Floats, k: int, noise: float) -> float:
    """Return the expected error with the true leading subspace; further dimensions only add noise.

    The basis holds the directions of all variances; others are orthogonal to every true model.
    """
    within = fixed_subspace_error(moments, order[:, :k], noise)
    return within + noise * noise * max(k - int(order.shape[1]), 0)


def denoising_findings(settings: Denoising) -> tuple[list[Row], dict[str, Artifact]]:
    """Return rows and the artifact ``linear_denoising`` of a study's section ``denoising``.

    The artifact has a record per noise, dimension and draw. Rows ``denoising_error`` are means over
    draws with a 95% normal interval for the mean; ``term`` names the estimator, k and noise.
    """
    table = [
        record
        for noise in settings.noise
        for draw in range(settings.draws)
        for record in _one_draw(settings, noise, draw)
    ]
    rows: list[Row] = []
    for noise in settings.noise:
        for k in settings.dimensions:
            own = [r for r in table if r["noise"] == noise and r["dimension"] == k]
            for group, prefix in (("seen", ""), ("novel", "novel_")):
                n_clients = settings.clients if group == "seen" else settings.novel
                for solver in SOLVERS:
                    values = np.array([r[prefix + solver.replace(" ", "_")] for r in own])
                    term = f"{solver}, k={k}, noise={noise:g}"
                    rows.append(_row(group, n_clients, term, values))
            known = np.array([r["known_subspace"] for r in own])
            rows.append(_row("novel", "", f"known subspace, k={k}, noise={noise:g}", known))
    artifact = Artifact(kind="linear_denoising", table=table, axes=("record",))
    return rows, {"linear_denoising": artifact}


def _row(group: str, n_clients: int | str, term: str, values: Floats) -> Row:
    mean, half = float(values.mean()), 0.0
    if len(values) > 1:
        half = 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5
    about = {"group": group, "shift": "none", "n_clients": n_clients, "metric": "denoising_error"}
    return {**about, "term": term, "value": mean, "lower": mean - half, "upper": mean + half}


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
        rows += client_rows(group, scores, common)
        rows += group_rows(group, group_score(scores), common)
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
    """Do the work of one cell.

    Parameters
    ----------
    config : mapping
        The cell's ``config.json``.
    on_round : callable, optional
        Called with a ``RoundLog`` after every training round.
    checkpoints : Checkpoints
        Gives each training of the cell a slot to save its checkpoints in and to resume from.

    Returns
    -------
    Outcome
        Rows without the columns that only name the cell (the runner adds those), and artifacts.

    Raises
    ------
    DivergedError
        When the training loss stops being finite.
    InputError
        When the data or the split cannot be made, when the split has too few clients for a
        certificate, or when its route cannot be used with the method.
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
    split, trained = federation_of(cell).split, cell.train.rounds > 0
    return with_caveats(outcome, cell.certificates, split, trained=trained)
