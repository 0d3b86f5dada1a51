"""Answers how well methods serve new clients, and whether one stands out."""

from collections.abc import Mapping
from functools import partial

import pandas as pd

from latecomer.certify.words import DASH, count, percent
from latecomer.reports.display.answer import Answer, Question
from latecomer.reports.display.errors_figure import draw_intervals
from latecomer.reports.display.naming import Names, as_subject, model_names, model_of
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Material
from latecomer.reports.display.standing import beyond_chance, standing
from latecomer.reports.display.table import Table
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import primary_predictor, records
from latecomer.reports.words import STEPS_CAPTION, steps_cell

HOW = "paired over clients, 5%, Holm over all pairs"


def answer_accuracy(material: Material) -> Answer | None:
    """Say from what to what methods err on new clients, and name one only if a test does.

    Parameters
    ----------
    material : Material
        Of the run.

    Returns
    -------
    Answer or None
        ``numbers`` has ``lowest``, ``lower``, ``upper`` (its 95% interval over clients),
        ``highest`` and ``n_tied``, the models that are not significantly worse than the lowest.
    """
    groups = primary_predictor(material.accuracy)
    frame = groups[groups["group"] == "novel"].sort_values("mean", kind="stable")
    if frame.empty:
        return None
    names = model_names(frame)
    sentence, *more = said_of_errors(frame)
    first, last = records(frame)[0], records(frame)[-1]
    numbers = {
        "lowest": first["mean"],
        "lower": first["lower"],
        "upper": first["upper"],
        "highest": last["mean"],
        "n_tied": int(frame["tied"].sum()) - 1,
    }
    told = _table(frame, groups[groups["group"] == "seen"], names, material.steps)
    plots = (_plot(frame, names, material),)
    return Answer(sentence, tuple(more), told, plots, numbers, _as_accuracies(frame))


def _as_accuracies(frame: pd.DataFrame) -> str:
    """Say the same as accuracies, the largest first."""
    ends = [percent(1 - mean) for mean in (frame["mean"].min(), frame["mean"].max())]
    told = " to ".join(dict.fromkeys(ends))
    return f"As accuracy, 100% less the error: {told}."


def said_of_errors(frame: pd.DataFrame) -> list[str]:
    """Say how new clients are served, in a sentence or two.

    Parameters
    ----------
    frame : pandas.DataFrame
        Novel rows of ``accuracy_frame``, one predictor a label, at least one, the smallest mean
        first.
    """
    names, every = model_names(frame), records(frame)
    first = every[0]
    over = f"{count(int(first['n_clients']), 'client')} and {count(int(first['n_seeds']), 'seed')}"
    of = "error on clients that they never saw"
    if len(every) > 1:
        order = [model_of(row) for row in every]
        worse = [model_of(row) for row in every[1:] if not row["tied"]]
        ends = percent(first["mean"]), percent(every[-1]["mean"])
        said = standing(order, worse, names, ends=ends, of=of, over=over)
        return [said, beyond_chance(order, worse, names, HOW)]
    if first["n_clients"] > 1:
        over += f", 95% interval {percent(first['lower'])} to {percent(first['upper'])}"
    subject = as_subject(names[model_of(first)])
    return [f"{subject} has {percent(first['mean'])} error on clients it never saw, over {over}."]


def _plot(frame: pd.DataFrame, names: Names, material: Material) -> Plot:
    said = [f"{names[model_of(row)]} {percent(row['mean'])}" for row in records(frame)]
    return Plot(
        "answer-accuracy",
        partial(draw_intervals, frame, names, material.looks),
        frame,
        title="Error on new clients",
        alt=f"Errors: {'; '.join(said)}.",
        caption="Means over clients and seeds, lowest on top.",
    )


def _table(
    frame: pd.DataFrame, seen: pd.DataFrame, names: Names, steps: Mapping[str, int]
) -> Table:
    trained = {model_of(row): percent(row["mean"]) for row in records(seen)}
    shown = pd.DataFrame(
        {
            "model": names[model_of(row)],
            "new-client error": percent(row["mean"]),
            "95% interval": f"{percent(row['lower'])} to {percent(row['upper'])}",
            "seen-client error": trained.get(model_of(row), DASH),
        }
        | steps_cell(steps, row["label"])
        for row in records(frame)
    )
    caption = "Mean errors over clients and seeds; intervals are over clients."
    caption += STEPS_CAPTION if steps else ""
    behind = pd.concat([frame, seen]).sort_values([*MODEL, "group"], kind="stable")
    return Table("answer-accuracy", caption, behind, shown, ("model",))


ACCURACY = Question("accuracy", answer_accuracy)
