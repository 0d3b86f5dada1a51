"""Measuring a model while it trains: which round to keep, and at what rate new clients learn.

The choice of the round uses the validation data of seen clients and nothing else.

The choice of the rate uses no data of new or held-out clients: seen clients are refitted from their
support, as the method refits new clients, and scored on their validation data. The method was
trained on these supports: where refitting starts from weights that fit them (fine-tuned FedAvg,
Per-FedAvg, FedRep, LG-FedAvg, Ditto, APFL), the error hardly depends on the rate: the choice says
little of new clients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import device

from latecomer.errors import InputError
from latecomer.eval.federation.groups import Federation, Group
from latecomer.eval.results.rows import Artifact
from latecomer.eval.scoring.scores import ClientScore, group_score
from latecomer.eval.scoring.serving import score_group
from latecomer.models.engine.method import Method
from latecomer.models.engine.training import Checkpoint, subset
from latecomer.models.task.state import State, nest, part
from latecomer.models.task.task import Task

Score = Callable[[State, Sequence[Group]], Sequence[Sequence[ClientScore]]]
"""Maps a state and groups to every group's scores."""


@dataclass(frozen=True)
class Plan:
    """What is measured during training."""

    # Populations by their name in the curve; ``validation`` holds the seen clients with their
    # validation data as query.
    groups: Mapping[str, Group]
    every: int  # rounds between two measurements, at least 1; the last round is measured too
    rounds: int  # rounds of training
    # Whether to keep the round with the lowest mean validation error (the first, if tied) instead
    # of the last round.
    chooses: bool
    # Maps a state to further numbers about the population ``novel``, by their column name in the
    # curve; always the same names.
    also: Callable[[State], Mapping[str, Any]] | None = None
    # Maps a state and the rounds done to numbers about the training itself, by name; also called
    # before the first round.
    quantities: Callable[[State, int], Mapping[str, float]] | None = None

    def falls_on(self, rounds_done: int) -> bool:
        """Return whether to measure after this many rounds."""
        return rounds_done % self.every == 0 or rounds_done == self.rounds


@dataclass(frozen=True, eq=False)
class Curve:
    """The measurements so far."""

    # One per measurement and population: ``round`` (rounds done), ``group``, ``n_clients``,
    # ``error`` and ``loss`` (means over clients).
    records: tuple[dict[str, Any], ...] = ()
    round: int = 0  # rounds done by the model to keep; 0 before one is chosen
    # Mean validation error of the model to keep; infinite before one is chosen.
    error: float = float("inf")
    # State of the model to keep, if a round is chosen by validation error.
    state: State | None = None
    # One per measurement, from round 0 on: ``round`` and the plan's quantities.
    quantities: tuple[dict[str, Any], ...] = ()


def begun(curve: Curve, plan: Plan, first: Callable[[], State]) -> Curve:
    """Return the curve with the quantities of the state before training, if requested."""
    if plan.quantities is None or curve.quantities:
        return curve
    return replace(curve, quantities=({"round": 0, **plan.quantities(first(), 0)},))


def measured(curve: Curve, plan: Plan, checkpoint: Checkpoint, score: Score) -> Curve:
    """Return the curve after a round, with any measurement then due and the better model.

    A round that the curve already holds (training resumed from an older checkpoint) is measured
    again and gives the same numbers.
    """
    now = checkpoint.rounds_done
    if not plan.falls_on(now):
        return curve
    scores = score(checkpoint.state, [*plan.groups.values()])
    totals = dict(zip(plan.groups, map(group_score, scores), strict=True))
    more = plan.also(checkpoint.state) if plan.also is not None else {}
    blank = dict.fromkeys(more, "")
    fresh = tuple(
        {
            "round": now,
            "group": name,
            "n_clients": total.n_clients,
            "error": total.per_client,
            "loss": total.loss,
            **(more if name == "novel" else blank),
        }
        for name, total in totals.items()
    )
    before = tuple(record for record in curve.records if record["round"] < now)
    curve = replace(curve, records=before + fresh)
    if plan.quantities is not None:
        earlier = tuple(record for record in curve.quantities if record["round"] < now)
        latest = {"round": now, **plan.quantities(checkpoint.state, now)}
        curve = replace(curve, quantities=(*earlier, latest))
    if plan.chooses and totals["validation"].per_client < curve.error:
        state = checkpoint.state.copy()
        return replace(curve, round=now, error=totals["validation"].per_client, state=state)
    return curve


