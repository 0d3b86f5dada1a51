"""Answers how far guarantees are from the error that newcomers really have, and why."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from latecomer.reports.answers.bounds_figure import draw_distances, draw_guarantees
from latecomer.reports.answers.said import Answer
from latecomer.reports.display.naming import (
    PUBLISHED,
    ROUTES,
    Names,
    model_names,
    model_of,
    models_in,
    route_of,
)
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Material
from latecomer.reports.display.table import Table
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import records
from latecomer.reports.guarantees.shares import price_frame
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

PARTS = {
    "given_up": "accuracy given up by holding out",
    "other_clients": "luck: other clients than the certified ones",
    "unavoidable": "least margin for equal scores of so few clients",
    "excess": "what the rule pays beyond that",
}


def least_price(mean: Any, n_clients: Any, delta: Any) -> Any:
    """Return ``(1 - delta^(1/k)) (1 - mean)``: the least margin for k equal independent scores.

    A share ``1 - delta^(1/k)`` of hopeless clients goes unseen with probability delta, and no
    deterministic rule undercuts it (``latecomer.bounds.reference_price``).

    >>> round(float(least_price(0.11, 30, 0.05)), 4)
    0.0846
    """
    return -np.expm1(np.log(delta) / n_clients) * (1 - mean)


def distance_frame(
    rows: pd.DataFrame, reference: Mapping[str, str], bounds: pd.DataFrame
) -> pd.DataFrame:
    """Split the distance of every model's certificates from its measured error into parts.

    Every model and proved bound of the mean error over unseen clients is taken at its worst seed.
    The distance is the value minus the novel error of the same method trained with nobody held out,
    where the study trained such a model, else minus the model's own novel error.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the run, including those of models trained with nobody held out.
    reference : mapping
        ``references`` of its cells.
    bounds : pandas.DataFrame
        ``bound_frame`` of the rows.

    Returns
    -------
    pandas.DataFrame
        ``label predictor bound route seed delta value measured n_clients n_novel distance`` and
        the parts that add up to it: ``given_up`` by holding clients out (0 where not trained),
        ``other_clients`` (the certified ones err more than the novel ones), ``unavoidable`` (the
        least margin for equal scores of that many clients, independent or of their pool, by any
        deterministic rule, at most what was paid) and ``excess`` (all else).  Smallest value
        first.  A bound that is vacuous for any seed is left out.
    """
    slack = slack_frame(rows, reference)
    keys = [*MODEL, "seed", "bound"]
    told = bounds.loc[bounds["shift"] == "none", [*keys, "delta", "n_clients", "sampling"]]
    vacuous = slack.groupby([*MODEL, "bound"])["vacuous"].transform("any")
    frame = slack[slack["rigorous"] & ~vacuous].dropna(subset=["slack"])
    frame = frame.merge(told.drop_duplicates(keys), on=keys)
    worst = frame.sort_values("value", kind="stable").groupby([*MODEL, "bound"]).tail(1)
    paid = worst["client_sampling"] + worst["sample_level"] + worst["monte_carlo"]
    mean = (worst["value"] - paid).clip(0.0, 1.0)
    least = least_price(mean, worst["n_clients"], worst["delta"])
    # The rows know how many clients of a pool go unseen; what is not known is not attributed.
    of_pools = _least_of_pools(rows)
    known = [of_pools.get(key, np.nan) for key in worst[keys].itertuples(index=False, name=None)]
    least = least.mask(worst["sampling"] == "finite-pool", pd.Series(known, worst.index))
    unavoidable = np.minimum(least.fillna(0.0), paid)
    worst = worst.assign(
        route=worst["bound"].map(route_of),
        given_up=worst["given_up"].fillna(0.0),
        unavoidable=unavoidable,
        excess=paid - unavoidable,
        distance=worst["slack"],
    )
    columns = ["bound", "route", "seed", "delta", "value", "measured", "n_clients", "n_novel"]
    columns += ["sampling"]
    ordered = worst.sort_values("value", kind="stable", ignore_index=True)
    return ordered[[*MODEL, *columns, "distance", *PARTS]]


def _least_of_pools(rows: pd.DataFrame) -> dict[tuple[Any, ...], float]:
    """Return the least margins of pools for equal scores, by model, seed and bound."""
    prices = price_frame(rows)
    unshifted = records(prices[prices["shift"] == "none"])
    keys = (*MODEL, "seed", "bound")
    return {tuple(row[key] for key in keys): row["reference_pool"] for row in unshifted}


_SAYING_NOTHING = (
    " On the right, certificates of 100% and more (as multiples of 1), which say nothing."
)


def answer_bounds(material: Material) -> Answer | None:
    """Say what the tightest guarantee is, how far above the measured error, and what that is.

    Parameters
    ----------
    material : Material
        Of the run.

    Returns
    -------
    Answer or None
        ``numbers`` has ``value measured distance given_up other_clients unavoidable excess``.
    """
    reference = references(cell.config for cell in material.run.cells)
    frame = distance_frame(material.everything, reference, material.bounds)
    if frame.empty:
        return None
    names, first = model_names(frame), records(frame)[0]
    worst = ", in the worst of the seeds" if material.bounds["seed"].nunique() > 1 else ""
    about = ROUTES[first["route"]].about
    called = f"{names[model_of(first)]}, {about}" if about else names[model_of(first)]
    sentence = (
        f"The tightest guarantee is at most {magnitude(first['value'])} error, for {called}"
        f"{worst}: {points(first['value'] - first['measured']).lstrip('+')} points above the "
        f"{percent(first['measured'])} measured on {count(int(first['n_novel']), 'new client')}."
    )
    last = f"{_chosen(frame, first)} {_published(material.bounds)}".strip()
    numbers = {name: first[name] for name in ("value", "measured", "distance", *PARTS)}
    measured = _measured(material.accuracy)
    return Answer(
        sentence,
        tuple(said for said in (_made_of(first), _tighter(first), last) if said),
        _table(frame, measured, names),
        _plots(frame, _vacuous(material.bounds), measured, names),
        numbers,
    )


def _measured(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return every model's error on new clients, over all seeds, with its interval."""
    frame = accuracy[accuracy["group"] == "novel"].rename(columns={"mean": "measured"})
    return frame[[*MODEL, "measured", "lower", "upper"]]


