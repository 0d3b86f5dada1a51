"""The cell that measures what holding clients out costs: the method trained on them as well.

A certificate of held-out clients is about a system trained without them.  This one trains the same
method, seed and rounds on seen and held-out clients together, inputs scaled by all of their
support, and measures the new clients.  Nothing of it is certified.
"""

from dataclasses import replace

from latecomer.eval.federation.groups import Group
from latecomer.eval.routes.arrivals import joined
from latecomer.eval.scoring.rows import client_rows, group_rows
from latecomer.eval.scoring.scores import group_score
from latecomer.eval.settings.cell import TrainingCell
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.training.setup import OnRound, Outcome, Row, setup_of


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
