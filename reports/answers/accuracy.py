"""Answers which method serves clients that it never saw best."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd

from latecomer.eval.results.rows import RunRecord
from latecomer.reports.answers.errors_figure import draw_intervals
from latecomer.reports.answers.naming import named
from latecomer.reports.answers.said import Answer, Shown
from latecomer.reports.frames.errors import accuracy_frame, primary_predictor, records
from latecomer.reports.words import DASH, count, listing, percent

__all__ = ["answer_accuracy"]

MOST_NAMED = 4


def answer_accuracy(run: RunRecord) -> Answer:
    """Say who serves novel clients best, and who cannot be told from it.

    Parameters
    ----------
    run : RunRecord

    Returns
    -------
    Answer
        ``numbers`` has ``best``, ``lower``, ``upper`` (the 95% interval over clients), ``worst``
        and ``n_tied``, the models that are not significantly worse than the best.
    """
    everything = primary_predictor(accuracy_frame(run.rows))
    frame = everything[everything["group"] == "novel"].sort_values("mean", kind="stable")
    if frame.empty:
        return Answer("accuracy", "")
    names = named(frame)
    best, worst = records(frame)[0], records(frame)[-1]
    n, seeds = int(best["n_clients"]), int(best["n_seeds"])
    counted = f"{count(n, 'client')} and {count(seeds, 'seed')}"
    within = (
        f"95% interval {percent(best['lower'])} to {percent(best['upper'])}, over {counted}"
        if n > 1
        else counted
    )
    sentence = (
        f"{names[_model(best)]} serves clients it never saw best: {percent(best['mean'])} error "
        f"({within})."
        if len(frame) > 1
        else f"{names[_model(best)]} serves clients it never saw with {percent(best['mean'])} "
        f"error ({within})."
    )
    tied = [row for row in records(frame)[1:] if row["tied"]]
    return Answer(
        "accuracy",
        sentence,
        _more(frame, tied, names, worst),
        {
            "best": best["mean"],
            "lower": best["lower"],
            "upper": best["upper"],
            "worst": worst["mean"],
            "n_tied": len(tied),
        },
        _table(everything, frame, names),
        (_figure(frame, names),),
    )


def _figure(frame: pd.DataFrame, names: Mapping[tuple[str, str], str]) -> Shown:
    said = [f"{names[_model(row)]} {percent(row['mean'])}" for row in records(frame)]
    return Shown(
        "answer-accuracy",
        "Error on new clients",
        partial(draw_intervals, frame, names),
        f"Errors: {'; '.join(said)}.",
        "Means over clients and seeds, lowest on top.",
        frame,
    )


def _more(
    frame: pd.DataFrame,
    tied: list[dict[str, Any]],
    names: Mapping[tuple[str, str], str],
    worst: Mapping[str, Any],
) -> tuple[str, ...]:
    others = len(frame) - 1
    if not others:
        return ()
    how = "(paired over clients, 5%, Holm over all pairs)"
    if not tied:
        told = [f"All others are worse beyond chance {how}."]
    elif len(tied) > MOST_NAMED:
        told = [f"{len(tied)} of the {others} others are not worse beyond chance {how}."]
    else:
        listed = listing([names[_model(row)] for row in tied])
        told = [f"Not worse beyond chance: {listed} {how}."]
    told.append(f"Highest error: {names[_model(worst)]} with {percent(worst['mean'])}.")
    return tuple(told)


def _model(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["label"], row["predictor"]


def _table(
    everything: pd.DataFrame, frame: pd.DataFrame, names: Mapping[tuple[str, str], str]
) -> pd.DataFrame:
    seen = everything[everything["group"] == "seen"].set_index(["label", "predictor"])["mean"]
    return pd.DataFrame(
        {
            "model": names[_model(row)],
            "novel error": percent(row["mean"]),
            "95% interval": f"{percent(row['lower'])} to {percent(row['upper'])}",
            "seen error": percent(float(seen[_model(row)])) if _model(row) in seen.index else DASH,
        }
        for row in records(frame)
    )
