"""Answers how far guarantees are from the error that new clients really have, and why."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from latecomer.certify.page.svg import INK, WIDE
from latecomer.certify.rules.declaration import is_own
from latecomer.certify.words import DASH, MINUS, chance, count, listing, magnitude, percent, points
from latecomer.eval.names import ROUTES
from latecomer.reports.display.drawing import TERM_FILLS, TERM_HATCHES, styled
from latecomer.reports.display.errors_figure import NARROW_BELOW, model_rows
from latecomer.reports.display.naming import PUBLISHED, Names, model_names, route_of
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.display.section import Answer, Material, Question
from latecomer.reports.frames.chosen import seeds_told
from latecomer.reports.frames.errors import MODEL, SYSTEM, model_of, models_in, records
from latecomer.reports.guarantees.certificate import (
    SEEDS,
    after_words,
    averaged_over,
    chosen_system,
    looked_at,
    without_choice,
)
from latecomer.reports.guarantees.distribution import price_frame
from latecomer.reports.guarantees.slack import references, slack_frame
from latecomer.reports.words import VACUOUS, bound_name, in_one_unit, span


@styled
def draw_guarantees(frame: pd.DataFrame, names: Names, *, width: float = WIDE) -> Figure:
    """Draw measured errors (dots, with intervals) and certificates (one mark per route) per model.

    Colours and marks stand for routes, never for models.  ``frame`` is ``distance_frame`` with
    ``measured lower upper`` of the model; certificates of 100% and more are numbers on the right.
    """
    figure, axes = model_rows([names[model] for model in models_in(frame)], width, beside=1.2)
    for place, (_, own) in enumerate(frame.groupby(MODEL, sort=False)):
        rows = records(own)
        ends = [100 * rows[0]["lower"], 100 * rows[0]["upper"]]
        axes.plot(ends, [place, place], color=INK, linewidth=1.2)
        axes.plot([100 * rows[0]["measured"]], [place], "o", color=INK, markersize=4.5)
        vacuous = []
        for row in rows:
            if row["vacuous"]:
                vacuous.append(f"{row['route'].upper()} {magnitude(row['value'])}")
                continue
            axes.plot(
                [100 * row["value"]], [place], ROUTES[row["route"]].mark,
                color=ROUTES[row["route"]].colour, markersize=6.5,
            )  # fmt: skip
        if vacuous:
            axes.annotate(
                ", ".join(vacuous), (1.01, place), xycoords=("axes fraction", "data"), va="center",
                fontsize=7.5,
            )  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_xlabel("error of new clients (%)")
    below = frame[~frame["vacuous"]]
    used = [route for route in ROUTES if (below["route"] == route).any()]
    handles = [Line2D([], [], marker="o", color=INK, markersize=4.5)] + [
        Line2D([], [], marker=ROUTES[one].mark, color=ROUTES[one].colour, linestyle="none")
        for one in used
    ]
    words = ["measured, 95% interval", *(ROUTES[one].heading for one in used)]
    ncols = 2 if width < NARROW_BELOW else 4
    figure.legend(handles, words, loc="outside lower center", ncols=ncols, handletextpad=0.4)
    return figure


@styled
def draw_distances(frame: pd.DataFrame, names: Names, *, width: float = WIDE) -> Figure:
    """Draw the parts that add up to the distance of every model's tightest certificate.

    Parts that shorten it stand left of zero; greys and hatching tell parts apart.
    """
    rows = records(frame)
    figure, axes = model_rows([names[model_of(row)] for row in rows], width, beside=1.4)
    if width < NARROW_BELOW:
        # Names stand above the bars there, and no line crosses them.
        places = np.arange(len(rows))
        axes.vlines(np.zeros(len(rows)), places - 0.25, places + 0.25, color=INK, linewidth=0.8)
    else:
        axes.axvline(0, color=INK, linewidth=0.8)
    for place, row in enumerate(rows):
        ends = {1.0: 0.0, -1.0: 0.0}
        for number, part in enumerate(PARTS):
            value = 100 * float(row[part])
            side = float(np.sign(value)) or 1.0
            axes.barh(
                place, value, left=ends[side], height=0.5, color=TERM_FILLS[number],
                hatch=TERM_HATCHES[number], edgecolor=INK, linewidth=0.4,
            )  # fmt: skip
            ends[side] += value
        axes.annotate(
            points(row["distance"]), (ends[1.0], place), (4, 0), textcoords="offset points",
            va="center", fontsize=7.5,
        )  # fmt: skip
    axes.margins(x=0.1)
    axes.set_xlabel("certificate minus measured error (percentage points)")
    handles = [
        Patch(facecolor=TERM_FILLS[i], hatch=TERM_HATCHES[i], edgecolor=INK, linewidth=0.4)
        for i in range(len(PARTS))
    ]
    ncols = 1 if width < NARROW_BELOW else 2
    words = list(PARTS.values())
    figure.legend(handles, words, loc="outside lower center", ncols=ncols, handletextpad=0.5)
    return figure


PARTS = {
    "given_up": "accuracy given up by holding out",
    "other_clients": "by chance: other clients than the certified ones",
    "unavoidable": "least margin for equal scores of so few clients",
    "excess": "what the rule adds to that",
}


def least_price(mean: Any, n_clients: Any, delta: Any) -> Any:
    """Return ``(1 - delta^(1/k)) (1 - mean)``: the least margin for k equal independent scores.

    A share ``1 - delta^(1/k)`` of hopeless clients goes unseen with probability delta, and no
    deterministic rule undercuts it (``latecomer.bounds.reference_price``).

    >>> round(float(least_price(0.11, 30, 0.05)), 4)
    0.0846
    """
    return -np.expm1(np.log(delta) / n_clients) * (1 - mean)


def distance_frame(material: Material) -> pd.DataFrame:
    """Split the distance of every model's certificates from its measured error into parts.

    Every model and proved bound of the mean error over new clients is of the seed that
    ``seeds_told`` keeps.  The distance is the value minus the new-client error of the same method
    trained with nobody held out, where the study trained such a model, else minus the model's own
    new-client error.  It is the sum of ``given_up`` by holding clients out (0 where not trained),
    ``other_clients`` (the certified ones err more than the new ones), ``unavoidable`` (the least
    margin for equal scores of that many clients, independent or of their pool, by any deterministic
    rule, at most what was paid) and ``excess`` (all else).  Smallest value first, vacuous included.
    """
    reference = references(cell.config for cell in material.run.cells)
    slack, bounds = slack_frame(material.everything, reference), material.bounds
    keys = [*MODEL, "seed", "bound"]
    told = bounds.loc[bounds["shift"] == "none", [*keys, "delta", "n_clients", "sampling"]]
    frame = slack[slack["rigorous"].astype(bool)].dropna(subset=["slack"])
    frame = frame.merge(told.drop_duplicates(keys), on=keys)
    one = seeds_told(frame, material.rows, material.study)
    paid = one["client_sampling"] + one["sample_level"] + one["monte_carlo"]
    mean = (one["value"] - paid).clip(0.0, 1.0)
    least = least_price(mean, one["n_clients"], one["delta"])
    # The rows know how many clients of a pool go unseen; what is not known is not attributed.
    of_pools = _least_of_pools(material.everything)
    known = [of_pools.get(key, np.nan) for key in one[keys].itertuples(index=False, name=None)]
    least = least.mask(one["sampling"] == "finite-pool", pd.Series(known, one.index))
    unavoidable = np.minimum(least.fillna(0.0), paid)
    one = one.assign(
        route=one["bound"].map(route_of),
        given_up=one["given_up"].fillna(0.0),
        unavoidable=unavoidable,
        excess=paid - unavoidable,
        distance=one["slack"],
    )
    columns = ["bound", "route", "seed", "delta", "vacuous", "value", "measured", "sampling"]
    ordered = one.sort_values("value", kind="stable", ignore_index=True)
    return ordered[[*MODEL, *columns, "n_clients", "n_novel", "distance", *PARTS]]


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
    """Say what is guaranteed of the system chosen before looking, and how far above its error.

    ``numbers`` has ``after_looking`` where the smallest of all certificates can be had at its share
    of delta; without a choice, ``n_certificates`` alone besides.
    """
    frame = distance_frame(material)
    if frame.empty:
        return None
    names, measured = model_names(frame), _measured(material.accuracy)
    declared, choice, after = material.declared, material.choice, looked_at(material)
    own = frame.iloc[:0]
    if choice is not None:
        alike = [frame[name] == choice.row[name] for name in (*SYSTEM, "bound")]
        own = frame[np.all(alike, axis=0)]
    looked = after_words(after, declared, model_names(declared), beside=not own.empty)
    if choice is None or own.empty:
        values = span(list(frame["value"]))
        sentence, more = without_choice(frame["delta"], values, looked if after else ""), []
        numbers = {"n_certificates": len(frame)}
    else:
        first = records(own)[0]
        several = bool(material.bounds["seed"].nunique() > 1)
        subject = chosen_system(choice, names, several_seeds=several)
        sentence = _sentence(first, subject, averaged_over(choice.row))
        more = [looked] if first["vacuous"] else [f"{_made_of(first)} {_tighter(first)}", looked]
        numbers = {name: first[name] for name in ("value", "measured", "distance", *PARTS)}
    if after is not None:
        numbers["after_looking"] = after.row["shown"]
    more.append(_published(material.bounds))
    return Answer(
        sentence,
        tuple(one for one in more if one),
        _table(frame, own, measured, names),
        _plots(frame, measured, names),
        numbers,
    )


def _sentence(first: Mapping[str, Any], subject: str, over: str) -> str:
    about = ROUTES[first["route"]].about
    subject = f"{subject.rstrip(',')}, {about}," if about else subject
    sure = chance(first["delta"])
    beside = (
        f"the {percent(first['measured'])} measured on {count(int(first['n_novel']), 'new client')}"
    )
    if first["vacuous"]:
        told = f"the certificate of {subject} is 100% or more"
        return f"Nothing is guaranteed with {sure} confidence: {told}, beside {beside}."
    above = points(first["value"] - first["measured"])
    side = "below" if first["value"] < first["measured"] else "above"
    return (
        f"{subject} is certified with {sure} confidence to err at most "
        f"{magnitude(first['value'])} on average over {over}: {above.lstrip('+' + MINUS)} "
        f"points {side} {beside}."
    )


def _measured(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return every model's error on new clients, over all seeds, with its interval."""
    frame = accuracy[accuracy["group"] == "novel"].rename(columns={"mean": "measured"})
    return frame[[*MODEL, "measured", "lower", "upper"]]


