"""Answers how far guarantees are from the error that newcomers really have, and why."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from latecomer.eval.results.rows import RunRecord
from latecomer.reports.answers.bounds_figure import draw_distances, draw_guarantees
from latecomer.reports.answers.naming import named
from latecomer.reports.answers.said import Answer, Shown
from latecomer.reports.frames.bounds import bound_frame
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import accuracy_frame, records
from latecomer.reports.guarantees.slack import references, slack_frame
from latecomer.reports.words import (
    DASH,
    bound_name,
    chance,
    count,
    listing,
    magnitude,
    percent,
    points,
    span,
)

__all__ = ["answer_bounds", "distance_frame", "route_of"]

PARTS = {
    "given_up": "accuracy given up by holding out",
    "other_clients": "luck: other clients than the certified ones",
    "unavoidable": "price of so few clients, whatever the rule",
    "excess": "what the rule pays beyond that",
}
ROUTES = {
    "r0": "clients held out (R0)",
    "r1": "posterior tuned (R1)",
    "r2": "own sample, two steps (R2)",
    "r3": "personal priors (R3)",
    "r4": "while training (R4)",
    "r5": "update compressed (R5)",
}


# What such a guarantee is about: not the one trained system.
DRAWN = {
    "r1": ", of a system drawn at random",
    "r4": ", of a checkpoint drawn at random",
}


def route_of(bound: str) -> str:
    """Return the route of a bound's name, or ``published``.

    >>> route_of("r4:product"), route_of("pefll_32")
    ('r4', 'published')
    """
    route = bound.partition(":")[0]
    return route if route in ROUTES else "published"


def least_price(mean: Any, n_clients: Any, delta: Any) -> Any:
    """Return ``(1 - delta^(1/k)) (1 - mean)``: what no deterministic rule undercuts.

    Said of k equal scores: a share ``1 - delta^(1/k)`` of hopeless clients goes unseen with
    probability delta (``latecomer.bounds.reference_price``).

    >>> round(float(least_price(0.11, 30, 0.05)), 4)
    0.0846
    """
    return -np.expm1(np.log(delta) / n_clients) * (1 - mean)


def distance_frame(run: RunRecord) -> pd.DataFrame:
    """How far the certificates of every model are from its measured error, worst over seeds.

    For every model and proved bound of the mean error over unseen clients, the seed whose value is
    largest.  The distance is value minus the novel error of the same method trained with nobody
    held out, where the study trained that, else minus the model's own.

    Parameters
    ----------
    run : RunRecord
        The run; models trained with nobody held out are what others are compared with.

    Returns
    -------
    pandas.DataFrame
        ``label predictor bound route seed delta value measured n_clients n_novel distance`` and
        what adds up to it: ``given_up`` by holding clients out (0 where not trained),
        ``other_clients`` (the certified ones err more than the novel ones), ``unavoidable`` (the
        least price of so many clients, for deterministic rules on equal scores, at most what was
        paid) and ``excess`` (all else).  Smallest value first; vacuous ones are left out.
    """
    bounds = bound_frame(run.rows)
    slack = slack_frame(run.rows, references(cell.config for cell in run.cells))
    keys = [*MODEL, "seed", "bound"]
    told = bounds.loc[bounds["shift"] == "none", [*keys, "delta", "n_clients"]]
    # Where the certificate of one seed says nothing, that one is the worst over the seeds.
    vacuous = slack.groupby([*MODEL, "bound"])["vacuous"].transform("any")
    frame = slack[slack["rigorous"] & ~vacuous].dropna(subset=["slack"])
    frame = frame.merge(told.drop_duplicates(keys), on=keys)
    worst = frame.sort_values("value", kind="stable").groupby([*MODEL, "bound"]).tail(1)
    paid = worst["client_sampling"] + worst["sample_level"] + worst["monte_carlo"]
    mean = (worst["value"] - paid).clip(0.0, 1.0)
    least = least_price(mean, worst["n_clients"], worst["delta"])
    unavoidable = np.minimum(least, paid)
    worst = worst.assign(
        route=worst["bound"].map(route_of),
        given_up=worst["given_up"].fillna(0.0),
        unavoidable=unavoidable,
        excess=paid - unavoidable,
        distance=worst["slack"],
    )
    columns = ["bound", "route", "seed", "delta", "value", "measured", "n_clients", "n_novel"]
    ordered = worst.sort_values("value", kind="stable", ignore_index=True)
    return ordered[[*MODEL, *columns, "distance", *PARTS]]


def answer_bounds(run: RunRecord) -> Answer:
    """Say what the tightest guarantee is, how far above the measured error, and what that is.

    Parameters
    ----------
    run : RunRecord

    Returns
    -------
    Answer
        ``numbers`` has ``value measured distance given_up other_clients unavoidable excess``.
    """
    frame = distance_frame(run)
    published = _published(run.rows)
    if frame.empty:
        return Answer("bounds", "", (published,) if published else ())
    names = named(frame)
    first = records(frame)[0]
    called = names[first["label"], first["predictor"]]
    called += DRAWN.get(str(first["route"]), "")
    above = first["value"] - first["measured"]
    seeds = run.rows.loc[run.rows["metric"] == "certificate", "seed"].nunique()
    worst = ", in the worst of the seeds" if seeds > 1 else ""
    sentence = (
        f"The tightest guarantee is at most {magnitude(first['value'])} error, for {called}"
        f"{worst}: {points(above).lstrip('+')} points above the {percent(first['measured'])} "
        f"measured on {count(int(first['n_novel']), 'new client')}."
    )
    more = (_made_of(first), _tighter(first), f"{_chosen(frame, first)} {published}".strip())
    names_of = ("value", "measured", "distance", *PARTS)
    numbers = {name: first[name] for name in names_of}
    measured = _measured(run.rows)
    table = _table(frame, measured, names)
    return Answer("bounds", sentence, more, numbers, table, _figures(run, frame, measured, names))


def _measured(rows: pd.DataFrame) -> pd.DataFrame:
    """Return every model's error on new clients, over all seeds, with its interval."""
    frame = accuracy_frame(rows)
    frame = frame[frame["group"] == "novel"].rename(columns={"mean": "measured"})
    return frame[[*MODEL, "measured", "lower", "upper"]]


