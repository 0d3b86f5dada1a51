"""Figures: each is drawn from one frame, by matplotlib, without pyplot and without global state.

Every function takes ``looks`` (colour and mark per label, from ``style.looks``) and a width in
inches; a narrow figure is laid out anew for a phone, not shrunk.  Saving is the caller's.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import ParamSpec

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure

from latecomer.reports.display.style import (
    INK,
    MUTED,
    NARROW,
    WIDE,
    Look,
    settings,
)
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import by_model, gap_summary
from latecomer.reports.words import (
    METRICS,
    points,
)

P = ParamSpec("P")
Looks = Mapping[str, Look]
# More curves than colours only hide each other: then the best few are named.
MOST_CURVES, NAMED = 8, 5
# From nothing to blue: an empty cell shows the ground, whichever it is.
_BLUE = "#2f6fe0"
SHARES = LinearSegmentedColormap.from_list("shares", [to_rgba(_BLUE, 0.0), to_rgba(_BLUE, 1.0)])
# Groups of clients less than this share of an axis apart are drawn as one.
NEAR = 0.04


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw under the package's own settings, leaving matplotlib's as they were."""

    @wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(settings()), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure = draw(*args, **kwargs)
            engine = figure.get_layout_engine()
            if engine is not None:
                # Laid out once here; with an engine, every saving would draw twice.
                engine.execute(figure)
                figure.set_layout_engine(None)
            return figure

    return inside


def shown(label: str) -> str:
    """Keep matplotlib from hiding legend entries that start with an underscore."""
    return f" {label}" if label.startswith("_") else label


def leaders(frame: pd.DataFrame, value: str) -> list[str]:
    """Labels to draw in colour: all of up to eight, else the five whose mean value is least."""
    means = frame.groupby("label", sort=False)[value].mean()
    chosen = means if len(means) <= MOST_CURVES else means.nsmallest(NAMED)
    return [str(label) for label in means.index if label in chosen.index]


def model_names(frame: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Name every (label, predictor) of a frame in order of appearance.

    The predictor is named where a label has two.
    """
    pairs = list(by_model(frame[MODEL]))
    labels = [label for label, _ in pairs]
    return {
        (label, predictor): f"{label} ({predictor})" if labels.count(label) > 1 else label
        for label, predictor in pairs
    }


@styled
def gap_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw the generalization gap per model: a point per seed, the mean, its 95% interval.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``gap_frame`` of the rows; models appear in its order.
    looks : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    names, summary = model_names(frame), by_model(gap_summary(frame))
    narrow = width < 5
    figure = Figure(figsize=(width, 0.9 + (0.52 if narrow else 0.42) * max(len(names), 1)))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    axes.axvline(0, color=INK, linewidth=0.8)
    for row, (pair, name) in enumerate(names.items()):
        look, mean = looks[pair[0]], summary[pair]
        seeds = frame[(frame["label"] == pair[0]) & (frame["predictor"] == pair[1])]["gap"]
        ends = [100 * mean["lower"], 100 * mean["upper"]]
        text = points(mean["gap"])
        if mean["n_seeds"] > 1:
            axes.plot(ends, [row, row], color=look.colour, linewidth=5, alpha=0.3)
            text += f" [{points(mean['lower'])}, {points(mean['upper'])}]"
        apart = row + 0.09 * (np.arange(len(seeds)) - (len(seeds) - 1) / 2)
        axes.plot(100 * seeds, apart, look.mark, color=look.colour, alpha=0.85)
        axes.plot([100 * mean["gap"]] * 2, [row - 0.26, row + 0.26], color=INK, linewidth=1.6)
        if narrow:
            _inside(axes, row - 0.33, 0.0, "left", name)
            _inside(axes, row - 0.33, 1.0, "right", text)
        else:
            axes.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), va="center")
    axes.set_ylim(len(names) - 0.4, -0.8 if narrow else -0.6)
    axes.set_yticks([] if narrow else range(len(names)), [] if narrow else list(names.values()))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("novel minus seen accuracy" + ("\n" if narrow else " ") + "(percentage points)")
    axes.grid(axis="x")
    return figure


def _inside(axes: Axes, row: float, x: float, side: str, text: str) -> None:
    axes.text(x, row, text, transform=axes.get_yaxis_transform(), ha=side, va="bottom")


@styled
def diagnostics_figure(
    frame: pd.DataFrame, metric: str, looks: Looks, *, width: float = NARROW
) -> Figure:
    """Draw error against one distance to the nearest training client, a mark per client.

    Marks are the fainter the more there are.  The lines join means of up to five groups of
    clients of about equal size.  Of more than eight methods the five of least error are named, the
    others are grey lines.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``diagnostics_frame`` of the rows.
    metric : str
        One of ``words.METRICS``.
    looks : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    own = frame[frame["metric"] == metric]
    named = leaders(own, "error")
    crowded = len(named) < own["label"].nunique()
    figure = Figure(figsize=(width, 0.9 * width))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    for name, part in own.groupby("label", sort=False):
        look, middle = looks[str(name)], binned(part)
        if name not in named:
            axes.plot(
                middle["distance"], 100 * middle["error"], color=MUTED, linewidth=0.7, alpha=0.45
            )
            continue
        if not crowded:
            axes.plot(
                part["distance"], 100 * part["error"], look.mark, color=look.colour,
                markersize=3.0, alpha=max(0.28, min(0.85, 60 / len(own))), markeredgewidth=0,
                # Thousands of vector marks make a slow page.
                rasterized=len(own) > 3000,
            )  # fmt: skip
        axes.plot(
            middle["distance"],
            100 * middle["error"],
            look.mark,
            color=look.colour,
            linestyle=look.line,
            markersize=4.2,
            label=shown(str(name)),
            zorder=3,
        )
    axes.set_xlabel(METRICS.get(metric, metric))
    axes.set_ylabel("error (%)")
    axes.set_ylim(bottom=0)
    axes.grid()
    figure.legend(loc="outside lower center", ncols=3, handletextpad=0.4, columnspacing=0.8)
    return figure


def binned(part: pd.DataFrame, bins: int = 5) -> pd.DataFrame:
    """Mean distance and error in up to five groups of about equal size, by distance.

    Groups that would stand on top of each other are one.
    """
    groups = pd.qcut(part["distance"], bins, labels=False, duplicates="drop")
    if groups.isna().all():
        groups = groups.fillna(0)
    apart = part.groupby(groups)["distance"].mean().diff() > NEAR * np.ptp(part["distance"])
    groups = groups.map(apart.cumsum())
    return part.groupby(groups)[["distance", "error"]].mean()


def apart(heights: Sequence[float], *, step: float, top: float) -> list[float]:
    """Move sorted heights as little as possible so that neighbours are ``step`` apart.

    The result is the least-squares solution (pool adjacent violators), shifted into [0, top].

    >>> [round(y, 6) for y in apart([1.0, 1.0, 5.0], step=1.0, top=10.0)]
    [0.5, 1.5, 5.0]
    """
    blocks: list[tuple[float, int]] = []
    for position, height in enumerate(heights):
        mean, size = height - position * step, 1
        while blocks and blocks[-1][0] > mean:
            other, n = blocks.pop()
            mean, size = (mean * size + other * n) / (size + n), size + n
        blocks.append((mean, size))
    flat = [mean for mean, size in blocks for _ in range(size)]
    placed = [mean + position * step for position, mean in enumerate(flat)]
    placed = [min(y, top - (len(placed) - 1 - i) * step) for i, y in enumerate(placed)]
    return [max(y, i * step) for i, y in enumerate(placed)]