def _plots(frame: pd.DataFrame, measured: pd.DataFrame, names: Names) -> tuple[Plot, ...]:
    drawn = frame.drop(columns="measured").merge(measured, on=MODEL)
    tightest = frame[~frame["vacuous"]].groupby(MODEL, sort=False).head(1)
    said = [
        f"{names[model_of(row)]} {ROUTES[row['route']].heading} {magnitude(row['value'])}"
        for row in records(frame)
    ]
    vacuous = frame["vacuous"].any()
    plots = [
        Plot(
            "answer-bounds",
            partial(draw_guarantees, drawn, names),
            drawn,
            title="Certified and measured error of new clients",
            alt=f"Certificates: {'; '.join(said)}.",
            caption="A row a model, smallest certificate on top, each by itself; "
            f"{SEEDS}.{_SAYING_NOTHING if vacuous else ''}",
        )
    ]
    if len(tightest):
        less = " that says something" if vacuous else ""
        plots.append(
            Plot(
                "answer-distance",
                partial(draw_distances, tightest, names),
                tightest,
                title="What the distance is made of",
                alt="Points of the smallest certificate above the measured error, by model and "
                "part.",
                caption=f"For every model's smallest certificate{less}; above the error of the "
                "same method with nobody held out. Left of zero: parts that shorten the distance.",
            )
        )
    return tuple(plots)


