"""Dumbbells: every model's error on the clients it was trained with, and on new ones."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.reports.display.drawing import Looks, styled
from latecomer.reports.display.model_rows import NARROW_BELOW, model_rows
from latecomer.reports.display.naming import Names, model_of
from latecomer.reports.frames.errors import records


@styled
def draw_dumbbells(
    frame: pd.DataFrame, names: Names, looks: Looks, *, width: float = WIDE
) -> Figure:
    """Draw the error of seen (hollow) and new clients (filled), joined, smallest gap first.

    The error on training data is a stroke, where it was measured.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``gap_intervals``.
    names, looks : mapping
        What models are called, and how each label is drawn.
    width : float
        Inches.
    """
    rows = records(frame)
    figure, axes = model_rows([names[model_of(row)] for row in rows], width, beside=1.1)
    for place, row in enumerate(rows):
        colour, ends = looks[row["label"]].colour, [100 * row["seen"], 100 * row["novel"]]
        axes.plot(ends, [place, place], color=colour, linewidth=2.5, alpha=0.45)
        axes.plot(ends[:1], [place], "o", color=colour, markerfacecolor="none", markersize=6)
        axes.plot(ends[1:], [place], "o", color=colour, markersize=6)
        axes.plot([100 * row["training"]], [place], "|", color=colour, markersize=9)
    axes.set_xlim(left=0)
    axes.set_xlabel("error (%)")
    handles = [
        Line2D([], [], marker="o", color=INK, markerfacecolor="none", linestyle="none"),
        Line2D([], [], marker="o", color=INK, linestyle="none"),
        Line2D([], [], color=MUTED, linewidth=2.5),
    ]
    words = ["clients trained with", "new clients", "gap"]
    if frame["training"].notna().any():
        handles.insert(0, Line2D([], [], marker="|", color=INK, linestyle="none", markersize=9))
        words.insert(0, "their training data")
    figure.legend(
        handles, words, loc="outside lower center", ncols=2 if width < NARROW_BELOW else 4,
        handletextpad=0.4,
    )  # fmt: skip
    return figure
