"""Rows that compare a training with Theorem 3.1 of PeFLL: both sides, the right one by terms."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from latecomer.bounds import pefll_31, pefll_31_minT
from latecomer.eval.measures.theorem31 import PROBED
from latecomer.models.families.generated_clients import GeneratedClients

Row = dict[str, Any]

# Terms of the rate, and the arguments of the calculator that are not set to 0 for each.
RATE_TERMS: Mapping[str, tuple[str, ...]] = {
    "start": ("initial_gap",),
    "local noise": ("smoothness", "generator_gradient", "loss_noise"),
    "dissimilarity": ("smoothness", "client_dissimilarity"),
    "drift": ("loss_smoothness", "loss_gradient", "generator_gradient"),
    "descriptor batches, gradient": ("loss_gradient", "generator_noise"),
    "descriptor batches, weights": ("loss_smoothness", "generator_gradient", "model_noise"),
}
_EXACT = ("objective", "squared_gradient_norm")
_CONSTANTS = (
    *("smoothness", "loss_smoothness", "loss_gradient", "generator_gradient"),
    *("loss_noise", "generator_noise", "model_noise", "client_dissimilarity"),
)
_ON_ALL = ("smoothness", "loss_gradient", "client_dissimilarity")
_HEURISTIC = (
    "no bound: its constants are the largest found along this training, which can only be too "
    "small, and the training is not the theorem's (AdamW at the server, momentum, its own steps)"
)
_NO_BOUND: Row = {"rigorous": False, "message": _HEURISTIC}


def convergence_rows(
    records: Sequence[Mapping[str, Any]],
    method: GeneratedClients,
    *,
    n_clients: int,
    cohort: int,
    local_steps: int,
    batch_size: int,
) -> list[Row]:
    """Return the rows of what was measured along a training.

    Parameters
    ----------
    records : sequence of mapping
        ``Curve.quantities``: what ``latecomer.eval.measures.theorem31.quantities`` found, by
        ``round``; the first is of round 0. Without records there are no rows.
    method : GeneratedClients
        Gives the learning rates.
    n_clients, cohort, local_steps, batch_size : int
        Seen clients, and the training's cohort, local steps and batch size.

    Returns
    -------
    list of dict
        With their ``round``. Each quantity under its own name. From the first measured round T > 0
        on ``mean_squared_gradient_norm``, the theorem's left side over the measured rounds up to T,
        and ``convergence_rate``, its right side for trainings of T rounds with the largest
        constants of the whole training, in total and term by term. At the last round
        ``convergence_rounds`` (the fewest for which the theorem is proved with these constants) and
        ``step_size`` by ``term``: the server's, the clients', the theorem's.
    """
    if not records:
        return []
    where: Row = {"group": "seen", "shift": "none", "n_clients": n_clients}
    rows = [
        {**where, "round": record["round"], "metric": name, "value": record[name], **_said(name)}
        for record in records
        for name in (*_EXACT, *_CONSTANTS)
    ]
    constants = {name: max(record[name] for record in records) for name in _CONSTANTS}
    # Cross-entropy and ridges are at least 0, so 0 is a lower bound of the objective.
    inputs = {"initial_gap": float(records[0]["objective"]), **constants}
    portions: dict[str, Any] = {"cohort": cohort, "local_steps": local_steps}
    later = [record for record in records if record["round"] > 0]
    rows += [
        {**where, **row}
        for number in range(1, len(later) + 1)
        for row in _rates(later[:number], inputs, {**portions, "batch_size": batch_size})
    ]
    last = {**where, "round": records[-1]["round"]}
    if constants["smoothness"] > 0:
        names = ("smoothness", "loss_smoothness")
        least = float(pefll_31_minT(**{name: constants[name] for name in names}, **portions))
        rows.append({**last, "metric": "convergence_rounds", "value": least, **_NO_BOUND})
    steps = {"server": method.server_lr, "clients": method.local_lr}
    if last["round"]:
        steps["theorem"] = 2 * cohort**0.5 / (local_steps * float(last["round"]) ** 0.5)
    named = {**last, "metric": "step_size"}
    return rows + [{**named, "term": term, "value": step} for term, step in steps.items()]


def _rates(
    measured: Sequence[Mapping[str, Any]], inputs: Mapping[str, float], portions: Mapping[str, Any]
) -> Iterator[Row]:
    """Yield the theorem's two sides at the last of the rounds measured so far."""
    now = {"round": measured[-1]["round"]}
    norms = [float(one["squared_gradient_norm"]) for one in measured]
    yield {**now, "metric": "mean_squared_gradient_norm", "value": float(np.mean(norms))}
    for term, used in {"": tuple(inputs), **RATE_TERMS}.items():
        kept: dict[str, Any] = {
            name: value if name in used else 0.0 for name, value in inputs.items()
        }
        rate = float(pefll_31(**kept, **portions, n_rounds=int(now["round"])))
        yield {**now, "metric": "convergence_rate", "term": term, "value": rate, **_NO_BOUND}


def _said(name: str) -> Row:
    if name in _EXACT:
        return {}
    among = "all seen clients" if name in _ON_ALL else f"at most {PROBED} seen clients"
    text = f"at this round's parameters, {among}: a lower estimate of the theorem's constant"
    return {"rigorous": False, "message": text}
