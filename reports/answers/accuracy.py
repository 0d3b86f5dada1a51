"""Answers which method serves unseen clients best."""

from functools import partial
from typing import Any

import pandas as pd

from latecomer.reports.answers.errors_figure import draw_intervals
from latecomer.reports.answers.said import Answer
from latecomer.reports.display.naming import Names, as_subject, model_names, model_of
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Material
from latecomer.reports.display.table import Table
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import primary_predictor, records
from latecomer.reports.words import DASH, count, listing, percent

MOST_NAMED = 4


def answer_accuracy(material: Material) -> Answer | None:
    """Say which method serves novel clients best, and which cannot be told apart from it.

    Parameters
    ----------
    material : Material
        Of the run.

    Returns
    -------
    Answer or None
        ``numbers`` has ``best``, ``lower``, ``upper`` (the 95% interval over clients), ``worst``
        and ``n_tied``, the models that are not significantly worse than the best.
    """
    groups = primary_predictor(material.accuracy)
    frame = groups[groups["group"] == "novel"].sort_values("mean", kind="stable")
    if frame.empty:
        return None
    names, every = model_names(frame), records(frame)
    best, tied = every[0], [row for row in every[1:] if row["tied"]]
    within = f"{count(int(best['n_clients']), 'client')} and {count(int(best['n_seeds']), 'seed')}"
    if best["n_clients"] > 1:
        ends = f"{percent(best['lower'])} to {percent(best['upper'])}"
        within = f"95% interval {ends}, over {within}"
    how = "best: " if len(every) > 1 else "with "
    sentence = (
        f"{as_subject(names[model_of(best)])} serves clients it never saw "
        f"{how}{percent(best['mean'])} error ({within})."
    )
    numbers = {
        "best": best["mean"],
        "lower": best["lower"],
        "upper": best["upper"],
        "worst": every[-1]["mean"],
        "n_tied": len(tied),
    }
    more = _more(every, tied, names)
    told = _table(frame, groups[groups["group"] == "seen"], names)
    return Answer(sentence, more, told, (_plot(frame, names, material),), numbers)


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


def _more(every: list[dict[str, Any]], tied: list[dict[str, Any]], names: Names) -> tuple[str, ...]:
    others, worst = len(every) - 1, every[-1]
    if not others:
        return ()
    how = "(paired over clients, 5%, Holm over all pairs)"
    if not tied:
        told = f"All others are worse beyond chance {how}."
    elif len(tied) == others > 1:
        told = f"None of the {others} others is worse beyond chance {how}."
    elif len(tied) > MOST_NAMED:
        told = f"{len(tied)} of the {others} others are not worse beyond chance {how}."
    else:
        told = f"Not worse beyond chance: {listing([names[model_of(row)] for row in tied])} {how}."
    return told, f"Highest error: {names[model_of(worst)]} with {percent(worst['mean'])}."


def _table(frame: pd.DataFrame, seen: pd.DataFrame, names: Names) -> Table:
    trained = {model_of(row): percent(row["mean"]) for row in records(seen)}
    shown = pd.DataFrame(
        {
            "model": names[model_of(row)],
            "novel error": percent(row["mean"]),
            "95% interval": f"{percent(row['lower'])} to {percent(row['upper'])}",
            "seen error": trained.get(model_of(row), DASH),
        }
        for row in records(frame)
    )
    caption = "Mean errors over clients and seeds; intervals are over clients."
    behind = pd.concat([frame, seen]).sort_values([*MODEL, "group"], kind="stable")
    return Table("answer-accuracy", caption, behind, shown, ("model",))
