"""One row per model: the layout that figures of several answers share."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from latecomer.reports.display.drawing import sheet

# Inches; a narrower figure has its names above the rows, not beside the axis.
NARROW_BELOW = 5.0

# Inches for all rows together, so that a figure of many models still fits the first screen,
# and the most and least for one row.
ALL_ROWS, ROW, LEAST_ROW = 2.4, 0.32, 0.15


def model_rows(called: Sequence[str], width: float, *, beside: float) -> tuple[Figure, Axes]:
    """Make a figure with one named row per model, from top to bottom.

    Parameters
    ----------
    called : sequence of str
        The models' names.
    width : float
        Inches.
    beside : float
        Inches above and below the rows, for axis and legend.
    """
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