def _made_of(row: Mapping[str, Any]) -> str:
    """Say which parts, with their signs, add up to the distance from where it starts."""
    words = {
        "given_up": "for training on fewer clients",
        "other_clients": "by chance (the certified clients err more than the new ones)"
        if row["other_clients"] >= 0
        else "by chance (the certified clients err less than the new ones)",
        "unavoidable": f"for scoring {count(int(row['n_clients']), 'client')} only (least margin)",
        "excess": "for its rule",
    }
    parts = sorted(PARTS, key=lambda name: -abs(float(row[name])))
    said = [f"{points(row[name])} {words[name]}" for name in parts if points(row[name]) != "0.0"]
    start = "the measured error"
    if row["given_up"]:
        without = percent(row["measured"] - row["given_up"])
        start = f"the {without} error of training with nobody held out"
    side = "above" if row["distance"] >= 0 else "below"
    distance = points(abs(row["distance"])).lstrip("+")
    return f"It lies {distance} points {side} {start}: {listing(said)}."


def _tighter(row: Mapping[str, Any]) -> str:
    """Say what the value would be with twice as many certified clients, all else equal."""
    if row["sampling"] == "finite-pool":
        return ""
    mean = row["value"] - row["unavoidable"] - row["excess"]
    more = 2 * int(row["n_clients"])
    least = float(least_price(mean, more, row["delta"]))
    ratio = least / row["unavoidable"] if row["unavoidable"] > 0 else 1.0
    value = mean + least + row["excess"] * min(ratio, 1.0)
    return f"With {more} alike it would be about {percent(value)}."


