"""Answers how much each model loses on clients that join after training."""

from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.certify.words import DASH, counts, listing, percent, points
from latecomer.reports.display.drawing import Looks, styled
from latecomer.reports.display.errors_figure import NARROW_BELOW, model_rows
from latecomer.reports.display.naming import (
    Names,
    as_subject,
    beyond_chance,
    model_names,
    standing,
    worse_than,
)
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.display.section import Answer, Material, Question
from latecomer.reports.frames.errors import (
    CONFIDENCE,
    MODEL,
    Model,
    by_model,
    model_of,
    primary_predictor,
    records,
)
from latecomer.reports.frames.gaps import gap_pairs
from latecomer.reports.words import (
    LESS_ALONE,
    LESS_ALONE_CAPTION,
    between,
    gap_in_points,
    interval,
    over_what,
    range_of,
)


@styled
def draw_dumbbells(
    frame: pd.DataFrame, names: Names, looks: Looks, *, width: float = WIDE
) -> Figure:
    """Draw the error of seen (hollow) and new clients (filled), joined, smallest gap first.

    The error on training data is a stroke, where it was measured.
    """
    rows = records(frame)
    figure, axes = model_rows([names[model_of(row)] for row in rows], width, beside=1.1)
    for place, row in enumerate(rows):
        colour, ends = looks[row["label"]].colour, [100 * row["seen"], 100 * row["novel"]]
        axes.plot(ends, [place, place], color=colour, linewidth=2.5, alpha=0.45)
        axes.plot(ends[:1], [place], "o", color=colour, markerfacecolor="none", markersize=6)
        axes.plot(ends[1:], [place], "o", color=colour, markersize=6)
        axes.plot([100 * row["training"]], [place], "|", color=colour, markersize=9)
    axes.set_xlim(left=0)
    axes.set_xlabel("error (%)")
    handles = [
        Line2D([], [], marker="o", color=INK, markerfacecolor="none", linestyle="none"),
        Line2D([], [], marker="o", color=INK, linestyle="none"),
        Line2D([], [], color=MUTED, linewidth=2.5),
    ]
    words = ["clients trained with", "new clients", "gap"]
    if frame["training"].notna().any():
        handles.insert(0, Line2D([], [], marker="|", color=INK, linestyle="none", markersize=9))
        words.insert(0, "their training data")
    figure.legend(
        handles, words, loc="outside lower center", ncols=2 if width < NARROW_BELOW else 4,
        handletextpad=0.4,
    )  # fmt: skip
    return figure


def answer_gap(material: Material) -> Answer | None:
    """Say from what to what methods lose on clients that join late, and what is beyond chance.

    ``numbers`` has ``n_real``, the models whose gap differs from 0; ``most_out_of_sample`` where
    the error on training data was measured; ``alone_gap``, ``least_less_alone``,
    ``most_less_alone`` where the run holds a model that learns nothing from others.
    """
    frame = primary_predictor(material.mean_gaps)
    if frame.empty:
        return None
    names, every = model_names(frame), records(frame)
    least, most = every[0], every[-1]
    real = [row for row in every if row["p_holm"] <= 1 - CONFIDENCE]
    order = [model_of(row) for row in every]
    worse = worse_than(gap_pairs(primary_predictor(material.errors)), order[0])
    numbers = {
        "least_gap": least["gap"],
        "least_lower": least["lower"],
        "least_upper": least["upper"],
        "most_gap": most["gap"],
        "n_real": len(real),
    }
    if frame["training"].notna().any():
        numbers["most_out_of_sample"] = float(frame["out_of_sample"].max())
    how = "gaps compared in pairs, 5%, Holm over all pairs"
    apart = beyond_chance(order, worse, names, how) if len(order) > 1 else ""
    less = primary_predictor(material.gaps_less_alone)
    if len(less):
        numbers["alone_gap"] = float(less["alone_gap"].iloc[0])
        numbers["least_less_alone"] = float(less["gap"].min())
        numbers["most_less_alone"] = float(less["gap"].max())
    parts = f"{_own_data(frame)} {_less_alone(less, material, names)}".strip()
    more = (f"{_chance(every, real, names)} {apart}".strip(), parts, _lowest(every))
    return Answer(
        _sentence(frame, worse, names),
        tuple(one for one in more if one),
        _table(frame, less, names),
        (_plot(frame, names, material),),
        numbers,
    )


