"""One look for every figure: fonts, sizes, and a colour and mark per method that never change.

Colours keep a contrast of 3:1 or more against white and against the page's dark ground, so one
figure serves both.  Eight colours serve all methods because mark, line and hatching repeat what
colours say and change where a colour is reused.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

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
_HATCHES = ("", "///", "...", "xx")
# Terms of a bound are not methods: greys, told apart by hatching.
TERM_FILLS = ("#59626e", "#a9b2bd", "#838c98", "#c9d0d8", "#707986", "#959eaa")
TERM_HATCHES = ("", "", "///", "...", "\\\\\\", "xxx")


@dataclass(frozen=True)
class Look:
    """How one method is drawn."""

    colour: str
    mark: str
    line: tuple[int, tuple[float, ...]]
    hatch: str


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """Give every label its colour, mark, line and hatching.

    Labels of methods that declare a ``look`` keep it in every report.  Any other takes the first
    free place among those whose colour is rarest here, so colours repeat as late as possible.

    Examples
    --------
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

    Eight colours, then the same again with another mark, line and hatching.  Methods that one table
    of a paper compares have colours of their own: PeFLL's eight, and OD-PFL's seven; relatives such
    as FedPer and FedRep may share one.
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
        hatch=_HATCHES[round_ % len(_HATCHES)],
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
