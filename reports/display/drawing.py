"""How every figure looks, and what figures share: drawn from one frame, without global state.

Colours keep a contrast of 3:1 or more against white and against the page's dark ground, so one
figure serves both.  Eight colours serve all methods because mark and line repeat what colours say
and change where a colour is reused.

Every figure takes ``looks`` (colour and mark per label, from ``looks``) and a width in
inches; a narrow figure is laid out anew for a phone, not shrunk.  The caller saves it.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from itertools import count
from pathlib import Path
from textwrap import fill
from typing import Any, ParamSpec

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from latecomer.certify.page.svg import INK, MUTED
from latecomer.eval.names import method_facts
from latecomer.reports.words import shown_names

# Bounds and their terms are told apart by marks.
BOUND_MARKS = ("o", "s", "^", "D", "v", "P")

_COLOURS = (
    *("#2f6fe0", "#e87500", "#0fa17f", "#c04d9c", "#6c7480", "#b5382f", "#8f7be0", "#8a7400"),
)
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "h")
_LINES = ((0, ()), (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
# Terms of a bound are not methods: greys, told apart by hatching.
TERM_FILLS = ("#59626e", "#a9b2bd", "#838c98", "#c9d0d8", "#707986", "#959eaa")
TERM_HATCHES = ("", "", "///", "...", "\\\\\\", "xxx")


@dataclass(frozen=True)
class Look:
    """How one method is drawn."""

    colour: str
    mark: str
    line: tuple[int, tuple[float, ...]]


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """Give every label its colour, mark and line.

    Labels of methods that declare a ``look`` keep it in every report.  Any other takes the first
    free place among those whose colour is rarest here, so colours repeat as late as possible.

    >>> looks(["mine", "pefll"])["pefll"] == looks(["pefll"])["pefll"]
    True
    """
    fixed = _fixed()
    taken = {label: fixed[label] for label in labels if label in fixed}
    colours = Counter(place % len(_COLOURS) for place in taken.values())
    used = set(taken.values())
    for label in labels:
        if label in taken:
            continue
        rarest = min(colours[colour] for colour in range(len(_COLOURS)))
        free = (n for n in count() if n not in used and colours[n % len(_COLOURS)] == rarest)
        taken[label] = place = next(free)
        used.add(place)
        colours[place % len(_COLOURS)] += 1
    return {label: _look(taken[label]) for label in labels}


@cache
def _fixed() -> dict[str, int]:
    """Map labels to the place that they keep from report to report.

    Eight colours, then the same again with another mark and line.  Methods that one table of a
    paper compares have colours of their own: PeFLL's eight, and OD-PFL's seven; relatives such as
    FedPer and FedRep may share one.
    """
    told = {name: facts["look"] for name, facts in method_facts().items() if "look" in facts}
    shown = {shown: told[name] for name, shown in shown_names().items() if name in told}
    return {**told, **shown, "pefll-stochastic": 5}


def _look(place: int) -> Look:
    round_, colour = divmod(place, len(_COLOURS))
    return Look(
        colour=_COLOURS[colour],
        mark=_MARKS[(colour + 3 * round_) % len(_MARKS)],
        line=_LINES[round_ % len(_LINES)],
    )


FONTS = {
    "sans": ("sans-serif", ["DejaVu Sans"]),
    "serif": ("serif", ["STIXGeneral", "DejaVu Serif"]),
}
"""Families of letters by the name they are asked for; matplotlib brings these fonts along."""

_MAJOR, _MINOR = (("size", 4.8), ("width", 1.0)), (("size", 3.2), ("width", 0.8))
# What seaborn's style "ticks" sets for papers; seaborn takes half a second to load.
_TICKS = {
    **{"xtick.bottom": True, "ytick.left": True, "xtick.top": False, "ytick.right": False},
    **{f"{axis}tick.direction": "out" for axis in "xy"},
    **{f"{axis}tick.major.{side}": size for axis in "xy" for side, size in _MAJOR},
    **{f"{axis}tick.minor.{side}": size for axis in "xy" for side, size in _MINOR},
    **{"axes.axisbelow": True, "axes.grid": False, "grid.linestyle": "-"},
    **{"axes.spines.left": True, "axes.spines.bottom": True},
    **{"lines.solid_capstyle": "round", "legend.title_fontsize": 9.6},
    **{"patch.edgecolor": "w", "patch.force_edgecolor": True, "patch.linewidth": 0.8},
}

_FONT = ContextVar("font", default="sans")


@contextmanager
def lettering(font: str) -> Iterator[None]:
    """Set figures in another family of letters: a key of `FONTS`."""
    if font == "serif":
        _add_serif()
    token = _FONT.set(font)
    try:
        yield
    finally:
        _FONT.reset(token)


@cache
def _add_serif() -> None:
    """Let matplotlib find its own STIX fonts, which its list of a machine's fonts may lack."""
    from matplotlib import font_manager, get_data_path

    for file in sorted(Path(get_data_path(), "fonts", "ttf").glob("STIXGeneral*.ttf")):
        font_manager.fontManager.addfont(file)


def settings() -> Any:
    """Matplotlib settings for ``matplotlib.rc_context``, a dict."""
    family, names = FONTS[_FONT.get()]
    return {
        **_TICKS,
        "figure.autolayout": False,
        "figure.constrained_layout.use": False,
        "font.family": [family],
        f"font.{family}": names,
        "font.size": 8.5,
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 8.5,
        "xtick.labelsize": 8.0,
        "ytick.labelsize": 8.0,
        "legend.fontsize": 8.0,
        "legend.frameon": False,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": MUTED,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "grid.color": MUTED,
        "grid.alpha": 0.25,
        "grid.linewidth": 0.6,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "hatch.color": INK,
        "hatch.linewidth": 0.5,
        "lines.markersize": 5.0,
        "lines.linewidth": 1.5,
        "axes.unicode_minus": True,
        # Labels are the user's: a dollar sign starts no formula.
        "text.parse_math": False,
        "svg.fonttype": "none",
        # Some publishers refuse Type 3 fonts.
        "pdf.fonttype": 42,
        "svg.hashsalt": "latecomer",
        "path.simplify": True,
    }


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


def panels(
    n: int,
    width: float,
    columns: int,
    *,
    above: float,
    each: float,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Make a figure of so many panels, in lines of so many at most, each so many inches high."""
    columns = min(columns, n)
    lines = -(-n // columns)
    height = above + each * lines
    figure, axes = sheet(width, height, lines, columns, sharex=sharex, sharey=sharey)
    for unused in axes[n:]:
        unused.set_visible(False)
    return figure, axes[:n]


def along_rounds(axes: Axes) -> None:
    """Mark whole numbers alone along an axis of rounds, however few they are."""
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))


def until_round(axes: Axes, last: float) -> None:
    """Lay an axis along all rounds of a training."""
    along_rounds(axes)
    axes.set_xlabel("rounds of training")
    axes.set_xlim(0, last * 1.02)
    axes.grid()


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
