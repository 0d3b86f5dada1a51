"""Small multiples: the error of new clients as each shift grows, with every model named."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from latecomer.certify.page.svg import WIDE
from latecomer.eval.names import SHIFT_AXES
from latecomer.reports.display.drawing import Looks, apart, sheet, styled
from latecomer.reports.display.naming import Names, model_of
from latecomer.reports.frames.errors import records

A_ROW = 3


@styled
def draw_robustness(
    frame: pd.DataFrame, names: Names, looks: Looks, *, width: float = WIDE
) -> Figure:
    """Draw one panel per shift: error against severity, with 95% intervals over clients.

    All panels share one axis of errors.  Curves are named at their right ends in the last panel of
    a row, where there is room for it.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``label predictor shift severity start place mean lower upper``, by ``curves_from_start``.
    names, looks : mapping
        What models are called, and how each label is drawn.
    width : float
        Inches.
    """
    shifts = list(dict.fromkeys(frame["shift"]))
    # Names right of a fourth panel, alone in its row, would push the others apart.
    columns = 1 if width < 5 else 2 if len(shifts) == 4 else min(len(shifts), A_ROW)
    lines = -(-len(shifts) // columns)
    figure, panels = sheet(width, 0.5 + 1.75 * lines, lines, columns, sharey=True)
    # A single client has no interval.
    top = 100 * float(frame[["mean", "upper"]].max().max())
    for place, panel in enumerate(panels):
        if place >= len(shifts):
            panel.set_visible(False)
            continue
        own = frame[frame["shift"] == shifts[place]]
        _panel(panel, own, looks)
        panel.set_title(shifts[place])
        panel.set_ylim(0, min(1.05 * top, 100))
        if place % columns == 0:
            panel.set_ylabel("error (%)")
        if place % columns == columns - 1 or place == len(shifts) - 1:
            # Panels in a single column are lower, with letters of the same size.
            step = 0.085 if columns > 1 else 0.13
            _names(panel, own, names, looks, top=min(1.05 * top, 100), step=step)
    return figure


def _panel(axes: Axes, own: pd.DataFrame, looks: Looks) -> None:
    """Draw one shift; its severities, the start included, stand at equal distances."""
    for label, part in own.groupby("label", sort=False):
        look, part = looks[str(label)], part.sort_values("place")
        x = part["place"].to_numpy(dtype=float)
        axes.plot(
            x, 100 * part["mean"], look.mark, linestyle=look.line, color=look.colour, markersize=3.5
        )
        low, high = 100 * part["lower"], 100 * part["upper"]
        axes.fill_between(x, low, high, color=look.colour, alpha=0.12, linewidth=0)
    words = {
        row["place"]: row["start"]
        or ("all" if np.isnan(row["severity"]) else f"{row['severity']:g}")
        for row in records(own)
    }
    axes.set_xticks(list(words), list(words.values()))
    axes.set_xlabel(SHIFT_AXES.get(str(own["shift"].iloc[0]), "severity"), fontsize=7.5)
    axes.grid(axis="y")


def _names(
    axes: Axes, own: pd.DataFrame, names: Names, looks: Looks, *, top: float, step: float
) -> None:
    last = own.sort_values("place").groupby(["label", "predictor"], sort=False).tail(1)
    ends = sorted(records(last), key=lambda row: float(row["mean"]))
    heights = apart([100 * row["mean"] for row in ends], step=step * top, top=top)
    for row, height in zip(ends, np.asarray(heights), strict=True):
        axes.annotate(
            names[model_of(row)], (1.03, float(height)),
            xycoords=("axes fraction", "data"), va="center", fontsize=7.5,
            color=looks[row["label"]].colour, annotation_clip=False,
        )  # fmt: skip
