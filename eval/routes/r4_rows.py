"""The output of a progressive certificate: rows, and a table of its checkpoints."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latecomer.eval.federation.groups import Group
from latecomer.eval.results.artifacts import Artifact
from latecomer.eval.routes.kinds.r4 import Progressive
from latecomer.eval.routes.r4_progressive import Plan, Step, certify_progress
from latecomer.eval.routes.rows import (
    certificate_facts,
    certificate_rows,
    one_of_several,
    price_rows,
)
from latecomer.eval.scoring.rows import client_rows, group_rows
from latecomer.eval.scoring.scores import ClientScore, group_score

__all__ = ["ARRIVING", "LAST", "RANDOM", "checkpoint_table", "novel_rows", "progress_findings"]

RANDOM, LAST = "random-checkpoint", "last-checkpoint"
"""Predictors of the rows: the mean over checkpoints (certified), the last one (not certified)."""
ARRIVING = "arriving"
"""Group of the clients that are scored and then trained on."""

Row = dict[str, Any]


def progress_findings(
    wanted: Progressive,
    plan: Plan,
    rounds: tuple[int, int],
    steps: Sequence[Step],
    n_seeds: int = 1,
) -> tuple[list[Row], dict[str, Artifact]]:
    """Return the rows of scores and certificate, and everything behind it.

    Parameters
    ----------
    wanted : Progressive
        The entry of the study.
    plan : Plan
    rounds : tuple of int
        Rounds before the first score, and after every block.
    steps : sequence of Step
        All of them, in order.
    n_seeds : int
        Seeds that share the failure probability.
    """
    scores = [score for step in steps for score in step.scores]
    delta = wanted.delta / n_seeds
    issued = certify_progress(scores, plan=plan, rule=wanted.rule, delta=delta)
    if n_seeds > 1:
        shared = one_of_several(n_seeds, "a training seed")
        issued = replace(issued, assumptions=(*issued.assumptions, shared))
    bound = f"r4:{wanted.rule}"
    arriving: Row = {"group": ARRIVING, "shift": "none", "severity": "", "predictor": RANDOM}
    mean = float(np.mean([score.error for score in scores]))
    rows = _step_rows(arriving, rounds, steps)
    total = {**arriving, "n_clients": len(scores)}
    rows.append({**total, "aggregation": "per-client", "metric": "error", "value": mean})
    rows += certificate_rows(issued, bound=bound, common=total)
    rows += price_rows(issued, bound=bound, common=total, n_clients=len(scores), pool_size=None)
    support = sorted(score.n_support for score in scores)
    inputs = [
        ("mean_error", mean, "mean score, each taken before its client was trained on"),
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
    facts = certificate_facts(issued, bound=bound, inputs=inputs)
    return rows, {"certificates": Artifact(kind="certificates", table=facts, axes=("fact",))}


def _step_rows(arriving: Row, rounds: tuple[int, int], steps: Sequence[Step]) -> list[Row]:
    """Return a row for every client's score, with the round of the checkpoint that gave it."""
    return [
        {
            **arriving,
            "client": score.client,
            "n_support": score.n_support,
            "n_query": score.n_query,
            "metric": "error",
            "value": score.error,
            "round": rounds[0] + step.number * rounds[1],
        }
        for step in steps
        for score in step.scores
    ]


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
    drawn = np.mean([[score.error for score in served] for served in by_checkpoint], axis=0)
    about = client_rows(novel, last, {"predictor": RANDOM})
    rows = [{**row, "value": float(value)} for row, value in zip(about, drawn, strict=True)]
    mean = {"aggregation": "per-client", "metric": "error", "value": float(np.mean(drawn))}
    rows.append({**novel.condition(), "predictor": RANDOM, "n_clients": len(last), **mean})
    rows += client_rows(novel, last, {"predictor": LAST})
    rows += group_rows(novel, group_score(last), {"predictor": LAST})
    return rows
