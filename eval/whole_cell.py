"""The cell that says what holding clients out costs: the method trained on them as well.

A certificate of held-out clients is about a system that did without them.  This one trains the same
method, seed and rounds on seen and certification clients together, inputs scaled by all of their
support, and measures the novel clients.  Nothing of it is certified.
"""

from collections.abc import Callable, Mapping
from typing import Any

from latecomer.eval.arrivals import joined
from latecomer.eval.cell_parts import Outcome, Row, budget_of, federation_of, task_of
from latecomer.eval.checkpoints import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.federation import Group
from latecomer.eval.metrics import group_score
from latecomer.eval.score_rows import client_rows, group_rows
from latecomer.eval.serving import score_group
from latecomer.models.engine import RoundLog, train
from latecomer.models.methods import make_method

__all__ = ["evaluate_whole"]


def evaluate_whole(
    config: Mapping[str, Any],
    on_round: Callable[[RoundLog], None] | None = None,
    kept: Checkpoints = NO_CHECKPOINTS,
) -> Outcome:
    """Train on all clients but the novel ones and measure these.

    Raises
    ------
    DivergedError
        When the training loss stops being finite.
    """
    federation = federation_of(config)
    method = make_method(**{k: v for k, v in config["method"].items() if k != "label"})
    task = task_of(federation, config, method)
    seed, classes = int(config["seed"]), config["evaluation"]["classes"]
    everyone, novel = joined(federation)
    budget = budget_of(config)
    slot = kept.slot("train", seed=seed, rounds=budget.rounds, device=str(everyone.device))
    state = train(
        method,
        task,
        everyone,
        budget,
        seed=seed,
        on_round=on_round,
        path=config["train"].get("path", "auto"),
        resume=slot.load(),
        on_checkpoint=slot.offer,
    )
    group = Group("novel", "none", None, novel)
    rows: list[Row] = []
    for predictor in method.predictors:
        scores = score_group(
            method, task, state, group, classes=classes, predictor=predictor, seed=seed
        )
        common: Row = {"classes": classes, "predictor": predictor}
        rows += client_rows(group, scores, common)
        rows += group_rows(group, group_score(scores), common)
    named = {"personalization": method.personalization, "round": config["train"]["rounds"]}
    return Outcome([{**row, **named} for row in rows], {})
