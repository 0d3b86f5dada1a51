"""Certificates beside measured errors, a row a model, and what lies between the two."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from latecomer.reports.display.drawing import Looks, styled
from latecomer.reports.display.style import (
    INK,
    ROUTE_COLOURS,
    ROUTE_MARKS,
    TERM_FILLS,
    TERM_HATCHES,
    WIDE,
)
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import records
from latecomer.reports.words import magnitude, points

__all__ = ["draw_distances", "draw_guarantees"]


@styled
def draw_guarantees(
    frame: pd.DataFrame,
    vacuous: pd.DataFrame,
    names: Mapping[tuple[str, str], str],
    routes: Mapping[str, str],
    looks: Looks,
    *,
    width: float = WIDE,
) -> Figure:
    """Draw measured errors (dots, with intervals) and certificates (a mark a route) per model.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``distance_frame``: certificates below 100%, with ``measured lower upper`` of the model.
    vacuous : pandas.DataFrame
        ``label predictor route value`` of certificates of 100% and more: numbers on the right.
    names, routes : mapping
        What every (label, predictor) and every route is called.
    looks : mapping
        Not used: colours stand for routes here.
    width : float
        Inches.
    """
    models = list(dict.fromkeys(frame[MODEL].itertuples(index=False, name=None)))
    narrow = width < 5
    figure = Figure(figsize=(width, 1.3 + (0.46 if narrow else 0.3) * max(len(models), 1)))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    for row, model in enumerate(models):
        own = _of(frame, model)
        first = records(own)[0]
        ends = [100 * first["lower"], 100 * first["upper"]]
        axes.plot(ends, [row, row], color=INK, linewidth=1.2)
        axes.plot([100 * first["measured"]], [row], "o", color=INK, markersize=4.5)
        for one in records(own):
            route = one["route"]
            axes.plot(
                [100 * one["value"]], [row], ROUTE_MARKS[route], color=ROUTE_COLOURS[route],
                markersize=6.5,
            )  # fmt: skip
        _beside(axes, row, records(_of(vacuous, model)))
    called = [names[model] for model in models]
    _rows(axes, called, narrow=narrow)
    axes.set_xlim(left=0)
    axes.set_xlabel("error of new clients (%)")
    used = [route for route in routes if (frame["route"] == route).any()]
    handles = [Line2D([], [], marker="o", color=INK, markersize=4.5)] + [
        Line2D([], [], marker=ROUTE_MARKS[one], color=ROUTE_COLOURS[one], linestyle="none")
        for one in used
    ]
    words = ["measured, 95% interval", *(routes[one] for one in used)]
    ncols = 2 if narrow else 4
    figure.legend(handles, words, loc="outside lower center", ncols=ncols, handletextpad=0.4)
    return figure


def _of(frame: pd.DataFrame, model: tuple[str, str]) -> pd.DataFrame:
    return frame[(frame["label"] == model[0]) & (frame["predictor"] == model[1])]


def _beside(axes: Axes, row: int, vacuous: Sequence[Mapping[str, Any]]) -> None:
    said = ", ".join(f"{one['route'].upper()} {magnitude(one['value'])}" for one in vacuous)
    if said:
        axes.annotate(
            said, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=7.5
        )


def _rows(axes: Axes, called: Sequence[str], *, narrow: bool) -> None:
    """Name the rows: beside the axis, or above each where there is no room beside it."""
    axes.set_ylim(len(called) - 0.5, -0.9 if narrow else -0.6)
    axes.set_yticks([] if narrow else range(len(called)), [] if narrow else list(called))
    for row, name in enumerate(called if narrow else ()):
        axes.text(
            0.0, row - 0.22, name, transform=axes.get_yaxis_transform(), ha="left", va="bottom",
            fontsize=7.5,
        )  # fmt: skip
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")


@styled
def draw_distances(
    frame: pd.DataFrame,
    parts: Mapping[str, str],
    names: Mapping[tuple[str, str], str],
    looks: Looks,
    *,
    width: float = WIDE,
) -> Figure:
    """Draw what the distance of every model's tightest certificate adds up from.

    Parts that shorten it stand left of zero.

    Parameters
    ----------
    frame : pandas.DataFrame
        A row a model of ``distance_frame``.
    parts : mapping
        Columns and what they are called.
    names : mapping
        What every (label, predictor) is called.
    looks : mapping
        Not used: greys and hatching stand for parts.
    width : float
        Inches.
    """
    narrow = width < 5
    figure = Figure(figsize=(width, 1.4 + (0.46 if narrow else 0.3) * max(len(frame), 1)))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    axes.axvline(0, color=INK, linewidth=0.8)
    for row, one in enumerate(records(frame)):
        ends = {1.0: 0.0, -1.0: 0.0}
        for place, part in enumerate(parts):
            value = 100 * float(one[part])
            side = float(np.sign(value)) or 1.0
            axes.barh(
                row, value, left=ends[side], height=0.5, color=TERM_FILLS[place],
                hatch=TERM_HATCHES[place], edgecolor=INK, linewidth=0.4,
            )  # fmt: skip
            ends[side] += value
        axes.annotate(
            points(one["distance"]), (ends[1.0], row), (4, 0), textcoords="offset points",
            va="center", fontsize=7.5,
        )  # fmt: skip
    _rows(axes, [names[one["label"], one["predictor"]] for one in records(frame)], narrow=narrow)
    axes.margins(x=0.1)
    axes.set_xlabel("certificate minus measured error (percentage points)")
    handles = [
        Patch(facecolor=TERM_FILLS[i], hatch=TERM_HATCHES[i], edgecolor=INK, linewidth=0.4)
        for i in range(len(parts))
    ]
    ncols = 1 if narrow else 2
    words = list(parts.values())
    figure.legend(handles, words, loc="outside lower center", ncols=ncols, handletextpad=0.5)
    return figure
