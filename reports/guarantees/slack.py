"""Bounds beside measured errors: how far they are, why, and how they rank models.

A certificate's value minus the error that its system would have with nobody held out is the slack.
It adds up from accuracy given up (the certified system's measured error minus that of the same
method trained on the held-out clients as well), other clients (the certificate starts from its own
clients' scores, the measured error is the new clients'), and the certificate's terms.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator
from scipy import stats

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.certify.words import DASH, MINUS, count, percent, points
from latecomer.reports.display.drawing import BOUND_MARKS, Looks, legend_below, sheet, shown, styled
from latecomer.reports.display.naming import model_called, model_names
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.display.section import Block, Material, Section, Text
from latecomer.reports.frames.bounds import MEASURED_TERMS, bound_frame
from latecomer.reports.frames.errors import (
    SYSTEM,
    client_errors,
    half_width,
    in_order,
    levels,
    records,
    unshifted,
)
from latecomer.reports.words import bound_name, in_one_unit, interval, range_of, span


@styled
def bound_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw bounds against the measured new-client error: a mark per trained model and bound.

    Certificates are filled, everything without a proof is hollow; marks tell bounds apart, or
    methods if there is only one bound.  Values of 1 and more stand in a band on top, on a log
    scale; where several bounds are drawn, the legend has their ranges.  Only bounds on a mean
    error of unshifted clients are drawn.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``bound_frame`` of the rows.
    """
    frame = drawable_bounds(frame)
    high, narrow = bool(frame["vacuous"].any()), width < 5
    figure, panels = sheet(
        width, 5.4 if narrow else 5.0, 2 if high else 1,
        sharex=True, height_ratios=[1.1, 3] if high else [1],
    )  # fmt: skip
    band, axes = panels[0], panels[-1]
    marks = dict(zip(dict.fromkeys(frame["bound"]), cycle(BOUND_MARKS), strict=False))
    alone = len(marks) == 1  # then marks are free to tell methods apart
    for row in records(frame):
        colour, high_one = looks[row["label"]].colour, row["vacuous"]
        (band if high_one else axes).plot(
            100 * row["measured"],
            row["value"] if high_one else 100 * row["value"],
            looks[row["label"]].mark if alone else marks[row["bound"]],
            color=colour,
            markerfacecolor=colour if row["rigorous"] else "none",
            markersize=6,
            clip_on=False,
            zorder=3,
        )
    equal = _proven_scale(axes, frame)
    if high:
        _vacuous_band(band, frame[frame["vacuous"]], narrow)
    # The line's name stands in the legend: marks lie on both sides of it, wherever they happen to.
    handles = [*_bound_handles(frame, marks, looks, narrow), equal]
    legend_below(figure, handles, 2 if narrow else 5, handletextpad=0.5, columnspacing=1.2)
    return figure


def _proven_scale(axes: Axes, frame: pd.DataFrame) -> Line2D:
    """Scale the axes of bounds below 1; draw the line where a bound is the measured error."""
    right = 100 * max(float(frame["measured"].max()) * 1.15, 0.02)
    [equal] = axes.plot(
        [0, right], [0, right], color=INK, linewidth=1, linestyle=(0, (4, 2)),
        label="bound = measured error",
    )  # fmt: skip
    below = frame.loc[~frame["vacuous"], "value"]
    top = 100 * min(max(float(below.max()) * 1.15 if len(below) else 0.5, right / 100), 1.0)
    axes.set_xlim(0, right)
    axes.set_ylim(0, top)
    axes.set_xlabel("measured error of new clients (%)")
    axes.set_ylabel("bound (%)")
    axes.grid()
    return equal