def _published(bounds: pd.DataFrame) -> str:
    """Say what the papers' own theorems, and bounds of one's own, give on these models."""
    frame = bounds[(bounds["shift"] == "none") & (bounds["bound"].map(route_of) == PUBLISHED)]
    own = np.array([is_own(bound) for bound in frame["bound"]], dtype=bool)
    told = (
        ("The published theorems give", frame[~own]),
        ("The study's own formulas give", frame[own]),
    )
    return " ".join(filter(None, (_giving(whose, part) for whose, part in told)))


def _giving(whose: str, frame: pd.DataFrame) -> str:
    said = [
        f"{bound_name(str(bound))} {span(list(part['value']))}"
        for bound, part in frame.groupby("bound", sort=False)
    ]
    vacuous = " (vacuous from 100% on)" if (frame["value"] >= 1).any() else ""
    return f"{whose} {listing(said)}{vacuous}." if said else ""


def _table(
    frame: pd.DataFrame, chosen: pd.DataFrame, measured: pd.DataFrame, names: Names
) -> Table:
    """Lay out models by routes; the chosen system's certificate is bold."""
    errors = {model_of(row): percent(row["measured"]) for row in records(measured)}
    smallest = frame.groupby([*MODEL, "route"], sort=False).head(1)
    heads, cells = {}, {}
    for route in (route for route in ROUTES if (frame["route"] == route).any()):
        own = smallest[smallest["route"] == route]
        write, unit = in_one_unit(own["value"])
        heads[route] = ROUTES[route].heading + unit
        for row in records(own):
            said = write(row["value"]) + (VACUOUS if row["vacuous"] else "")
            cells[*model_of(row), heads[route]] = said
    models = models_in(frame)
    shown = pd.DataFrame(
        {"model": names[model], "new-client error": errors.get(model, DASH)}
        | {head: cells.get((*model, head), DASH) for head in heads.values()}
        for model in models
    )
    caption = (
        f"Certificates by model and route, each by itself; {SEEDS}. Vacuous ones are 100% and "
        "more. Bold: chosen before looking. Errors are means over clients and seeds."
    )
    bold = tuple((models.index(model_of(row)), heads[row["route"]]) for row in records(chosen))
    return Table("answer-bounds", caption, frame, shown, ("model",), bold)


BOUNDS = Question("bounds", answer_bounds)
