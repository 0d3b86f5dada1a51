"""Sentences generated from the frames: headline answers and what figures show."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from latecomer.reports.display.drawing import model_names
from latecomer.reports.frames.bounds import bound_frame
from latecomer.reports.frames.errors import (
    CONTROL,
    accuracy_frame,
    by_model,
    gap_summary,
    primary_predictor,
    records,
    shift_frame,
)
from latecomer.reports.guarantees.figures import drawable_bounds, stackable
from latecomer.reports.statements import statement
from latecomer.reports.words import (
    METRICS,
    bound_name,
    count,
    listing,
    percent,
    points,
    sentence_case,
    shift_name,
    span,
)

# More names than these are no sentence.
MOST_NAMED = 5


def ranking(rows: pd.DataFrame) -> str:
    """Say which method serves novel clients best and which are not distinguishable from it."""
    frame = accuracy_frame(rows)
    frame = primary_predictor(frame[frame["group"] == "novel"])
    if frame.empty:
        return "No novel client was measured."
    best = min(records(frame), key=lambda row: float(row["mean"]))
    clients = count(int(best["n_clients"]), "novel client")
    text = f"Lowest error on {clients}: {best['label']} with {percent(best['mean'])}"
    tied = list(frame.loc[frame["tied"].astype(bool), "label"].loc[lambda x: x != best["label"]])
    others = len(frame) - 1
    if len(tied) > MOST_NAMED and len(tied) == others:
        text += f"; none of the {others} others is significantly worse"
    elif len(tied) > MOST_NAMED:
        text += f"; {len(tied)} of the {others} others are not significantly worse"
    elif tied:
        text += f"; {listing(tied)} {'is' if len(tied) == 1 else 'are'} not significantly worse"
    elif len(frame) > 1:
        text += "; all others are significantly worse"
    models = "these models of one seed each, " if int(frame["n_seeds"].max()) == 1 else ""
    return text + (
        f" ({models}paired over clients, Holm over all pairs, 5%)." if len(frame) > 1 else "."
    )


def shift_answers(rows: pd.DataFrame) -> list[str]:
    """Say in a sentence per shift who serves best where it is strongest, and who loses how much.

    Another data set is judged against its matched control, all else against no shift.
    """
    frame = shift_frame(rows)
    shifts = [name for name in dict.fromkeys(frame["shift"]) if name != "none"]
    said = []
    for shift in sorted(name for name in shifts if not name.endswith(CONTROL)):
        own = frame[frame["shift"] == shift]
        matched = shift + CONTROL in shifts
        severity = own["severity"].max()
        own = own[own["severity"].isna()] if pd.isna(severity) else own[own["severity"] == severity]
        before = shift + CONTROL if matched else "none"
        known = frame[frame["shift"] == before].set_index("label")["mean"]
        lost = (own.set_index("label")["mean"] - known).dropna().sort_values(kind="stable")
        if lost.empty:
            continue
        best = min(records(own), key=lambda row: float(row["mean"]))
        verb = "serves best, with" if len(lost) > 1 else "has"
        ends = [f"{label} {points(lost[label])}" for label in lost.index[[0, -1]]]
        change = f"{ends[0]} to {ends[1]}" if len(lost) > 1 else points(lost.iloc[0])
        said.append(
            f"{sentence_case(shift_name(shift, severity))}: {best['label']} {verb} "
            f"{percent(best['mean'])} error; against {'the control' if matched else 'no shift'}, "
            f"{change} points."
        )
    return said


def answers(rows: pd.DataFrame, study: Mapping[str, Any]) -> list[dict[str, str]]:
    """Answer the study's question once per method, lowest novel error first.

    Returns
    -------
    list of dict
        ``label``, ``measured`` (about the measured error), ``certified`` (about its certificate,
        empty when there is none) and ``terms`` (what the certificate is about and what it cost).
    """
    frame = accuracy_frame(rows)
    frame = primary_predictor(frame[frame["group"] == "novel"]).sort_values("mean")
    bounds = bound_frame(rows)
    return [
        {
            "label": str(row["label"]),
            "measured": _measured(row),
            **_certified(bounds, row, study),
        }
        for row in records(frame)
    ]


def shared_terms(given: Sequence[Mapping[str, str]]) -> str:
    """Give the terms that most certified answers share; empty when no more than half do."""
    terms = [answer["terms"] for answer in given if answer["terms"]]
    most = max(terms, key=terms.count, default="")
    return most if 2 * terms.count(most) > len(terms) else ""


def _measured(row: Mapping[str, Any]) -> str:
    n_clients, n_seeds = int(row["n_clients"]), int(row["n_seeds"])
    counts = f"{count(n_clients, 'client')} \N{MULTIPLICATION SIGN} {count(n_seeds, 'seed')}"
    if n_clients > 1:
        counts = f"95% interval {percent(row['lower'])} to {percent(row['upper'])}, {counts}"
    return f"serves clients it never saw with {percent(row['mean'])} error ({counts})"


def _certified(
    bounds: pd.DataFrame, row: Mapping[str, Any], study: Mapping[str, Any]
) -> dict[str, str]:
    own = bounds[
        (bounds["label"] == row["label"])
        & (bounds["predictor"] == row["predictor"])
        & (bounds["population"] == "unseen-client")
        & bounds["rigorous"]
        & (bounds["shift"] == "none")
    ]
    if own.empty:
        return {"certified": "", "terms": ""}
    # The first certificate the study declares: choosing the smallest would void the guarantee.
    declared = [f"{c['route']}:{c['rule']}" for c in study.get("certificates") or ()]
    names = [name for name in declared if (own["bound"] == name).any()]
    own = own[own["bound"] == (names[0] if names else own["bound"].iloc[0])]
    own = own[own["delta"] == own["delta"].iloc[0]]
    # A bound over a pool most of which was scored says little about those who were not: what it
    # leaves for them is the answer to how a newcomer is served.
    scored = (2 * own["n_clients"] > own["pool"]).fillna(False) & own["others"].notna()
    mostly = bool((scored & (own["sampling"] == "finite-pool")).all())
    values = own["others"] if mostly else own["value"]
    left = int(own["pool"].iloc[0] - own["n_clients"].iloc[0]) if mostly else 0
    whom = f" for the {count(left, 'client')} neither trained on nor scored" if mostly else ""
    text = f"certified at most {span(list(values))}{whom}"
    if (values >= 1).all():
        text = f"its certificate is vacuous (100% or more){whom}"
    elif (values >= 1).any():
        text += " (vacuous where it reaches 100%)"
    first = own.iloc[0].to_dict() | {"others": float("nan")}
    said = statement(first, "a bound given below" if mostly else "the value")
    terms = f"{bound_name(str(own['bound'].iloc[0]))}: {said}"
    if mostly:
        terms += f" The value is what that bound leaves{whom}, by themselves."
    if len(own) > 1:
        terms += f" One certificate for each of {len(own)} seeds; two values are their range."
    return {"certified": text, "terms": terms}


def describe_gap(gaps: pd.DataFrame) -> str:
    """Describe ``gap_figure`` for readers who cannot see it."""
    names = model_names(gaps)
    means = by_model(gap_summary(gaps))
    said = []
    for pair, name in names.items():
        mean = means[pair]
        said.append(f"{name} {points(mean['gap'])} ({count(int(mean['n_seeds']), 'seed')})")
    return f"Novel minus seen accuracy in points: {'; '.join(said)}."


def describe_bounds(bounds: pd.DataFrame) -> str:
    """Describe ``bound_figure``."""
    said = [
        f"{bound_name(str(bound))} {span(list(part['value']))}, measured "
        f"{percent(part['measured'].min())} to {percent(part['measured'].max())}"
        f" ({count(len(part), 'trained model')})"
        for bound, part in drawable_bounds(bounds).groupby("bound")
    ]
    return f"Bounds against measured novel error: {'; '.join(said)}."


def describe_shift(frame: pd.DataFrame, shift: str) -> str:
    """Describe ``shift_figure``."""
    own = frame[frame["shift"] == shift]
    said = []
    for label, part in own.groupby("label", sort=False):
        cells = [f"{percent(row['mean'])} at {row['severity']:g}" for row in records(part)]
        if part["severity"].isna().any():
            cells = [percent(mean) for mean in part["mean"]]
        said.append(f"{label} {', '.join(cells)}")
    return f"Error of novel clients under {shift}: {'; '.join(said)}."


def describe_anatomy(frame: pd.DataFrame) -> str:
    """Describe ``anatomy_figure``: the range of every term."""
    said = [
        f"{str(term).replace('_', ' ')} {span(list(part['value']))}"
        for term, part in frame.groupby("term", sort=False)
    ]
    models = len(frame[["label", "seed", "predictor"]].drop_duplicates())
    return f"Terms of the bound over {count(models, 'trained model')}: {'; '.join(said)}."


def anatomy_caption(frame: pd.DataFrame) -> str:
    """Say how to read ``anatomy_figure``."""
    if stackable(frame):
        return "A bar per trained model; its parts add up to the value beside it."
    rows = "condition" if (frame["shift"] != "none").any() else "method"
    return (
        f"A row per {rows}, a mark per term and trained model, log scale; the upright bar is the "
        "whole bound. Right of the line at 1 (100%) a term alone makes the bound vacuous. A term "
        "that is 0 is not drawn."
    )


def describe_diagnostics(frame: pd.DataFrame, metric: str, labels: Sequence[str]) -> str:
    """Describe ``diagnostics_figure``."""
    own = frame[frame["metric"] == metric]
    low, high = own["distance"].min(), own["distance"].max()
    n = len(own) // max(own["label"].nunique(), 1)
    return (
        f"Scatter of novel clients' error against {METRICS.get(metric, metric)}, "
        f"{low:.2g} to {high:.2g}, {count(n, 'point')} for each of {listing(list(labels))}."
    )