def drawable_bounds(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``bound_frame`` that ``bound_figure`` draws."""
    unshifted = frame["shift"] == "none"
    mean = frame["population"] != "next-client"
    finite = frame["value"].abs() < np.inf
    return frame[unshifted & mean & finite & frame["measured"].notna()]


def _vacuous_band(axes: Axes, frame: pd.DataFrame, narrow: bool) -> None:
    axes.set_yscale("log")
    decades = int(np.ceil(np.log10(max(float(frame["value"].max()) * 4, 10.0))))
    axes.set_ylim(1, 10**decades)
    every = 1 + decades // (2 if narrow else 5)
    ticks = [10.0**k for k in range(0, decades + 1, every)]
    words = [f"{tick:,.0f}" if tick < 1e5 else f"1e{round(np.log10(tick))}" for tick in ticks]
    axes.set_yticks(ticks, words)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.axhspan(1, 10**decades, color=MUTED, alpha=0.1, linewidth=0)
    axes.set_title("vacuous: 1 (100%) and more, log scale", fontsize=8.5, fontweight="normal")
    axes.tick_params(axis="x", length=0, labelbottom=False)


def _bound_handles(
    frame: pd.DataFrame, marks: Mapping[str, str], looks: Looks, narrow: bool
) -> list[Any]:
    labels = list(dict.fromkeys(frame["label"]))
    if len(marks) == 1:
        proven = bool(frame["rigorous"].all())
        return [
            Line2D(
                [], [], marker=looks[label].mark, linestyle="", color=looks[label].colour,
                label=shown(model_called(label)),
                markerfacecolor=looks[label].colour if proven else "none",
            )
            for label in labels
        ]  # fmt: skip
    handles: list[Any] = [
        Patch(facecolor=looks[label].colour, linewidth=0, label=shown(model_called(label)))
        for label in labels
    ]
    for bound, mark in marks.items():
        own = frame[frame["bound"] == bound]
        vacuous = own.loc[own["vacuous"], "value"]
        name = bound_name(bound) + (f" (vacuous: {span(list(vacuous))})" if len(vacuous) else "")
        inside = INK if own["rigorous"].all() else "none"
        handles.append(
            Line2D(
                [], [], marker=mark, linestyle="", color=INK, markerfacecolor=inside,
                label=fill(name, 44) if narrow else name,
            )
        )  # fmt: skip
    return handles


def _beside_measured(material: Material) -> Iterator[Block]:
    bounds = material.ordered(material.bounds)
    if bounds.empty:
        whose = " of an error" if material.study.get("certificates") else ""
        yield Text(f"The study asked for no certificate and no bound{whose}.")
        return
    yield Text(
        "A certificate uses the held-out clients' scores and nothing of the new clients; "
        "the measured error beside it comes from the new clients alone. (Where the clients are a "
        "finite pool, the certified mean counts both groups.) Each value belongs to one trained "
        "model."
    )
    drawn = drawable_bounds(bounds)
    if len(drawn):
        said = [
            f"{bound_name(str(bound))} {span(list(part['value']))}, measured "
            f"{range_of(part['measured'], percent)} ({count(len(part), 'trained model')})"
            for bound, part in drawn.groupby("bound")
        ]
        yield Plot(
            "bounds",
            partial(bound_figure, bounds, material.looks),
            drawn,
            title="Bounds beside measured errors",
            alt=f"Bounds against measured new-client error: {'; '.join(said)}.",
            caption="A mark per trained model and bound; its place to the right is the mean error "
            "of the new clients, whomever the bound is about. Filled: a certificate. Hollow: "
            "a formula without a proof for this model. Below the dashed line a bound would be "
            "below the measured error.",
        )


BESIDE_MEASURED = Section("bounds", _beside_measured)


PAID = {"samples": "sample_level", "deviation": "sample_level", "draws": "monte_carlo"}
"""What terms pay for; all others pay for the choice of clients."""
PARTS = ("given_up", "other_clients", "client_sampling", "sample_level", "monte_carlo")
FEWEST = 3  # models that can be ranked


def references(configs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Map each label to that of the same method trained on every client but the new ones.

    A study trains such models where ``evaluation.given_up`` is set.  Without held-out clients its
    usual models already are such, and models that a route trains are compared with them.
    """
    kinds: dict[str, str] = {}
    whole: dict[str, str] = {}
    routed: dict[str, str] = {}
    made = [config for config in configs if config.get("method")]
    for config in made:
        label = str(config["method"]["label"])
        kinds[label] = kind = str(config.get("kind", "method"))
        if kind == "whole":
            whole[str(config["of"])] = label
        elif kind != "method":
            entry = config["certificates"][0]
            routed[label] = label.removesuffix(f" {entry['route']}:{entry['rule']}")
    held_out = any((config.get("split") or {}).get("certify") for config in made)
    matched = dict(whole)
    for label, own in routed.items():
        if own in whole:
            matched[label] = whole[own]
        elif own in kinds and not held_out:
            matched[label] = own
    return matched


def slack_frame(
    rows: pd.DataFrame, reference: Mapping[str, str], bounds: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Break down how far every unshifted bound on new clients is from what was measured.

    ``PARTS`` add up to ``slack``; ``lower`` and ``upper`` are the 95% t-interval of ``measured``
    over the new clients.  Where a label has no ``reference``, ``given_up`` is NaN and the other
    parts add up to ``slack``.
    """
    bounds = bound_frame(rows) if bounds is None else bounds
    bounds = bounds[(bounds["shift"] == "none") & (bounds["population"] == "unseen-client")]
    novel = unshifted(client_errors(rows)).groupby(SYSTEM)["error"]
    means, halves = novel.mean(), novel.agg(half_width)
    terms = rows[
        (rows["metric"] == "certificate") & (rows["term"] != "") & (rows["shift"] == "none")
    ]
    keys = ["label", "seed", "bound", "predictor", "delta"]
    made_of = {key: part for key, part in terms.groupby(keys, sort=False)}
    facts = ("label", "predictor", "seed", "bound", "rigorous", "vacuous", "value", "measured")
    slacks = []
    for row in records(bounds):
        start, parts = _paid(made_of.get(tuple(row[name] for name in keys)))
        half = float(halves.get((row["label"], row["predictor"], row["seed"]), np.nan))
        parts["other_clients"] = start - row["measured"]
        parts["given_up"] = row["measured"] - _reference(means, row, reference)
        slack = sum(value for value in parts.values() if not np.isnan(value))
        slacks.append(
            {
                **{name: row[name] for name in facts},
                "lower": max(row["measured"] - half, 0.0),
                "upper": min(row["measured"] + half, 1.0),
                "n_novel": row["n_novel"],
                "slack": np.nan if np.isnan(parts["other_clients"]) else slack,
                **parts,
            }
        )
    columns = [*facts, "lower", "upper", "n_novel", "slack", *PARTS]
    return pd.DataFrame(slacks, columns=columns)


def _paid(terms: pd.DataFrame | None) -> tuple[float, dict[str, float]]:
    """Return the measured term that a bound starts from, and its other terms summed by purpose."""
    start, parts = np.nan, dict.fromkeys(PARTS, 0.0)
    for entry in records(terms) if terms is not None else []:
        if entry["term"] in MEASURED_TERMS:
            start = float(entry["value"])
        else:
            parts[PAID.get(entry["term"], "client_sampling")] += float(entry["value"])
    return start, parts


def _reference(means: pd.Series, row: Mapping[str, Any], reference: Mapping[str, str]) -> float:
    """Return the reference's measured error: of the same predictor, else of the fixed weights."""
    label = reference.get(row["label"])
    for predictor in (row["predictor"], "deterministic"):
        if label is not None and (label, predictor, row["seed"]) in means.index:
            return float(means[label, predictor, row["seed"]])
    return float("nan")


def slack_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Show a row per trained model and bound, vacuous ones marked."""
    frame = in_order(frame, labels)
    names = model_names(frame)
    write, unit = in_one_unit(frame["value"])
    shown = []
    for row in records(frame):
        kind = "vacuous" if row["vacuous"] else "certificate" if row["rigorous"] else "not proven"
        shown.append(
            {
                "method": names[row["label"], row["predictor"]],
                "bound": bound_name(row["bound"]),
                "seed": str(row["seed"]),
                f"value{unit}": write(row["value"]),
                "is": kind,
                "new-client error (95%)": _measured(row),
                "new clients": str(row["n_novel"]),
                "slack": _points(row["slack"]),
                "= accuracy given up": _points(row["given_up"]),
                "+ other clients": _points(row["other_clients"]),
                "+ choice of clients": _points(row["client_sampling"]),
                "+ choice of samples": _points(row["sample_level"]),
                "+ Monte Carlo": _points(row["monte_carlo"]),
            }
        )
    caption = (
        "Slack in points: the bound minus the new clients' error under the same method trained "
        "on the certified clients as well (where nobody trained that, under the certified model). "
        "Accuracy given up: how far new clients' error under the certified system is above that. "
        "Other clients: the bound starts from its own clients' scores. The interval is the 95% "
        "t-interval over new clients."
    )
    words = ("method", "bound", "is")
    cells, label = pd.DataFrame(shown), "Slack of bounds"
    return Table("slack", caption, frame, cells, words, label=label, noun="rows")


def _measured(row: Mapping[str, Any]) -> str:
    if not row["n_novel"]:
        return DASH
    return f"{percent(row['measured'])} ({interval(row['lower'], row['upper'])})"


def _points(value: float) -> str:
    if pd.isna(value):
        return DASH
    return points(value) if abs(value) < 10 else f"{100 * value:+,.0f}".replace("-", MINUS)


def order_frame(bounds: pd.DataFrame, gaps: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of each bound's values with what was measured, across trained models.

    Kendall's tau-b with the generalization gap (new- minus seen-client error) and with the
    new-client error; NaN for fewer than three models, or where either side is constant.
    """
    bounds = bounds[(bounds["shift"] == "none") & bounds["population"].ne("one-client")]
    both = bounds.merge(gaps[[*SYSTEM, "gap"]], on=SYSTEM, how="left")
    rows = []
    for (bound, delta), part in both.groupby(["bound", "delta"], sort=False):
        gap, error = (part.dropna(subset=[name]) for name in ("gap", "measured"))
        rows.append(
            {
                "bound": bound,
                "delta": delta,
                "rigorous": bool(part["rigorous"].all()),
                "n_models": len(part),
                "n_vacuous": int(part["vacuous"].sum()),
                "tau_gap": _tau(gap["value"], gap["gap"]),
                "n_gap": len(gap),
                "tau_error": _tau(error["value"], error["measured"]),
                "n_error": len(error),
            }
        )
    columns = ("bound", "delta", "rigorous", "n_models", "n_vacuous")
    return pd.DataFrame(rows, columns=[*columns, "tau_gap", "n_gap", "tau_error", "n_error"])


def _tau(left: pd.Series, right: pd.Series) -> float:
    sides = [levels(side.to_numpy(dtype=float)) for side in (left, right)]
    if len(left) < FEWEST or any(side.max() == 0 for side in sides):
        return float("nan")
    return float(stats.kendalltau(*sides).statistic)


def order_table(frame: pd.DataFrame) -> Table:
    """Show how bounds order models beside how measurements do."""
    shown = []
    for row in records(frame):
        words = {
            name: DASH
            if pd.isna(row[f"tau_{name}"])
            else f"{row[f'tau_{name}']:+.2f} ({row[f'n_{name}']})".replace("-", MINUS)
            for name in ("gap", "error")
        }
        shown.append(
            {
                "bound": bound_name(row["bound"]),
                "delta": f"{row['delta']:g}",
                "trained models": str(row["n_models"]),
                "of these vacuous": str(row["n_vacuous"]),
                "with the gap": words["gap"],
                "with the new-client error": words["error"],
            }
        )
    caption = (
        "Kendall's rank correlation, across trained models, of a bound's value with the measured "
        "gap (new- minus seen-client error) and the measured error of new clients; in brackets the "
        "models that have both. Models of one split are measured on the same clients, so no "
        "interval is given. A vacuous bound may still order models."
    )
    cells, label = pd.DataFrame(shown), "Rank correlations of bounds"
    return Table("bound-order", caption, frame, cells, ("bound",), label=label, noun="bounds")


def _slack(material: Material) -> Iterator[Block]:
    known = references([cell.config for cell in material.run.cells])
    alike = len(material.everything) == len(material.rows)
    slack = slack_frame(material.everything, known, material.bounds if alike else None)
    if len(slack):
        yield slack_table(slack, material.labels)


def _bound_order(material: Material) -> Iterator[Block]:
    order = order_frame(material.bounds, material.gaps)
    if order[["tau_gap", "tau_error"]].notna().any(axis=None):
        yield order_table(order)


SLACK = Section("slack", _slack, title="How far bounds are from what was measured")
ORDER = Section("bound-order", _bound_order, title="Do bounds order models as measurements do?")