def stored(curve: Curve, checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint of the training with the curve and the kept model added."""
    told: dict[str, Any] = {"records": list(curve.records), "round": curve.round}
    if curve.quantities:
        told["quantities"] = list(curve.quantities)
    if curve.state is None:
        return replace(checkpoint, selection=told)
    server = {
        **checkpoint.state.server,
        **nest("kept.server", curve.state.server),
        **nest("kept.clients", curve.state.clients),
    }
    told["error"] = curve.error
    return replace(checkpoint, state=State(server, checkpoint.state.clients), selection=told)


def restored(checkpoint: Checkpoint | None, where: device) -> tuple[Curve, Checkpoint | None]:
    """Return the curve and the plain checkpoint that :func:`stored` combined.

    The curve's state, which may be served without a further round, is put on the device ``where``.
    """
    if checkpoint is None:
        return Curve(), None
    told = checkpoint.selection
    curve = Curve(
        tuple(told.get("records", ())),
        int(told.get("round", 0)),
        quantities=tuple(told.get("quantities", ())),
    )
    server = checkpoint.state.server
    if "error" not in told:
        return curve, checkpoint
    kept = State(part(server, "kept.server"), part(server, "kept.clients"))
    own = {key: value for key, value in server.items() if not key.startswith("kept.")}
    plain = replace(checkpoint, state=State(own, checkpoint.state.clients))
    served = Checkpoint(curve.round, kept).state_on(where)
    return replace(curve, error=float(told["error"]), state=served), plain


def curve_findings(
    curve: Curve, plan: Plan | None, common: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Artifact]]:
    """Return the row ``selected_round`` (if a round is chosen) and the curve as an artifact.

    The artifact ``training_curve`` has the records of :class:`Curve` and ``kept``, which says
    whether the results in all rows are for that round's model.
    """
    if plan is None:
        return [], {}
    final = curve.round if plan.chooses else plan.rounds
    table = [{**record, "kept": int(record["round"] == final)} for record in curve.records]
    artifacts = {"training_curve": Artifact(kind="training_curve", table=table, axes=("record",))}
    if not plan.chooses:
        return [], artifacts
    row = {
        **common,
        "group": "seen",
        "shift": "none",
        "n_clients": len(plan.groups["validation"].clients),
        "metric": "selected_round",
        "value": float(final),
        "message": "lowest mean validation error of the seen clients, the first of equals",
    }
    return [row], artifacts


# The usual number of new clients in a study; the same clients are used for all rates.
REFITTED = 10


@dataclass(frozen=True)
class Rates:
    """Learning rates tried on seen clients refitted as new clients."""

    # Rates with their mean validation errors, in the study's order.
    tried: tuple[tuple[float, float], ...]
    chosen: float  # the rate with the lowest error (the first, if tied)
    n_clients: int  # seen clients refitted

    def findings(self, common: Mapping[str, Any]) -> tuple[dict[str, Any], Artifact]:
        """Return the row ``novel_lr`` and the table of the rates tried."""
        told = ", ".join(f"{rate:g}: {error:.3f}" for rate, error in self.tried)
        row = {
            **common,
            "group": "seen",
            "shift": "none",
            "n_clients": self.n_clients,
            "metric": "novel_lr",
            "value": self.chosen,
            "message": f"least validation error of seen clients refitted as new clients ({told})",
        }
        table = [
            {"rate": rate, "error": error, "chosen": int(rate == self.chosen)}
            for rate, error in self.tried
        ]
        return row, Artifact(kind="newcomer_rates", table=table, axes=("rate",))


def tune_newcomers(
    method: Method,
    task: Task,
    state: State,
    federation: Federation,
    rates: Sequence[float],
    *,
    classes: str,
    seed: int,
) -> tuple[Method, Rates]:
    """Choose ``novel_lr`` among ``rates``; return the method with it and the rates tried.

    The first ``REFITTED`` seen clients are refitted (ids are permuted); ``classes`` masks absent
    classes, as in all measurements.
    """
    whole = federation.validation.clients
    if not len(whole):
        raise InputError("train.tune_newcomers needs validation data of every seen client")
    chosen = subset(whole, range(min(REFITTED, len(whole))))
    # Any name but ``seen``, so that the clients are served as new clients.
    group = Group("refitted", "none", None, chosen)
    tried = []
    for rate in rates:
        fitted = replace(method, novel_lr=rate)  # type: ignore[call-arg]
        predictor = fitted.predictors[-1]
        scores = score_group(
            fitted, task, state, group, classes=classes, predictor=predictor, seed=seed
        )
        tried.append((float(rate), group_score(scores).per_client))
    best = min(tried, key=lambda pair: pair[1])[0]
    tuning = Rates(tuple(tried), best, len(chosen))
    return replace(method, novel_lr=best), tuning  # type: ignore[call-arg]
