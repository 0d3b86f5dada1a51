"""Dumbbells: every model's error on the clients it was trained with, and on new ones."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from latecomer.reports.display.drawing import Looks, styled
from latecomer.reports.display.style import INK, MUTED, WIDE
from latecomer.reports.frames.errors import records

__all__ = ["draw_dumbbells"]


@styled
def draw_dumbbells(
    frame: pd.DataFrame,
    names: Mapping[tuple[str, str], str],
    looks: Looks,
    *,
    width: float = WIDE,
) -> Figure:
    """Draw seen (hollow) and novel error (filled) of every model, joined, smallest gap first.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``gap_intervals``.
    names : mapping
        What every (label, predictor) is called.
    looks : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    narrow = width < 5
    figure = Figure(figsize=(width, 1.1 + (0.5 if narrow else 0.36) * max(len(frame), 1)))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    called = []
    for row, one in enumerate(records(frame)):
        look, name = looks[one["label"]], names[one["label"], one["predictor"]]
        ends = [100 * one["seen"], 100 * one["novel"]]
        axes.plot(ends, [row, row], color=look.colour, linewidth=2.5, alpha=0.45)
        axes.plot(ends[:1], [row], "o", color=look.colour, markerfacecolor="none", markersize=6)
        axes.plot(ends[1:], [row], "o", color=look.colour, markersize=6)
        called.append(name)
        if narrow:
            axes.text(
                0.0, row - 0.22, name, transform=axes.get_yaxis_transform(), ha="left", va="bottom"
            )
    axes.set_ylim(len(frame) - 0.5, -0.9 if narrow else -0.6)
    axes.set_yticks([] if narrow else range(len(frame)), [] if narrow else called)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(left=0)
    axes.set_xlabel("error (%)")
    axes.grid(axis="x")
    handles = [
        Line2D([], [], marker="o", color=INK, markerfacecolor="none", linestyle="none"),
        Line2D([], [], marker="o", color=INK, linestyle="none"),
        Line2D([], [], color=MUTED, linewidth=2.5),
    ]
    words = ["clients trained with", "new clients", "gap"]
    figure.legend(handles, words, loc="outside lower center", ncols=3, handletextpad=0.4)
    return figure