def _figures(
    run: RunRecord,
    frame: pd.DataFrame,
    measured: pd.DataFrame,
    names: Mapping[tuple[str, str], str],
) -> tuple[Shown, ...]:
    drawn = frame.drop(columns="measured").merge(measured, on=MODEL)
    slack = slack_frame(run.rows, {})
    vacuous = slack[slack["rigorous"] & slack["vacuous"]]
    vacuous = vacuous.assign(route=vacuous["bound"].map(route_of))
    vacuous = vacuous.groupby([*MODEL, "route"], sort=False)["value"].max().reset_index()
    said = [
        f"{names[row['label'], row['predictor']]} {ROUTES[row['route']]} {magnitude(row['value'])}"
        for row in records(frame)
    ]
    tightest = frame.groupby(MODEL, sort=False).head(1)
    return (
        Shown(
            "answer-bounds",
            "Certified and measured error of new clients",
            partial(draw_guarantees, drawn, vacuous, names, ROUTES),
            f"Certificates: {'; '.join(said)}.",
            "A row a model, tightest certificate on top, each the largest over the seeds. On the "
            "right, certificates of 100% and more (as multiples of 1), which say nothing.",
            drawn,
        ),
        Shown(
            "answer-distance",
            "What the distance is made of",
            partial(draw_distances, tightest, PARTS, names),
            "Points of the tightest certificate above the measured error, by model and part.",
            "For every model's tightest certificate. Left of zero: parts that shorten the "
            "distance.",
            tightest,
        ),
    )


def _made_of(row: Mapping[str, Any]) -> str:
    """Say what the distance adds up from, largest part first."""
    words = {
        "given_up": "accuracy given up by holding clients out",
        "other_clients": "luck: the certified clients err more than the new ones"
        if row["other_clients"] >= 0
        else "luck: the certified clients err less than the new ones",
        "unavoidable": f"the price of {count(int(row['n_clients']), 'client')} that no rule avoids",
        "excess": "what its rule pays beyond that",
    }
    parts = sorted(PARTS, key=lambda name: -abs(float(row[name])))
    said = [f"{points(row[name])} {words[name]}" for name in parts if points(row[name]) != "0.0"]
    return f"The distance in points: {listing(said)}."


def _tighter(row: Mapping[str, Any]) -> str:
    """Say how far more certified clients would go, all else staying as it is."""
    mean = row["value"] - row["unavoidable"] - row["excess"]
    more = 2 * int(row["n_clients"])
    least = float(least_price(mean, more, row["delta"]))
    ratio = least / row["unavoidable"] if row["unavoidable"] > 0 else 1.0
    value = mean + least + row["excess"] * min(ratio, 1.0)
    return (
        f"With {count(more, 'certified client')} it would be about {percent(value)}, were their "
        "errors like these."
    )


def _chosen(frame: pd.DataFrame, first: Mapping[str, Any]) -> str:
    n = len(frame)
    if n == 1:
        return f"It holds with probability {chance(first['delta'])}."
    return (
        f"Each of the {n} certificates holds by itself with probability {chance(first['delta'])}; "
        "fix one before looking, as the smallest of them is none at that level."
    )


def _published(rows: pd.DataFrame) -> str:
    """Say in a clause what the papers' own theorems give on these models."""
    frame = bound_frame(rows)
    frame = frame[(frame["shift"] == "none") & (frame["bound"].map(route_of) == "published")]
    if frame.empty:
        return ""
    said = [
        f"{bound_name(str(bound))} {span(list(part['value']))}"
        for bound, part in frame.groupby("bound", sort=False)
    ]
    vacuous = " (vacuous from 100% on)" if (frame["value"] >= 1).any() else ""
    return f"The published theorems give {listing(said)}{vacuous}."


def _table(
    frame: pd.DataFrame, measured: pd.DataFrame, names: Mapping[tuple[str, str], str]
) -> pd.DataFrame:
    """Lay out models by routes, the largest value over the seeds."""
    errors = measured.set_index(MODEL)["measured"]
    routes = [route for route in ROUTES if (frame["route"] == route).any()]
    shown = []
    for model in dict.fromkeys(frame[MODEL].itertuples(index=False, name=None)):
        own = frame[(frame["label"] == model[0]) & (frame["predictor"] == model[1])]
        line = {"model": names[model], "novel error": percent(float(errors[model]))}
        for route in routes:
            values = own.loc[own["route"] == route, "value"]
            line[ROUTES[route]] = magnitude(float(values.min())) if len(values) else DASH
        shown.append(line)
    return pd.DataFrame(shown)
