"""Answers which labels can be ruled out for a new client: what sets hold, and their size."""

from functools import partial
from itertools import combinations
from typing import Any

import pandas as pd

from latecomer.certify.words import chance, count, percent
from latecomer.reports.display.answer import Answer, Question
from latecomer.reports.display.naming import Names, as_subject, model_names, model_of
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Material
from latecomer.reports.display.table import Table
from latecomer.reports.frames.errors import primary_predictor, records
from latecomer.reports.guarantees.sets import (
    CLIENTS,
    CONFIDENT,
    POOLED,
    client_sets_figure,
    client_sets_frame,
    sets_frame,
)

# Errors that differ by no more than this are called alike.
_ALIKE = 0.01


def answer_sets(material: Material) -> Answer | None:
    """Say how much new clients' sets hold and how many labels they have, from method to method.

    Returns
    -------
    Answer or None
        ``numbers`` has ``promised``, ``coverage_lowest``, ``coverage_highest``, ``size_least``,
        ``size_most`` and ``pooled_lowest``, all of the first score that the study lists.
    """
    every = primary_predictor(material.ordered(sets_frame(material.rows)))
    every = every[every["shift"] == "none"]
    if every.empty:
        return None
    every = every[every["score"] == every["score"].iloc[0]]
    frame = every[every["form"] == CLIENTS].sort_values("set_size", kind="stable")
    pooled = every[every["form"] == POOLED]
    names, told = model_names(frame), records(frame)
    more = (_alike(told, names), _pooled(pooled), _sure(every[every["form"] == CONFIDENT]))
    numbers = {
        "promised": 1 - float(frame["alpha"].max()),
        "coverage_lowest": float(frame["coverage"].min()),
        "coverage_highest": float(frame["coverage"].max()),
        "size_least": told[0]["set_size"],
        "size_most": told[-1]["set_size"],
        "pooled_lowest": float(pooled["coverage"].min()),
    }
    plot = _plot(material, str(frame["score"].iloc[0]))
    sentence = _sentence(told, names)
    return Answer(sentence, tuple(one for one in more if one), _table(frame, names), plot, numbers)


def _sentence(told: list[dict[str, Any]], names: Names) -> str:
    first, last = told[0], told[-1]
    held = [row["coverage"] for row in told]
    promised = f"the true label of {chance(first['alpha'])} of new clients' points"
    if not first["promised"]:
        promised += " (not proven for this split)"
    if len(told) == 1:
        return (
            f"{as_subject(names[model_of(first)])} gives sets that are to hold {promised}: they "
            f"held {percent(held[0])}, with {first['set_size']:.2f} labels on average, "
            f"{percent(first['set_single'], 0)} of them a single one."
        )
    return (
        f"Sets that are to hold {promised} did so for {percent(min(held))} to "
        f"{percent(max(held))}, by method, with {first['set_size']:.2f} labels on average for "
        f"{names[model_of(first)]}, the fewest, to {last['set_size']:.2f} for "
        f"{names[model_of(last)]}."
    )


def _alike(told: list[dict[str, Any]], names: Names) -> str:
    """Name the two models of like error whose sets differ most in size."""
    alike = [
        (one, other)
        for one, other in combinations(told, 2)
        if abs(one["error"] - other["error"]) <= _ALIKE
    ]
    if not alike:
        return ""
    one, other = max(alike, key=lambda pair: pair[1]["set_size"] / pair[0]["set_size"])
    if round(one["set_size"], 2) == round(other["set_size"], 2):
        return ""
    return (
        f"Error does not tell: {names[model_of(one)]} and {names[model_of(other)]} err "
        f"{percent(one['error'])} and {percent(other['error'])}, with {one['set_size']:.2f} and "
        f"{other['set_size']:.2f} labels in a set."
    )


def _pooled(pooled: pd.DataFrame) -> str:
    ends = [percent(pooled["coverage"].agg(end)) for end in ("min", "max")]
    held = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    return f"A threshold from pooled points, which guarantees a new client nothing, held {held}."


def _sure(confident: pd.DataFrame) -> str:
    if (confident["threshold"] >= 1).all():
        return "With confidence over the certified clients, too few for it, sets hold all labels."
    least, most = (f"{confident['set_size'].agg(end):.2f}" for end in ("min", "max"))
    sizes = least if least == most else f"{least} to {most}"
    ends = [percent(confident["coverage"].agg(end)) for end in ("min", "max")]
    held = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    return f"With confidence over the certified clients sets have {sizes} labels and held {held}."


def _plot(material: Material, score: str) -> tuple[Plot, ...]:
    clients = primary_predictor(material.ordered(client_sets_frame(material.rows)))
    own = clients[clients["score"] == score]
    return (
        Plot(
            "answer-sets",
            partial(client_sets_figure, own, material.looks),
            own,
            title="Sets of labels, client by client",
            alt=f"{count(own['client'].nunique(), 'client')}: coverage from "
            f"{percent(float(own['coverage'].min()))} to {percent(float(own['coverage'].max()))}.",
            caption="A dot a new client; the promise is about the mean over clients.",
        ),
    )


def _table(frame: pd.DataFrame, names: Names) -> Table:
    shown = pd.DataFrame(
        {
            "model": names[model_of(row)],
            "error": percent(row["error"]),
            "label held": percent(row["coverage"]),
            "labels in a set": f"{row['set_size']:.2f}",
            "a single one": percent(row["set_single"], 0),
        }
        for row in records(frame)
    )
    caption = (
        "Means over new clients and seeds, smallest sets on top: what sets hold, their labels, and "
        "how many rule out all labels but one."
    )
    return Table("answer-sets", caption, frame, shown, ("model",))


SETS_ASKED = Question("sets", answer_sets)
