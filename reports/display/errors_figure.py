"""Errors of new clients per model, and of the clients that a certificate came from."""

from collections.abc import Sequence
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from latecomer.certify.page.svg import INK, WIDE
from latecomer.certify.words import magnitude, percent
from latecomer.eval.names import ROUTES
from latecomer.reports.display.drawing import TERM_FILLS, Looks, panels, sheet, styled
from latecomer.reports.display.naming import Names
from latecomer.reports.frames.errors import Model, model_of, records

# Inches; a narrower figure has its names above the rows, not beside the axis.
NARROW_BELOW = 5.0

# Inches for all rows together, so that a figure of many models still fits the first screen,
# and the most and least for one row.
ALL_ROWS, ROW, LEAST_ROW = 2.4, 0.32, 0.15


def model_rows(called: Sequence[str], width: float, *, beside: float) -> tuple[Figure, Axes]:
    """Make a figure with one named row a model, and inches ``beside`` them for axis and legend."""
    narrow = width < NARROW_BELOW
    n_rows = max(len(called), 1)
    height = 0.46 if narrow else min(ROW, max(ALL_ROWS / n_rows, LEAST_ROW))
    figure, [axes] = sheet(width, beside + height * n_rows)
    axes.set_ylim(len(called) - 0.5, -0.9 if narrow else -0.6)
    axes.set_yticks([] if narrow else range(len(called)), [] if narrow else list(called))
    for row, name in enumerate(called if narrow else ()):
        axes.text(
            0.0, row - 0.22, name, transform=axes.get_yaxis_transform(), ha="left", va="bottom",
            fontsize=7.5,
        )  # fmt: skip
    axes.tick_params(axis="y", length=0, labelsize=7.5 if height > 0.2 else 6.8)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    return figure, axes


def model_panels(names: Names, width: float, *, above: float) -> tuple[Figure, dict[Model, Axes]]:
    """Make a figure with one named panel a model, on the same axes."""
    columns = min(2 if width < NARROW_BELOW else 4, len(names))
    titles = [fill(name, int(12 * width / columns)) for name in names.values()]
    each = 1.35 + 0.13 * max(title.count("\n") for title in titles)
    figure, drawn = panels(
        len(names), width, columns, above=above, each=each, sharex=True, sharey=True
    )
    for axes, title in zip(drawn, titles, strict=True):
        axes.set_title(title, fontsize=8, pad=3)
        axes.grid()
    return figure, dict(zip(names, drawn, strict=True))


@styled
def draw_intervals(
    frame: pd.DataFrame, names: Names, looks: Looks, *, width: float = WIDE
) -> Figure:
    """Draw every model's mean error on new clients with its 95% interval over clients."""
    rows = records(frame)
    figure, axes = model_rows([names[model_of(row)] for row in rows], width, beside=0.8)
    for place, row in enumerate(rows):
        look, ends = looks[row["label"]], [100 * row["lower"], 100 * row["upper"]]
        axes.plot(ends, [place, place], color=look.colour, linewidth=2.5, alpha=0.45)
        axes.plot([100 * row["mean"]], [place], look.mark, color=look.colour, markersize=6)
    axes.set_xlim(left=0)
    axes.set_xlabel("error of new clients (%), 95% interval over clients")
    right = axes.secondary_xaxis("top", functions=(_other_share, _other_share))
    right.set_xlabel("accuracy (%)")
    return figure


def _other_share(shares: ArrayLike) -> NDArray[np.float64]:
    """Turn errors in per cent into accuracies, and back."""
    return 100 - np.asarray(shares, dtype=float)


@styled
def draw_certified_clients(
    errors: NDArray[np.float64], value: float, route: str, *, width: float = WIDE
) -> Figure:
    """Draw the errors of the certified clients, sorted, with their mean and the certificate."""
    figure, [axes] = sheet(width, 2.9)
    ordered, mean = 100 * np.sort(errors), float(errors.mean())
    axes.bar(np.arange(len(ordered)), ordered, width=0.9, color=TERM_FILLS[1], linewidth=0)
    for height, colour, text in (
        (mean, INK, f"their mean {percent(mean)}"),
        (value, ROUTES[route].colour, f"certified at most {magnitude(value)}"),
    ):
        axes.axhline(100 * height, color=colour, linewidth=1.6)
        axes.annotate(
            text, (0.01, 100 * height), (0, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="bottom", color=colour,
        )  # fmt: skip
    axes.set_xticks([])
    axes.set_xlim(-0.6, len(ordered) - 0.4)
    axes.set_ylim(0, 1.12 * max(100 * value, float(ordered.max())))
    axes.set_ylabel("error (%)")
    axes.set_xlabel(f"the {len(ordered)} certified clients, sorted by error")
    axes.grid(axis="y")
    return figure