def _vacuous(bounds: pd.DataFrame) -> pd.DataFrame:
    """Return the vacuous certificates, the largest of every model and route."""
    about = (bounds["shift"] == "none") & (bounds["population"] == "unseen-client")
    frame = bounds[about & bounds["rigorous"] & bounds["vacuous"]]
    frame = frame.assign(route=frame["bound"].map(route_of))
    return frame.groupby([*MODEL, "route"], sort=False)["value"].max().reset_index()


def _plots(
    frame: pd.DataFrame, vacuous: pd.DataFrame, measured: pd.DataFrame, names: Names
) -> tuple[Plot, ...]:
    drawn = frame.drop(columns="measured").merge(measured, on=MODEL)
    tightest = frame.groupby(MODEL, sort=False).head(1)
    said = [
        f"{names[model_of(row)]} {ROUTES[row['route']].heading} {magnitude(row['value'])}"
        for row in records(frame)
    ]
    return (
        Plot(
            "answer-bounds",
            partial(draw_guarantees, drawn, vacuous, names),
            drawn,
            title="Certified and measured error of new clients",
            alt=f"Certificates: {'; '.join(said)}.",
            caption="A row a model, tightest certificate on top, each the largest over the seeds."
            f"{_SAYING_NOTHING if len(vacuous) else ''}",
        ),
        Plot(
            "answer-distance",
            partial(draw_distances, tightest, PARTS, names),
            tightest,
            title="What the distance is made of",
            alt="Points of the tightest certificate above the measured error, by model and part.",
            caption="For every model's tightest certificate; above the error of the same method "
            "with nobody held out. Left of zero: parts that shorten the distance.",
        ),
    )


def _made_of(row: Mapping[str, Any]) -> str:
    """Say which parts the distance adds up from, largest first, and where it starts."""
    words = {
        "given_up": "accuracy given up by holding clients out",
        "other_clients": "luck: the certified clients err more than the new ones"
        if row["other_clients"] >= 0
        else "luck: the certified clients err less than the new ones",
        "unavoidable": f"the least margin for {count(int(row['n_clients']), 'equal score')}",
        "excess": "what its rule pays beyond that",
    }
    parts = sorted(PARTS, key=lambda name: -abs(float(row[name])))
    said = [f"{points(row[name])} {words[name]}" for name in parts if points(row[name]) != "0.0"]
    start = "the measured error"
    if row["given_up"]:
        without = percent(row["measured"] - row["given_up"])
        start = f"the {without} error of training with nobody held out"
    distance = points(row["distance"]).lstrip("+")
    return f"From {start} it is {distance} points: {listing(said)}."


def _tighter(row: Mapping[str, Any]) -> str:
    """Say what the value would be with twice as many certified clients, all else equal."""
    if row["sampling"] == "finite-pool":
        return ""
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
    if len(frame) == 1:
        return f"It holds with probability {chance(first['delta'])}."
    return (
        f"Each of the {len(frame)} certificates holds by itself with probability "
        f"{chance(first['delta'])}; fix one before looking, as the smallest of them is none at "
        "that level."
    )


def _published(bounds: pd.DataFrame) -> str:
    """Say what the papers' own theorems give on these models."""
    frame = bounds[(bounds["shift"] == "none") & (bounds["bound"].map(route_of) == PUBLISHED)]
    said = [
        f"{bound_name(str(bound))} {span(list(part['value']))}"
        for bound, part in frame.groupby("bound", sort=False)
    ]
    vacuous = " (vacuous from 100% on)" if (frame["value"] >= 1).any() else ""
    return f"The published theorems give {listing(said)}{vacuous}." if said else ""


def _table(frame: pd.DataFrame, measured: pd.DataFrame, names: Names) -> Table:
    """Lay out models by routes, the largest value over the seeds."""
    errors = {model_of(row): percent(row["measured"]) for row in records(measured)}
    tightest = frame.groupby([*MODEL, "route"], sort=False)["value"].min().reset_index()
    cells = {(*model_of(row), row["route"]): magnitude(row["value"]) for row in records(tightest)}
    routes = [route for route in ROUTES if (frame["route"] == route).any()]
    shown = pd.DataFrame(
        {"model": names[model], "novel error": errors.get(model, DASH)}
        | {ROUTES[route].heading: cells.get((*model, route), DASH) for route in routes}
        for model in models_in(frame)
    )
    caption = (
        "Certificates by model and route, the largest over the seeds, the tightest of all bold; "
        "errors are means over clients and seeds."
    )
    bold = ((0, ROUTES[frame["route"].iloc[0]].heading),)
    return Table("answer-bounds", caption, frame, shown, ("model",), bold)
