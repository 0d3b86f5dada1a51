"""Rows of measured scores, and the scores of held-out clients read back from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latecomer.errors import InputError
from latecomer.eval.federation.groups import Group
from latecomer.eval.scoring.scores import ClientScore, GroupScore, paired_effect
from latecomer.eval.shifts.populations import CONTROL

Row = dict[str, Any]


def client_rows(group: Group, scores: Sequence[ClientScore], common: Row) -> Iterator[Row]:
    """Yield the error of each client of a group."""
    for score in scores:
        yield {
            **common,
            **group.condition(),
            "client": score.client,
            "n_support": score.n_support,
            "n_query": score.n_query,
            "metric": "error",
            "value": score.error,
        }


def group_rows(group: Group, total: GroupScore, common: Row) -> Iterator[Row]:
    """Yield error, accuracy and loss of a group, pooled and per client."""
    where = {**common, **group.condition(), "n_clients": total.n_clients, "n_query": total.n_query}
    interval = {"lower": total.lower, "upper": total.upper}
    flipped = {"lower": 1 - total.upper, "upper": 1 - total.lower}
    pooled = {"aggregation": "pooled"}
    mean = {"aggregation": "per-client"}
    yield {**where, **pooled, "metric": "error", "value": total.pooled}
    yield {**where, **pooled, "metric": "accuracy", "value": 1 - total.pooled}
    yield {**where, **mean, **interval, "metric": "error", "value": total.per_client}
    yield {**where, **mean, **flipped, "metric": "accuracy", "value": 1 - total.per_client}
    yield {**where, **mean, "metric": "loss", "value": total.loss}


def gap_row(novel: Group, totals: Mapping[str, GroupScore]) -> Row:
    """Return new- minus seen-client *accuracy*: negative if new clients are served worse.

    All that people read (page, terminal, cards, trackers) gives the gap of *errors*, whose sign is
    the other one.
    """
    return {
        **novel.condition(),
        "n_clients": totals["novel"].n_clients,
        "aggregation": "per-client",
        "metric": "gap",
        "value": totals["seen"].per_client - totals["novel"].per_client,
    }


def effect_rows(scored: Mapping[Group, Sequence[ClientScore]], common: Row) -> Iterator[Row]:
    """Yield error under another data set minus error under its control, paired by client."""
    controls = {group.shift: group for group in scored if group.shift.endswith(CONTROL)}
    for group, scores in scored.items():
        control = controls.get(group.shift + CONTROL)
        if control is None:
            continue
        effect = paired_effect(scores, scored[control])
        yield {
            **common,
            **group.condition(),
            "n_clients": effect.n_clients,
            "aggregation": "per-client",
            "metric": "shift_effect",
            "value": effect.mean,
            "lower": effect.lower,
            "upper": effect.upper,
            "message": f"error minus that of {control.shift}, the same clients paired",
        }


ReadRow = Mapping[str, str]


@dataclass(frozen=True)
class Condition:
    """The held-out clients under one condition, named as in the rows."""

    shift: str
    severity: float | None

    def condition(self) -> dict[str, Any]:
        """Return the columns that identify a row's group and shift."""
        severity = "" if self.severity is None else self.severity
        return {"group": "certification", "shift": self.shift, "severity": severity}


Scores = dict[str, dict[Condition, Sequence[ClientScore]]]
"""Scores by predictor and condition, clients in the order of their ids."""


def scores_of(rows: Sequence[ReadRow]) -> Scores:
    """Return one trained model's scores of held-out clients.

    Parameters
    ----------
    rows : sequence of mapping
        The rows of one cell, as text.

    Returns
    -------
    dict
        By predictor, then by condition; empty if the cell scored no held-out client.

    Raises
    ------
    InputError
        A client was scored twice under one condition, an error is not a fraction of its points, or
        conditions have different clients.

    Examples
    --------
    >>> row = {"group": "certification", "metric": "error", "client": "7", "shift": "none",
    ...        "severity": "", "predictor": "gibbs", "n_support": "20", "n_query": "10",
    ...        "value": "0.3"}
    >>> scores_of([row])["gibbs"][Condition("none", None)][0].n_wrong
    3
    """
    scores: dict[str, dict[Condition, dict[int, ClientScore]]] = {}
    for row in rows:
        if row["group"] != "certification" or row["metric"] != "error" or not row["client"]:
            continue
        severity = float(row["severity"]) if row["severity"] else None
        where = Condition(row["shift"] or "none", severity)
        own = scores.setdefault(row["predictor"], {}).setdefault(where, {})
        score = _score(row)
        if score.client in own:
            raise InputError(
                f"held-out client {score.client} was scored twice ({row['predictor']}, "
                f"{where.shift}): which score a certificate is made from is not known"
            )
        own[score.client] = score
    everyone = {tuple(sorted(own)) for groups in scores.values() for own in groups.values()}
    if len(everyone) > 1:
        raise InputError("held-out clients differ between predictors or shifts")
    return {
        predictor: {where: [own[name] for name in sorted(own)] for where, own in groups.items()}
        for predictor, groups in scores.items()
    }


def _score(row: ReadRow) -> ClientScore:
    try:
        client, n_support, n_query = (int(row[key]) for key in ("client", "n_support", "n_query"))
        error = float(row["value"])
        n_wrong = round(error * n_query)
        if not 0 <= n_wrong <= n_query or n_wrong / n_query != error:
            raise ValueError(f"its error {error!r} is no share of {n_query} points")
    except (ValueError, ZeroDivisionError, OverflowError) as error_:
        raise InputError(f"held-out client {row['client']}: {error_}") from None
    # Only errors are certified, so the loss is not needed.
    return ClientScore(client, n_support, n_query, n_wrong, float("nan"))
