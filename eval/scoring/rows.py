"""Rows of measured scores: clients, groups, the gap, and paired effects of shifts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
