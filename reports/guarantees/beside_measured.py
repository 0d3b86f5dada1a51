"""Bounds beside measured errors: a mark per trained model and bound."""

from collections.abc import Iterator, Mapping
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

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.certify.words import count, percent
from latecomer.reports.display.drawing import Looks, legend_below, sheet, shown, styled
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Block, Material, Section, Text
from latecomer.reports.display.style import BOUND_MARKS
from latecomer.reports.frames.errors import records
from latecomer.reports.words import bound_name, span


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
    looks : mapping
        Colour and mark per label.
    width : float
        Inches.
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


def describe_bounds(bounds: pd.DataFrame) -> str:
    """Describe ``bound_figure``."""
    said = [
        f"{bound_name(str(bound))} {span(list(part['value']))}, measured "
        f"{percent(part['measured'].min())} to {percent(part['measured'].max())}"
        f" ({count(len(part), 'trained model')})"
        for bound, part in drawable_bounds(bounds).groupby("bound")
    ]
    return f"Bounds against measured new-client error: {'; '.join(said)}."


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
        yield Plot(
            "bounds",
            partial(bound_figure, bounds, material.looks),
            drawn,
            title="Bounds beside measured errors",
            alt=describe_bounds(bounds),
            caption="A mark per trained model and bound; its place to the right is the mean error "
            "of the new clients, whomever the bound is about. Filled: a certificate. Hollow: "
            "a formula without a proof for this model. Below the dashed line a bound would be "
            "below the measured error.",
        )


BESIDE_MEASURED = Section("bounds", _beside_measured)
