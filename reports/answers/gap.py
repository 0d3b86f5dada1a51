"""Answers how much accuracy each model loses on clients that join after training."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from latecomer.eval.results.rows import RunRecord
from latecomer.reports.answers.gap_figure import draw_dumbbells
from latecomer.reports.answers.naming import named
from latecomer.reports.answers.said import Answer, Shown
from latecomer.reports.frames.comparison import CONFIDENCE, MODEL, holm
from latecomer.reports.frames.errors import client_errors, primary_predictor, records
from latecomer.reports.words import count, listing, percent, points

__all__ = ["answer_gap", "gap_intervals"]

COLUMNS = (
    *MODEL,
    *("seen", "novel", "gap", "lower", "upper", "p", "p_holm", "n_seen", "n_novel", "n_seeds"),
)


def gap_intervals(rows: pd.DataFrame) -> pd.DataFrame:
    """Novel minus seen error of every model, with an interval over clients and seeds together.

    A client's error is averaged over seeds.  The squared standard error adds what three samples
    contribute: the novel clients, the seen clients, and the seeds (the variance of the gaps that
    single seeds show, over their number); degrees of freedom after Welch and Satterthwaite.  Seeds
    also move the clients' means, so that their share is counted more than once: the interval errs
    on the wide side.  With one seed it is over clients alone.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the run.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seen novel gap lower upper p p_holm n_seen n_novel n_seeds``: errors and
        gaps as fractions, the 95% interval, and the two-sided p of no gap, by itself and corrected
        over the models after Holm.  Smallest gap first.
    """
    errors = primary_predictor(client_errors(rows))
    errors = errors[(errors["shift"] == "none") & errors["group"].isin(["seen", "novel"])]
    found = []
    for model, part in errors.groupby(MODEL, sort=False):
        if part["group"].nunique() == 2:
            found.append({**dict(zip(MODEL, model, strict=True)), **_interval(part)})
    frame = pd.DataFrame(found, columns=[name for name in COLUMNS if name != "p_holm"])
    frame.insert(len(MODEL) + 6, "p_holm", holm(frame["p"].to_numpy(dtype=float)))
    return frame.sort_values("gap", kind="stable", ignore_index=True)


def _interval(part: pd.DataFrame) -> dict[str, float]:
    clients = part.groupby(["group", "client"])["error"].mean()
    seen, novel = clients["seen"], clients["novel"]
    by_seed = part.groupby(["seed", "group"])["error"].mean().unstack("group")
    seeds = (by_seed["novel"] - by_seed["seen"]).dropna()
    gap = float(novel.mean() - seen.mean())
    samples = [one for one in (seen, novel, seeds) if len(one) > 1]
    pieces = [(float(one.var(ddof=1)) / len(one), len(one) - 1) for one in samples]
    total = sum(square for square, _ in pieces)
    half, p = np.nan, np.nan
    if min(len(seen), len(novel)) > 1:
        half, p = 0.0, float(gap == 0)
    if total > 0 and np.isfinite(half):
        freedom = total**2 / sum(square**2 / df for square, df in pieces)
        half = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * total**0.5
        p = float(2 * special.stdtr(freedom, -abs(gap) / total**0.5))
    return {
        "seen": float(seen.mean()),
        "novel": float(novel.mean()),
        "gap": gap,
        "lower": gap - half,
        "upper": gap + half,
        "p": p,
        "n_seen": len(seen),
        "n_novel": len(novel),
        "n_seeds": len(seeds),
    }


def answer_gap(run: RunRecord) -> Answer:
    """Say who loses least on clients that join late, by how much, and whether it is chance.

    Parameters
    ----------
    run : RunRecord

    Returns
    -------
    Answer
        ``numbers`` has ``least_gap``, ``least_lower``, ``least_upper``, ``most_gap`` and
        ``n_real``, the models whose gap differs from none.
    """
    frame = gap_intervals(run.rows)
    if frame.empty:
        return Answer("gap", "")
    names = named(frame)
    every = records(frame)
    least, most = every[0], every[-1]
    sentence = (
        f"{names[_model(least)]} loses least: {_lost(least['gap'])} from the clients it "
        f"was trained with to clients that joined after training ({_within(least)})."
    )
    real = [row for row in every if row["p_holm"] <= 1 - CONFIDENCE]
    return Answer(
        "gap",
        sentence,
        _more(every, real, names),
        {
            "least_gap": least["gap"],
            "least_lower": least["lower"],
            "least_upper": least["upper"],
            "most_gap": most["gap"],
            "n_real": len(real),
        },
        _table(every, names),
        (_figure(frame, names),),
    )


def _figure(frame: pd.DataFrame, names: Mapping[tuple[str, str], str]) -> Shown:
    said = [
        f"{names[_model(row)]} {percent(row['seen'])} seen, {percent(row['novel'])} new"
        for row in records(frame)
    ]
    return Shown(
        "answer-gap",
        "Error on the clients trained with, and on new ones",
        partial(draw_dumbbells, frame, names),
        f"Errors: {'; '.join(said)}.",
        "Means over clients and seeds; the smallest gap stands on top.",
        frame,
    )


def _more(
    every: list[dict[str, Any]], real: list[dict[str, Any]], names: Mapping[tuple[str, str], str]
) -> tuple[str, ...]:
    told = []
    if len(every) > 1:
        most = every[-1]
        told.append(f"{names[_model(most)]} loses most: {_lost(most['gap'])} ({_within(most)}).")
    if not real:
        told.append("No model's gap differs from none beyond chance (5%, Holm over the models).")
    else:
        listed = listing([names[_model(row)] for row in real])
        whose = "every model" if len(real) == len(every) > 1 else listed
        told.append(f"Beyond chance is the gap of {whose} (5%, Holm over the models).")
    best = min(every, key=lambda row: float(row["novel"]))
    told.append(
        f"A small gap is not a small error: lowest on new clients is {names[_model(best)]} with "
        f"{percent(best['novel'])}."
    )
    return tuple(told)


def _model(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["label"], row["predictor"]


def _lost(gap: float) -> str:
    return f"{points(gap).lstrip('+')} points of accuracy"


def _within(row: Mapping[str, Any]) -> str:
    if np.isnan(row["lower"]):
        return "too few clients for an interval"
    over = f"{count(int(row['n_novel']), 'new client')}"
    if row["n_seeds"] > 1:
        over += f" and {count(int(row['n_seeds']), 'seed')}"
    return f"95% interval {points(row['lower'])} to {points(row['upper'])}, over {over}"


def _table(every: list[dict[str, Any]], names: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "model": names[_model(row)],
            "seen error": percent(row["seen"]),
            "novel error": percent(row["novel"]),
            "gap in points": points(row["gap"]),
            "95% interval": f"{points(row['lower'])} to {points(row['upper'])}",
            "beyond chance": "yes" if row["p_holm"] <= 1 - CONFIDENCE else "no",
        }
        for row in every
    )
