"""Answers how much accuracy each model loses on clients that join after training."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from latecomer.reports.answers.gap_figure import draw_dumbbells
from latecomer.reports.answers.said import Answer
from latecomer.reports.display.naming import Names, as_subject, model_names, model_of
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Material
from latecomer.reports.display.table import Table
from latecomer.reports.frames.comparison import CONFIDENCE, MODEL, holm
from latecomer.reports.frames.errors import client_errors, primary_predictor, records
from latecomer.reports.words import count, listing, percent, points

COLUMNS = (
    *MODEL,
    *("seen", "novel", "gap", "lower", "upper", "p", "p_holm", "n_seen", "n_novel", "n_seeds"),
    *("training", "out_of_sample"),
)


def gap_intervals(rows: pd.DataFrame) -> pd.DataFrame:
    """Novel minus seen error of every model, with an interval over clients and seeds together.

    A client's error is averaged over seeds.  The squared standard error is the sum over three
    samples: the novel clients, the seen clients, and the seeds (the variance of the single seeds'
    gaps over the number of seeds); degrees of freedom after Welch and Satterthwaite.  Seeds also
    move the clients' means, so their share is counted more than once and the interval errs on the
    wide side.  With one seed it is over clients alone.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the run.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seen novel gap lower upper p p_holm n_seen n_novel n_seeds training
        out_of_sample``: errors and gaps as fractions, the 95% interval, and the two-sided p of no
        gap, by itself and corrected over the models after Holm; ``training``, the seen clients'
        error on the data they trained on, where measured, and ``out_of_sample``, how far ``seen``
        is above it.  ``gap`` is the participation gap beside that out-of-sample gap (Yuan,
        Morningstar, Ning, Singh, 2022).  Smallest gap first.
    """
    errors = primary_predictor(client_errors(rows))
    errors = errors[(errors["shift"] == "none") & errors["group"].isin(["seen", "novel"])]
    gaps = [
        {**dict(zip(MODEL, model, strict=True)), **_interval(part)}
        for model, part in errors.groupby(MODEL, sort=False)
        if part["group"].nunique() == 2
    ]
    frame = pd.DataFrame(gaps).reindex(columns=list(COLUMNS))
    frame["p_holm"] = holm(frame["p"].to_numpy(dtype=float))
    trained = client_errors(rows, "training_error").groupby(MODEL)["error"].mean()
    frame["training"] = trained.reindex(pd.MultiIndex.from_frame(frame[MODEL])).to_numpy()
    frame["out_of_sample"] = frame["seen"] - frame["training"]
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


def answer_gap(material: Material) -> Answer | None:
    """Say who loses least on clients that join late, by how much, and whether it is chance.

    Parameters
    ----------
    material : Material
        Of the run.

    Returns
    -------
    Answer or None
        ``numbers`` has ``least_gap``, ``least_lower``, ``least_upper``, ``most_gap`` and
        ``n_real``, the models whose gap differs from 0; and ``most_out_of_sample`` where the
        error on training data was measured.
    """
    frame = gap_intervals(material.rows)
    if frame.empty:
        return None
    names, every = model_names(frame), records(frame)
    least, most = every[0], every[-1]
    real = [row for row in every if row["p_holm"] <= 1 - CONFIDENCE]
    several = len(every) > 1
    sentence = (
        f"{as_subject(names[model_of(least)])} loses{' least' if several else ''}: "
        f"{_lost(least['gap'])} from the clients it was trained with to clients that joined after "
        f"training ({_within(least)})"
    )
    if several:
        sentence += f"; {as_subject(names[model_of(most)])} loses most, {_lost(most['gap'])}"
    numbers = {
        "least_gap": least["gap"],
        "least_lower": least["lower"],
        "least_upper": least["upper"],
        "most_gap": most["gap"],
        "n_real": len(real),
    }
    if frame["training"].notna().any():
        numbers["most_out_of_sample"] = float(frame["out_of_sample"].max())
    more = (_chance(every, real, names), _own_data(frame), _lowest(every, names))
    return Answer(
        f"{sentence}.",
        tuple(one for one in more if one),
        _table(frame, names),
        (_plot(frame, names, material),),
        numbers,
    )


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
    ends = [points(gaps.min()), points(gaps.max())]
    span = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    return (
        f"To that come {span} points from the training data of those clients to their own new data "
        "(out-of-sample gap)."
    )


def _lowest(every: list[dict[str, Any]], names: Names) -> str:
    best = min(every, key=lambda row: float(row["novel"]))
    return (
        f"A small gap is not a small error: lowest on new clients is {names[model_of(best)]} with "
        f"{percent(best['novel'])}."
    )


def _lost(gap: float) -> str:
    return f"{points(gap).lstrip('+')} points of accuracy"


def _within(row: Mapping[str, Any]) -> str:
    if np.isnan(row["lower"]):
        return "too few clients for an interval"
    over = f"{count(int(row['n_novel']), 'new client')}"
    if row["n_seeds"] > 1:
        over += f" and {count(int(row['n_seeds']), 'seed')}"
    return f"95% interval {points(row['lower'])} to {points(row['upper'])}, over {over}"


def _table(frame: pd.DataFrame, names: Names) -> Table:
    parts = frame["training"].notna().any()
    shown = pd.DataFrame(
        {"model": names[model_of(row)]}
        | ({"training error": percent(row["training"])} if parts else {})
        | {"seen error": percent(row["seen"]), "novel error": percent(row["novel"])}
        | ({"out-of-sample gap": points(row["out_of_sample"])} if parts else {})
        | {
            "gap in points": points(row["gap"]),
            "95% interval": f"{points(row['lower'])} to {points(row['upper'])}",
            "beyond chance": "yes" if row["p_holm"] <= 1 - CONFIDENCE else "no",
        }
        for row in records(frame)
    )
    caption = "Errors and gaps are means over clients and seeds; intervals take both into account."
    if parts:
        caption += (
            " Out-of-sample gap: from the seen clients' training data to their own new data; the "
            "gap to new clients is the participation gap."
        )
    return Table("answer-gap", caption, frame, shown, ("model", "beyond chance"))
