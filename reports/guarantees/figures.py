"""Figures about bounds: bounds beside measured errors, and what a bound consists of."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from latecomer.reports.display.drawing import Looks, apart, shown, styled
from latecomer.reports.display.style import INK, MUTED, TERM_FILLS, TERM_HATCHES, WIDE
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import CONDITION, first_record, records
from latecomer.reports.words import magnitude, number, shift_name, span

# More stacked bars than these nobody reads: marks on one row per method take their place.
MOST_BARS = 45
BOUND_MARKS = ("o", "s", "^", "D", "v", "P")


@styled
def bound_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw bounds against the measured novel error: a mark per trained model and bound.

    Certificates are filled, everything without a proof is hollow; marks tell bounds apart, or
    methods where there is one bound.  Values of 1 and more stand in
    a band on top, on a log scale.  Only bounds on a mean error of unshifted clients are drawn.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``bound_frame`` of the rows.
    looks : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    frame = drawable_bounds(frame)
    high = frame["vacuous"].any()
    narrow = width < 5
    figure = Figure(figsize=(width, 5.4 if narrow else 5.0))
    figure.set_layout_engine("constrained")
    if high:
        band, axes = figure.subplots(2, 1, sharex=True, height_ratios=[1.1, 3])
    else:
        band, axes = None, figure.subplots()
    marks = dict(zip(dict.fromkeys(frame["bound"]), _repeat(BOUND_MARKS), strict=False))
    alone = len(marks) == 1  # then marks are free to tell methods apart
    for row in records(frame):
        place = band if row["vacuous"] and band is not None else axes
        colour = looks[row["label"]].colour
        place.plot(
            100 * row["measured"],
            row["value"] if row["vacuous"] else 100 * row["value"],
            looks[row["label"]].mark if alone else marks[row["bound"]],
            color=colour,
            markerfacecolor=colour if row["rigorous"] else "none",
            markersize=6,
            clip_on=False,
            zorder=3,
        )
    right = 100 * max(float(frame["measured"].max()) * 1.15, 0.02)
    axes.plot([0, right], [0, right], color=INK, linewidth=1, linestyle=(0, (4, 2)))
    axes.annotate(
        "bound = measured error",
        (right, right),
        (-4, 4),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=7.5,
    )
    below = frame.loc[~frame["vacuous"], "value"]
    top = 100 * min(max(float(below.max()) * 1.15 if len(below) else 0.5, right / 100), 1.0)
    axes.set_xlim(0, right)
    axes.set_ylim(0, top)
    axes.set_xlabel("measured error of novel clients (%)")
    axes.set_ylabel("bound (%)")
    axes.grid()
    if band is not None:
        _vacuous_band(band, frame[frame["vacuous"]], marks)
    handles = _bound_handles(frame, marks, looks)
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(len(handles), 2 if narrow else 5),
        handletextpad=0.5,
        columnspacing=1.2,
    )
    return figure


def drawable_bounds(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``bound_frame`` that ``bound_figure`` draws."""
    unshifted = frame["shift"] == "none"
    mean = frame["population"] != "next-client"
    finite = frame["value"].abs() < np.inf
    return frame[unshifted & mean & finite & frame["measured"].notna()]


