"""What figures share: drawn from one frame, by matplotlib, without pyplot and global state.

Every figure takes ``looks`` (colour and mark per label, from ``style.looks``) and a width in
inches; a narrow figure is laid out anew for a phone, not shrunk.  The caller saves it.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from textwrap import fill
from typing import Any, ParamSpec

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure

from latecomer.reports.display.style import Look, settings

P = ParamSpec("P")
Looks = Mapping[str, Look]
# More curves than colours only hide each other: then the best few are named.
MOST_CURVES, NAMED = 8, 5
_LEGEND_LINE = 0.17  # inches
# From transparent to blue: an empty cell shows the background, light or dark.
_BLUE = "#2f6fe0"
SHARES = LinearSegmentedColormap.from_list("shares", [to_rgba(_BLUE, 0.0), to_rgba(_BLUE, 1.0)])


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw under the package's own settings, leaving matplotlib's as they were."""

    @wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(settings()), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure = draw(*args, **kwargs)
            if figure.get_layout_engine() is not None:
                _place_empty_labels(figure)
            return figure

    return inside


def _place_empty_labels(figure: Figure) -> None:
    """Give axes without a label a place for it, or matplotlib measures their ticks to find one.

    A page takes .88 of the processor time this way, and is the same to the byte.
    """
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if not axis.get_label_text():
                axis.set_label_coords(0.0, 0.0)


def shown(label: str) -> str:
    """Keep matplotlib from hiding legend entries that start with an underscore."""
    return f" {label}" if label.startswith("_") else label


def beside(name: str, width: float) -> str:
    r"""Break a name that stands left of a figure's rows into lines where the figure is narrow.

    >>> beside("PeFLL, certified while training (R4)", 3.4)
    'PeFLL, certified while\ntraining (R4)'
    """
    return fill(name, 24) if width < 5 else name


def leaders(frame: pd.DataFrame, value: str) -> list[str]:
    """Labels to draw in colour: all of up to eight, else the five whose mean value is least."""
    means = frame.groupby("label", sort=False)[value].mean()
    chosen = means if len(means) <= MOST_CURVES else means.nsmallest(NAMED)
    return [str(label) for label in means.index if label in chosen.index]


def leaders_caption(frame: pd.DataFrame, value: str) -> str:
    """Say who is drawn in colour; empty where everyone is."""
    others = frame["label"].nunique() - len(leaders(frame, value))
    if not others:
        return ""
    return f"In colour the {NAMED} methods of least mean error; grey the {others} others."


def sheet(
    width: float, height: float, lines: int = 1, columns: int = 1, **grid: Any
) -> tuple[Figure, list[Axes]]:
    """Make a figure and its axes, listed row by row; drawing it lays them out."""
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained")
    return figure, list(figure.subplots(lines, columns, squeeze=False, **grid).ravel())


def apart(heights: Sequence[float], *, step: float, top: float) -> list[float]:
    """Move sorted heights as little as possible so that neighbours are at least ``step`` apart.

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


def legend_below(figure: Figure, handles: Sequence[Any], columns: int, **looks: Any) -> None:
    """Put a legend under a figure in so many columns, or in fewer under a taller figure."""
    for ncols in range(min(len(handles), columns), 0, -1):
        legend = figure.legend(handles=handles, loc="outside lower center", ncols=ncols, **looks)
        if ncols == 1 or legend.get_window_extent().width <= figure.bbox.width:
            further = -(-len(handles) // ncols) - -(-len(handles) // columns)
            further += sum(str(one.get_label()).count("\n") for one in handles) // ncols
            figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * further)
            return
        legend.remove()
