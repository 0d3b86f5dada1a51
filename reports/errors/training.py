"""Error along the training, of seen and of novel clients."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from latecomer.reports.display.drawing import Looks, leaders, shown, styled
from latecomer.reports.display.style import INK, WIDE

COLUMNS = ("label", "seed", "group", "round", "error", "loss", "n_clients", "kept")
LINES: Mapping[str, Any] = {"seen": (0, (1.2, 1.2)), "validation": (0, (5, 1.5)), "novel": "-"}


def training_frame(
    tables: Iterable[tuple[str, int, Sequence[Mapping[str, Any]]]],
) -> pd.DataFrame:
    """Join the ``training_curve`` artifacts of all cells.

    Returns
    -------
    pandas.DataFrame
        ``label seed group round error loss n_clients kept``: means over the clients of a group
        after so many rounds; ``kept`` is 1 in the round whose model all other numbers are about.
    """
    records = [
        {**{name: record.get(name) for name in COLUMNS}, "label": label, "seed": seed}
        for label, seed, table in tables
        for record in table
    ]
    frame = pd.DataFrame(records, columns=list(COLUMNS))
    numbers = ["round", "error", "loss", "n_clients", "kept"]
    frame[numbers] = frame[numbers].astype(float)
    return frame


@styled
def training_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw error against rounds, a line per method and group, the mean over seeds.

    Of more than eight methods the five of least mean error are drawn.  Novel clients' lines are
    whole, with marks; they are for looking at only, no choice is made by them.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``training_frame`` of the artifacts.
    looks : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    narrow = width < 5
    figure = Figure(figsize=(width, 3.9 if narrow else 3.6))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    labels = leaders(frame[frame["group"] == "novel"] if "novel" in set(frame["group"]) else frame,
                     "error")  # fmt: skip
    groups = [group for group in LINES if (frame["group"] == group).any()]
    for label in labels:
        for group in groups:
            own = frame[(frame["label"] == label) & (frame["group"] == group)]
            mean = own.groupby("round")["error"].mean()
            whole = group == "novel"
            axes.plot(
                mean.index, 100 * mean, marker=looks[label].mark if whole else "none",
                color=looks[label].colour, linestyle=LINES[group], linewidth=1.5 if whole else 1.0,
                markersize=3.6,
            )  # fmt: skip
    axes.set_xlabel("rounds of training")
    axes.set_ylabel("error (%)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0, right=float(np.max(frame["round"])) * 1.02)
    axes.grid()
    handles = [
        Line2D([], [], color=looks[label].colour, marker=looks[label].mark, label=shown(label))
        for label in labels
    ]
    handles += [Line2D([], [], color=INK, linestyle=LINES[g], label=f"{g} data") for g in groups]
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if narrow else 5)
    return figure