def _vacuous_band(axes: Axes, frame: pd.DataFrame, marks: Mapping[str, str]) -> None:
    axes.set_yscale("log")
    decades = int(np.ceil(np.log10(max(float(frame["value"].max()) * 4, 10.0))))
    axes.set_ylim(1, 10**decades)
    every = 1 + decades // 5
    ticks = [10.0**k for k in range(0, decades + 1, every)]
    axes.set_yticks(ticks, [_whole(tick) for tick in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.axhspan(1, 10**decades, color=MUTED, alpha=0.1, linewidth=0)
    axes.set_title("vacuous: 1 (100%) and more, log scale", fontsize=8.5, fontweight="normal")
    axes.tick_params(axis="x", length=0, labelbottom=False)
    values = {str(bound): list(own["value"]) for bound, own in frame.groupby("bound")}
    order = sorted(values, key=lambda bound: np.log10(values[bound]).mean())
    heights = [float(np.log10(values[bound]).mean()) / decades for bound in order]
    # Two lines of text are a good quarter of the band's height.
    for bound, height in zip(order, apart(heights, step=0.3, top=1.0), strict=True):
        axes.text(
            1.02,
            height,
            f"{bound}\n{span(values[bound])}",
            transform=axes.transAxes,
            va="center",
            fontsize=7.5,
        )


def _whole(value: float) -> str:
    return f"{value:,.0f}" if value < 1e5 else f"1e{round(np.log10(value))}"


def _repeat(items: Sequence[str]) -> list[str]:
    return list(items) * 8


def _bound_handles(frame: pd.DataFrame, marks: Mapping[str, str], looks: Looks) -> list[Any]:
    labels = list(dict.fromkeys(frame["label"]))
    if len(marks) == 1:
        proven = bool(frame["rigorous"].all())
        return [
            Line2D(
                [], [], marker=looks[label].mark, linestyle="", color=looks[label].colour,
                label=shown(label), markerfacecolor=looks[label].colour if proven else "none",
            )
            for label in labels
        ]  # fmt: skip
    handles: list[Any] = [
        Patch(facecolor=looks[label].colour, linewidth=0, label=shown(label)) for label in labels
    ]
    for bound, mark in marks.items():
        proven = bool(frame.loc[frame["bound"] == bound, "rigorous"].all())
        fill = INK if proven else "none"
        handles.append(
            Line2D([], [], marker=mark, linestyle="", color=INK, markerfacecolor=fill, label=bound)
        )
    return handles


def stackable(frame: pd.DataFrame) -> bool:
    """Whether the terms of a bound can be stacked: few bars, up to 1, nothing negative."""
    bars = len(frame[[*MODEL, *CONDITION, "seed", "delta"]].drop_duplicates())
    plain = (frame["total"] <= 1.0) & (frame["value"] >= 0)
    return bars <= MOST_BARS and bool(plain.all())


@styled
def anatomy_figure(frame: pd.DataFrame, *, width: float = WIDE) -> Figure:
    """Draw what one bound consists of: stacked bars, or marks on a log scale.

    Up to 1 a bar per trained model stacks the terms.  Vacuous bounds span decades, so each term
    is a mark of its own there: a row per method (per condition for a bound under shifts) holds the
    marks of all its models.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows of ``anatomy_frame`` of one bound.
    width : float
        Inches.
    """
    draw = _stacked if stackable(frame) else _spread_terms
    return draw(frame, width)


def _stacked(frame: pd.DataFrame, width: float) -> Figure:
    keys = [*MODEL, *CONDITION, "seed", "delta"]
    bars = list(frame.groupby(keys, dropna=False, sort=False))
    terms = list(dict.fromkeys(frame["term"]))
    figure, axes = _rows(len(bars), width, each=0.17)
    names, previous = [], ""
    for row, (_, part) in enumerate(bars):
        left, amounts = 0.0, part.set_index("term")["value"]
        for place, term in enumerate(terms):
            amount = 100 * float(amounts.get(term, 0.0))
            axes.barh(row, amount, left=left, height=0.78, linewidth=0.5, **_fill(place))
            left += amount
        total = magnitude(float(part["total"].iloc[0]))
        axes.annotate(
            total, (left, row), (3, 0), textcoords="offset points", va="center", fontsize=7
        )
        first = first_record(part)
        name, seed = _row_name(first), f"seed {first['seed']}"
        names.append(seed if name == previous else f"{name}, {seed}")
        previous = name
    axes.set_yticks(range(len(names)), names)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.set_xlabel("bound (%)")
    handles = [Patch(label=_words(t), linewidth=0.5, **_fill(i)) for i, t in enumerate(terms)]
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if width < 5 else 5)
    return figure


def _spread_terms(frame: pd.DataFrame, width: float) -> Figure:
    keys = CONDITION if (frame["shift"] != "none").any() else MODEL
    rows = list(frame.groupby(keys, dropna=False, sort=False))
    terms = list(dict.fromkeys(frame["term"]))
    figure, axes = _rows(len(rows), width, each=0.26)
    for row, (_, part) in enumerate(rows):
        for place, term in enumerate(terms):
            values = part.loc[(part["term"] == term) & (part["value"] > 0), "value"]
            mark, fill = BOUND_MARKS[place % len(BOUND_MARKS)], TERM_FILLS[place % len(TERM_FILLS)]
            axes.plot(
                values, np.full(len(values), row), mark, color=INK, markerfacecolor=fill, ms=5.5,
                markeredgewidth=0.7,
            )  # fmt: skip
        totals = part["total"].drop_duplicates()
        axes.plot(totals, np.full(len(totals), row), "|", color=INK, markersize=13, mew=1.6)
        axes.annotate(
            span(list(totals)), (1.01, row), xycoords=("axes fraction", "data"), va="center",
            fontsize=7, annotation_clip=False,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.axvline(1, color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.xaxis.set_major_locator(LogLocator(base=10, numticks=5 if width < 5 else 8))
    axes.xaxis.set_minor_locator(NullLocator())
    firsts = [first_record(part) for _, part in rows]
    names = [
        shift_name(row["shift"], row["severity"]) if keys == CONDITION else _row_name(row)
        for row in firsts
    ]
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("value of the term (1 is an error of 100%)")
    handles = [
        Line2D(
            [], [], marker=BOUND_MARKS[i % len(BOUND_MARKS)], linestyle="", color=INK,
            markerfacecolor=TERM_FILLS[i % len(TERM_FILLS)], label=_words(term),
        )
        for i, term in enumerate(terms)
    ]  # fmt: skip
    handles.append(Line2D([], [], marker="|", linestyle="", color=INK, ms=11, label="bound"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if width < 5 else 5)
    return figure


def _rows(n: int, width: float, *, each: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, (1.3 if width < 5 else 1.0) + each * n))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    axes.set_ylim(n - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    return figure, axes


def _fill(place: int) -> dict[str, Any]:
    return {
        "facecolor": TERM_FILLS[place % len(TERM_FILLS)],
        "hatch": TERM_HATCHES[place % len(TERM_HATCHES)],
        "edgecolor": INK,
    }


def _words(term: str) -> str:
    return shown(term.replace("_", " "))


def _row_name(row: Mapping[str, Any]) -> str:
    where = "" if row["shift"] == "none" else f", {shift_name(row['shift'], row['severity'])}"
    return f"{row['label']}{' Gibbs' if row['predictor'] == 'gibbs' else ''}{where}"
