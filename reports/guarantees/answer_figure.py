"""Certificates beside measured errors, one row per model, and what lies between the two."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from latecomer.certify.page.svg import INK, WIDE
from latecomer.certify.words import magnitude, points
from latecomer.eval.names import ROUTES
from latecomer.reports.display.drawing import styled
from latecomer.reports.display.model_rows import NARROW_BELOW, model_rows
from latecomer.reports.display.naming import Model, Names, model_of, models_in
from latecomer.reports.display.style import TERM_FILLS, TERM_HATCHES
from latecomer.reports.frames.errors import records


@styled
def draw_guarantees(frame: pd.DataFrame, names: Names, *, width: float = WIDE) -> Figure:
    """Draw measured errors (dots, with intervals) and certificates (one mark per route) per model.

    Colours and marks stand for routes, never for models.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``distance_frame`` with ``measured lower upper`` of the model; certificates of 100% and more
        are numbers on the right.
    names : mapping
        What every (label, predictor) is called.
    width : float
        Inches.
    """
    models = models_in(frame)
    figure, axes = model_rows([names[model] for model in models], width, beside=1.2)
    for place, model in enumerate(models):
        rows = records(_of(frame, model))
        ends = [100 * rows[0]["lower"], 100 * rows[0]["upper"]]
        axes.plot(ends, [place, place], color=INK, linewidth=1.2)
        axes.plot([100 * rows[0]["measured"]], [place], "o", color=INK, markersize=4.5)
        for row in rows:
            if row["vacuous"]:
                continue
            axes.plot(
                [100 * row["value"]], [place], ROUTES[row["route"]].mark,
                color=ROUTES[row["route"]].colour, markersize=6.5,
            )  # fmt: skip
        _beside(axes, place, [row for row in rows if row["vacuous"]])
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


def _of(frame: pd.DataFrame, model: Model) -> pd.DataFrame:
    return frame[(frame["label"] == model[0]) & (frame["predictor"] == model[1])]


def _beside(axes: Axes, place: int, vacuous: Sequence[Mapping[str, Any]]) -> None:
    said = ", ".join(f"{one['route'].upper()} {magnitude(one['value'])}" for one in vacuous)
    if said:
        axes.annotate(
            said, (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=7.5
        )


@styled
def draw_distances(
    frame: pd.DataFrame, parts: Mapping[str, str], names: Names, *, width: float = WIDE
) -> Figure:
    """Draw the parts that add up to the distance of every model's tightest certificate.

    Parts that shorten it stand left of zero; greys and hatching tell parts apart.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row of ``distance_frame`` per model.
    parts : mapping
        Columns and what they are called.
    names : mapping
        What every (label, predictor) is called.
    width : float
        Inches.
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
        for number, part in enumerate(parts):
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
        for i in range(len(parts))
    ]
    ncols = 1 if width < NARROW_BELOW else 2
    words = list(parts.values())
    figure.legend(handles, words, loc="outside lower center", ncols=ncols, handletextpad=0.5)
    return figure
