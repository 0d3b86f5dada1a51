"""A paper's numbers and ours, method by method."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from latecomer.reports.display.drawing import Looks, styled
from latecomer.reports.display.style import INK, MUTED, WIDE
from latecomer.reports.frames.errors import GROUPS, records
from latecomer.reports.words import listing, percent

__all__ = ["describe_paper", "one_number_each", "paper_caption", "paper_figure"]


def one_number_each(frame: pd.DataFrame) -> bool:
    """Whether every label has one published number a group, as ``paper_figure`` needs."""
    return len(frame) > 0 and not frame.duplicated(["label", "group"]).any()


@styled
def paper_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw published accuracy (hollow) and ours (filled): a panel per group, a row per method.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``paper_frame`` of the rows, one number per label and group; methods in its order.
    looks : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    labels = list(dict.fromkeys(frame["label"]))
    groups = [group for group in GROUPS if (frame["group"] == group).any()]
    lines = len(groups) if width < 5 else 1
    figure = Figure(figsize=(width, 0.55 + lines * (0.45 + 0.27 * len(labels))))
    figure.set_layout_engine("constrained")
    shape = (len(groups), 1) if width < 5 else (1, len(groups))
    panels = figure.subplots(*shape, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, group in zip(panels, groups, strict=True):
        axes.set_title(f"{group} clients", pad=4)
        for one in records(frame[frame["group"] == group]):
            _row(axes, labels.index(one["label"]), one, looks)
        axes.set_yticks(np.arange(len(labels)), labels)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
    panels[0].set_ylim(len(labels) - 0.4, -0.6)
    figure.supxlabel("accuracy (%)", fontsize=8.5)
    marks = [
        Line2D([], [], color=INK, marker="o", linestyle="", markerfacecolor=fill, label=name)
        for name, fill in (("paper", "none"), ("this run", INK))
    ]
    figure.legend(handles=marks, loc="outside upper right", ncols=2, handletextpad=0.2)
    return figure


def _row(axes: Axes, row: int, one: Mapping[str, Any], looks: Looks) -> None:
    look = looks[one["label"]]
    paper, ours = 100 * one["paper"], 100 * one["ours"]
    axes.plot([paper, ours], [row, row], color=MUTED, linewidth=0.8)
    for middle, spread in ((paper, one["paper_spread"]), (ours, one["ours_spread"])):
        reach = 100 * spread
        if not np.isnan(reach):
            ends = [middle - reach, middle + reach]
            axes.plot(ends, [row, row], color=look.colour, linewidth=4, alpha=0.3)
    axes.plot(paper, row, look.mark, color=look.colour, markerfacecolor="none")
    axes.plot(ours, row, look.mark, color=look.colour)


def describe_paper(frame: pd.DataFrame) -> str:
    """Describe ``paper_figure`` for readers who cannot see it."""
    said = [
        f"{row['label']} {row['group']} {percent(row['paper'])} and {percent(row['ours'])}"
        for row in records(frame)
    ]
    return f"Accuracy in the paper and in this run: {'; '.join(said)}."


def paper_caption(frame: pd.DataFrame) -> str:
    """Say how to read ``paper_figure``."""
    items = listing(list(dict.fromkeys(frame["item"])))
    kinds = listing([kind for kind in dict.fromkeys(frame["paper_spread_kind"]) if kind], "or")
    text = f"Hollow: {items}. Filled: this run."
    if kinds:
        bare = " (one seed has none)" if frame["ours_spread"].isna().all() else ""
        text += f" Bands: {kinds} to both sides{bare}."
    return text
