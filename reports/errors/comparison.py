"""Figures that compare methods: mean ranks with their critical difference."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from latecomer.reports.display.drawing import Looks, model_names, styled
from latecomer.reports.display.style import INK, MUTED, WIDE
from latecomer.reports.frames.errors import records


@styled
def rank_test_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw mean ranks, best on top; bars that do not overlap differ by the critical difference.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``rank_test_frame`` of the errors.
    looks : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    names, narrow = model_names(frame), width < 5
    figure = Figure(figsize=(width, 1.0 + (0.3 if narrow else 0.24) * len(frame)))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    half = float(frame["critical_difference"].iloc[0]) / 2
    reach = float(frame["mean_rank"].iloc[0]) + half
    axes.axvline(reach, color=MUTED, linewidth=0.9, linestyle=(0, (4, 2)))
    for row, one in enumerate(records(frame)):
        look, rank = looks[one["label"]], float(one["mean_rank"])
        axes.plot([rank - half, rank + half], [row, row], color=look.colour, lw=4, alpha=0.3)
        axes.plot(rank, row, look.mark, color=look.colour)
        axes.annotate(
            f"{rank:.1f}", (1.01, row), xycoords=("axes fraction", "data"), va="center",
            annotation_clip=False,
        )  # fmt: skip
    axes.set_ylim(len(frame) - 0.4, -0.6)
    axes.set_yticks(np.arange(len(frame)), list(names.values()))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(INK)
    axes.set_xlabel("mean rank over novel clients" + (" (1 is best)" if not narrow else ""))
    axes.grid(axis="x")
    return figure
