"""The cell of route R4: train, score new clients, let them join, train on; then the certificate."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from latecomer.errors import InputError
from latecomer.eval.federation.groups import Group
from latecomer.eval.routes.arrivals import arrivals
from latecomer.eval.routes.kinds.r4 import Progressive
from latecomer.eval.routes.r4_progressive import Plan, Step, score_then_train
from latecomer.eval.routes.r4_rows import (
    ARRIVING,
    checkpoint_table,
    novel_rows,
    progress_findings,
)
from latecomer.eval.scoring.cross_fitting import cross_fitted
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.settings.cell import TrainingCell
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS, Checkpoints, Slot
from latecomer.eval.training.setup import Outcome, setup_of
from latecomer.models.engine.growing import admit, subset, train_on
from latecomer.models.engine.method import Method
from latecomer.models.engine.training import RoundLog, TrainConfig, train
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

Serve = Callable[[State, str, Clients], list[ClientScore]]
"""Scores clients under a system as new clients: (state, name of the group, clients)."""


def checkpoints(
    method: Method,
    task: Task,
    order: Clients,
    plan: Plan,
    *,
    start: TrainConfig,
    further: TrainConfig,
    serve: Serve,
    seed: int,
    on_round: Callable[[RoundLog], None] | None = None,
    path: str = "auto",
    slot: Slot | None = None,
) -> Iterator[tuple[State, Step | None]]:
    """Yield each system with the scores of the block that it scored, the last one with None.

    Parameters
    ----------
    method, task
        What is trained.
    order : Clients
        Clients in the order they arrive, those that train first before the certified ones.
    plan : Plan
    start, further : TrainConfig
        Budget before the first score, and after every block.
    serve : callable
        Scores clients as new clients.
    seed, on_round, path
        As for :func:`latecomer.models.engine.training.train`.
    slot : Slot, optional
        Where the training before the first score keeps its checkpoints.

    Raises
    ------
    InputError
        When the method cannot take in clients that join.
    """
    growing = _Growing(
        method, task, order, plan, start.rounds, further, serve, on_round, seed, path
    )
    state = train(
        method,
        task,
        subset(order, range(plan.first)),
        start,
        seed=seed,
        on_round=on_round,
        path=path,
        resume=slot.load() if slot else None,
        on_checkpoint=slot.offer if slot else None,
    )
    return score_then_train(state, plan.blocks, growing.score, growing.train)


@dataclass(frozen=True, eq=False)
class _Growing:
    """How a block is scored, and how training goes on once it has joined."""

    method: Method
    task: Task
    order: Clients
    plan: Plan
    rounds_before: int
    further: TrainConfig
    serve: Serve
    on_round: Callable[[RoundLog], None] | None
    seed: int
    path: str

    def _number(self, block: range) -> int:
        return (block.start - self.plan.first) // self.plan.block

    def score(self, state: State, block: range) -> Step:
        """Score the block's clients as new clients."""
        scores = self.serve(state, ARRIVING, subset(self.order, block))
        return Step(self._number(block), block.start, tuple(scores))

    def train(self, state: State, block: range) -> State:
        """Let the block join, and train on."""
        now = subset(self.order, range(block.stop))
        method, task, further = self.method, self.task, self.further
        try:
            grown = admit(method, task, state, now, further, seed=self.seed)
        except ValueError as error:
            raise InputError(f"certificates r4: {error}") from None
        return train_on(
            method,
            task,
            grown,
            now,
            further,
            seed=self.seed,
            first_round=self.rounds_before + self._number(block) * further.rounds,
            joined=block,
            on_round=self.on_round,
            path=self.path,
        )


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
    for system, step in checkpoints(
        setup.method,
        setup.task,
        order,
        plan,
        start=start,
        further=further,
        serve=serve,
        seed=setup.seed,
        on_round=on_round,
        path=setup.path,
        slot=kept.slot("first", seed=setup.seed, rounds=start.rounds, device=str(order.device)),
    ):
        last = serve(system, "novel", novel)
        if step is not None:
            steps.append(step)
            by_checkpoint.append(last)
    rounds = (start.rounds, further.rounds)
    rows, artifacts = progress_findings(wanted, plan, rounds, steps, wanted.sharing(cell.n_seeds))
    group = Group("novel", "none", None, novel)
    rows += novel_rows(group, by_checkpoint, last)
    artifacts["checkpoints"] = checkpoint_table(rounds, steps, by_checkpoint)
    named = {"classes": setup.classes, "personalization": setup.method.personalization}
    final = start.rounds + len(plan.blocks) * further.rounds
    return Outcome([{**named, "round": final, **row} for row in rows], artifacts)
