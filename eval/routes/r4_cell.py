"""The cell of route R4: train, score new clients, let them join, train on; then the certificate."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from latecomer.errors import InputError
from latecomer.eval.federation.groups import Group
from latecomer.eval.results.rows import Artifact
from latecomer.eval.routes.arrivals import arrivals
from latecomer.eval.routes.contract import (
    behind,
    certificate_facts,
    certificate_rows,
    outcome_of,
    price_rows,
    sharing_delta,
)
from latecomer.eval.routes.kinds.r4 import Progressive
from latecomer.eval.routes.r4_progressive import Plan, Step, certify_progress, score_then_train
from latecomer.eval.scoring.scores import (
    ClientScore,
    client_rows,
    cross_fitted,
    mean_row,
    score_rows,
)
from latecomer.eval.settings.cell import TrainingCell
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.training.setup import Outcome, setup_of
from latecomer.models.engine.method import Method
from latecomer.models.engine.training import RoundLog, TrainConfig, admit, subset, train_on
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

RANDOM, LAST = "random-checkpoint", "last-checkpoint"
"""Predictors of the rows: the mean over checkpoints (certified), the last one (not certified)."""
ARRIVING = "arriving"
"""Group of the clients that are scored and then trained on."""

Row = dict[str, Any]


def progress_findings(
    wanted: Progressive,
    plan: Plan,
    rounds: tuple[int, int],
    arriving: Group,
    steps: Sequence[Step],
    n_seeds: int,
) -> tuple[list[Row], dict[str, Artifact]]:
    """Return the rows of scores and certificate, and everything behind it.

    ``rounds`` are those before the first score, and after every block; ``steps`` come in order.
    """
    scores = [score for step in steps for score in step.scores]
    delta = wanted.delta / n_seeds
    issued = certify_progress(scores, plan=plan, rule=wanted.rule, delta=delta)
    issued = sharing_delta(issued, n_seeds)
    bound = f"r4:{wanted.rule}"
    drawn: Row = {"predictor": RANDOM}
    rows = [
        {**row, "round": rounds[0] + step.number * rounds[1]}
        for step in steps
        for row in client_rows(arriving, step.scores, drawn)
    ]
    mean = mean_row(arriving, [score.error for score in scores], drawn)
    total = {**drawn, **arriving.condition(), "n_clients": len(scores)}
    rows += [mean, *certificate_rows(issued, bound=bound, common=total)]
    rows += price_rows(issued, bound=bound, common=total, pool_size=None)
    support = sorted(score.n_support for score in scores)
    inputs = [
        ("mean_error", mean["value"], "mean score, each taken before its client was trained on"),
        ("n_clients", float(len(scores)), "clients certified, then trained on"),
        ("first", float(plan.first), "clients trained on before the first score"),
        ("block", float(plan.block), "clients scored by one checkpoint"),
        ("checkpoints", float(len(plan.blocks)), "systems that scored, averaged over"),
        ("pool_size", float(plan.pool), "clients not trained on before the first score"),
        ("rounds_first", float(rounds[0]), "rounds before the first score"),
        ("rounds_per_block", float(rounds[1]), "rounds after every block"),
        ("folds", float(wanted.folds), "1: support and query data as split"),
        ("n_seeds", float(n_seeds), "training seeds that share delta"),
        ("n_support_min", float(support[0]), "support samples of the smallest certified client"),
        ("n_support_max", float(support[-1]), "support samples of the largest certified client"),
    ]
    return rows, behind(certificate_facts(issued, bound=bound, inputs=inputs))


def checkpoint_table(
    rounds: tuple[int, int], steps: Sequence[Step], by_checkpoint: Sequence[Sequence[ClientScore]]
) -> Artifact:
    """Return one record per checkpoint: whom it scored, and how it serves the new clients."""
    table = [
        {
            "step": step.number,
            "round": rounds[0] + step.number * rounds[1],
            "n_trained": step.trained,
            "clients": " ".join(str(score.client) for score in step.scores),
            "score": float(np.mean([score.error for score in step.scores])),
            "novel_error": float(np.mean([s.error for s in served])) if served else "",
        }
        for step, served in zip(steps, by_checkpoint, strict=True)
    ]
    return Artifact(kind="checkpoints", table=table, axes=("step",))


def novel_rows(
    novel: Group, by_checkpoint: Sequence[Sequence[ClientScore]], last: Sequence[ClientScore]
) -> list[Row]:
    """Rows of new clients' errors: the mean over checkpoints, and the last checkpoint's."""
    if not last:
        return []
    drawn = np.mean([[s.error for s in served] for served in by_checkpoint], axis=0).tolist()
    about = client_rows(novel, last, {"predictor": RANDOM})
    rows = [{**row, "value": value} for row, value in zip(about, drawn, strict=True)]
    mean = mean_row(novel, drawn, {"predictor": RANDOM})
    return [*rows, mean, *score_rows(novel, last, {"predictor": LAST})]


Serve = Callable[[State, str, Clients], list[ClientScore]]
"""Scores clients under a system as new clients: (state, name of the group, clients)."""


def checkpoints(
    method: Method,
    task: Task,
    order: Clients,
    plan: Plan,
    first: State,
    *,
    rounds: int,
    further: TrainConfig,
    serve: Serve,
    seed: int,
    on_round: Callable[[RoundLog], None] | None = None,
    path: str = "auto",
) -> Iterator[tuple[State, Step | None]]:
    """Yield each system with the scores of the block that it scored, the last one with None.

    Clients arrive in ``order``, those that train first before the certified ones; ``first`` is
    their system after ``rounds``. ``further`` is the budget after every block; ``serve`` scores
    clients as new clients.

    Raises
    ------
    InputError
        When the method cannot take in clients that join.
    """

    def number(block: range) -> int:
        return (block.start - plan.first) // plan.block

    def score(state: State, block: range) -> Step:
        scores = serve(state, ARRIVING, subset(order, block))
        return Step(number(block), block.start, tuple(scores))

    def train(state: State, block: range) -> State:
        now = subset(order, range(block.stop))
        try:
            grown = admit(method, task, state, now, further, seed=seed)
        except ValueError as error:
            raise InputError(f"certificates r4: {error}") from None
        return train_on(
            method,
            task,
            grown,
            now,
            further,
            seed=seed,
            first_round=rounds + number(block) * further.rounds,
            joined=block,
            on_round=on_round,
            path=path,
        )

    return score_then_train(first, plan.blocks, score, train)


def evaluate_progressive(
    cell: TrainingCell,
    on_round: Callable[[RoundLog], None] | None = None,
    kept: Checkpoints = NO_CHECKPOINTS,
) -> Outcome:
    """Do the work of one cell of route R4; errors are those of `evaluate_cell`."""
    wanted = cell.only(Progressive)
    setup = setup_of(cell)
    split, start = setup.federation.split, setup.budget
    plan = wanted.plan(split)
    further = replace(start, rounds=wanted.rounds_per_block)
    order, novel = setup.through(*arrivals(setup.dealt, plan))

    def serve(state: State, group: str, clients: Clients) -> list[ClientScore]:
        folds = wanted.folds if group == ARRIVING else 1
        whole = Group(group, "none", None, clients)
        return cross_fitted(partial(setup.score, state), whole, folds=folds, seed=split.seed)

    steps: list[Step] = []
    by_checkpoint: list[list[ClientScore]] = []
    last: list[ClientScore] = []
    slot = kept.slot("first", seed=setup.seed, rounds=start.rounds, device=str(order.device))
    first = setup.train(subset(order, range(plan.first)), slot, on_round=on_round)
    for system, step in checkpoints(
        setup.method,
        setup.task,
        order,
        plan,
        first,
        rounds=start.rounds,
        further=further,
        serve=serve,
        seed=setup.seed,
        on_round=on_round,
        path=setup.path,
    ):
        last = serve(system, "novel", novel)
        if step is not None:
            steps.append(step)
            by_checkpoint.append(last)
    rounds = (start.rounds, further.rounds)
    arriving, newcomers = (
        Group(name, "none", None, who) for name, who in ((ARRIVING, order), ("novel", novel))
    )
    n_seeds = wanted.sharing(cell.n_seeds)
    rows, artifacts = progress_findings(wanted, plan, rounds, arriving, steps, n_seeds)
    rows += novel_rows(newcomers, by_checkpoint, last)
    artifacts["checkpoints"] = checkpoint_table(rounds, steps, by_checkpoint)
    return outcome_of(setup, start.rounds + len(plan.blocks) * further.rounds, rows, artifacts)