def _sentence(frame: pd.DataFrame, worse: Collection[Model], names: Names) -> str:
    every = records(frame)
    first, of = every[0], "points of error lost on clients that joined after training"
    over = counts(frame["n_novel"], "new client")
    if frame["n_seeds"].max() > 1:
        over += f" and {counts(frame['n_seeds'], 'seed')}"
    if len(every) > 1:
        ends = points(first["gap"]), points(every[-1]["gap"])
        order = [model_of(row) for row in every]
        return standing(order, worse, names, ends=ends, of=of, over=over)
    within = f"95% interval {interval(first['lower'], first['upper'], points)}"
    if np.isnan(first["lower"]):
        within = "too few clients, or none unlike the others, for an interval"
    return f"{as_subject(names[model_of(first)])}: {points(first['gap'])} {of} ({within}, {over})."


def _plot(frame: pd.DataFrame, names: Names, material: Material) -> Plot:
    said = [
        f"{names[model_of(row)]} {percent(row['seen'])} seen, {percent(row['novel'])} new"
        for row in records(frame)
    ]
    return Plot(
        "answer-gap",
        partial(draw_dumbbells, frame, names, material.looks),
        frame,
        title="Error on the clients trained with, and on new ones",
        alt=f"Errors: {'; '.join(said)}.",
        caption="Means over clients and seeds; the smallest gap stands on top.",
    )


def _chance(every: list[dict[str, Any]], real: list[dict[str, Any]], names: Names) -> str:
    if not real:
        return "No model's gap differs from none beyond chance (5%, Holm over the models)."
    listed = listing([names[model_of(row)] for row in real])
    whose = "every model" if len(real) == len(every) > 1 else listed
    return f"Beyond chance is the gap of {whose} (5%, Holm over the models)."


def _own_data(frame: pd.DataFrame) -> str:
    """Say what seen clients lose from their training data to new data of their own."""
    gaps = frame["out_of_sample"].dropna()
    if gaps.empty:
        return ""
    return (
        f"Seen clients also lose {range_of(gaps, points)} points between their training data and "
        "new data of their own (out-of-sample gap)."
    )


def _less_alone(less: pd.DataFrame, material: Material, names: Names) -> str:
    """Say what is left of the gaps beside that of clients that learn nothing from others."""
    if less.empty:
        return ""
    every = records(less.sort_values("gap", kind="stable"))
    own = next(row for row in records(material.mean_gaps) if row["label"] == every[0]["alone"])
    ends = [f"{gap_in_points(row)} of {names[model_of(row)]}" for row in (every[0], every[-1])]
    left = f"gaps less that one go from {ends[0]} to {ends[1]}"
    if len(every) == 1:
        left = f"the gap less that one is {ends[0]}"
    known = sum(not np.isnan(row["lower"]) for row in every)
    how = f" (95% interval{'s' if known > 1 else ''}, not corrected)" if known else ""
    return (
        f"{as_subject(names[model_of(own)])}, which learns nothing from other clients, has a gap "
        f"of {gap_in_points(own)} itself; paired by client, {left}{how}."
    )


def _lowest(every: list[dict[str, Any]]) -> str:
    errors = [float(row["novel"]) for row in every]
    told = between(percent(min(errors)), percent(max(errors)))
    return f"A small gap is not a small error: {told} on new clients."


def _table(frame: pd.DataFrame, less: pd.DataFrame, names: Names) -> Table:
    parts, left = frame["training"].notna().any(), by_model(less)
    shown = pd.DataFrame(
        {"model": names[model_of(row)]}
        | ({"training error": percent(row["training"])} if parts else {})
        | {"seen-client error": percent(row["seen"]), "new-client error": percent(row["novel"])}
        | ({"out-of-sample gap": points(row["out_of_sample"])} if parts else {})
        | {"gap (points)": gap_in_points(row)}
        | (
            {LESS_ALONE: gap_in_points(left[model_of(row)]) if model_of(row) in left else DASH}
            if left
            else {}
        )
        | {"beyond chance": "yes" if row["p_holm"] <= 1 - CONFIDENCE else "no"}
        for row in records(frame)
    )
    over = over_what(int(frame["n_seeds"].max()))
    caption = f"Errors and gaps are means over clients and seeds; intervals are over {over}."
    if parts:
        caption += (
            " Out-of-sample gap: from the seen clients' training data to their own new data; the "
            "gap to new clients is the participation gap."
        )
    if left:
        caption += LESS_ALONE_CAPTION
        named = {name: f"less_alone_{name}" for name in ("gap", "lower", "upper")}
        frame = frame.merge(less.rename(columns=named), on=MODEL, how="left")
    return Table("answer-gap", caption, frame, shown, ("model", "beyond chance"))


GAP = Question("gap", answer_gap)
