"""Shift figures: error of novel clients against the severity of one shift."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from latecomer.eval.names import SHIFTS
from latecomer.reports.display.drawing import Looks, apart, leaders, styled
from latecomer.reports.display.style import MUTED, NARROW
from latecomer.reports.errors.shift_certified import draw_certified, draw_terms
from latecomer.reports.frames.errors import CONTROL
from latecomer.reports.words import span

SHIFT_AXES = {name: shift.axis for name, shift in SHIFTS.items() if shift.axis}
# Severities at which these shifts do nothing: their curves start at the unshifted control.
SHIFT_STARTS = {
    name: shift.starts_at for name, shift in SHIFTS.items() if shift.starts_at is not None
}


@styled
def shift_figure(
    frame: pd.DataFrame,
    shift: str,
    looks: Looks,
    *,
    heuristic: pd.DataFrame | None = None,
    certified: pd.DataFrame | None = None,
    terms: pd.DataFrame | None = None,
    width: float = NARROW,
) -> Figure:
    """Draw error against severity for one shift: a curve per method, a ribbon of one sd over seeds.

    Of more than eight methods the five of least mean error are named, the others are grey lines.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``shift_frame`` of the rows; the unshifted control is taken from it.
    shift : str
        Which shift.
    looks : mapping
        Colour and mark per label.
    heuristic : pandas.DataFrame, optional
        Rows of ``bound_frame`` of the Ben-David value for this shift.
    certified : pandas.DataFrame, optional
        ``certified_under`` this shift.
    terms : pandas.DataFrame, optional
        Rows of ``anatomy_frame`` of the Ben-David value for this shift; drawn below.
    width : float
        Inches.
    """
    labels = list(dict.fromkeys(frame["label"]))
    named = leaders(frame, "mean")
    below = terms is not None and len(terms) > 0
    figure = Figure(figsize=(width, (1.12 if below else 0.78) * width))
    figure.set_layout_engine("constrained")
    axes: Axes
    if below:
        axes, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.6, 1])
    else:
        axes = figure.subplots()
    place = severity_places(frame, shift)
    top, ends = 0.0, {}
    for label in labels:
        own = frame[frame["label"] == label]
        matched = own[own["shift"] == shift + CONTROL]
        curve = own[own["shift"] == shift].assign(
            x=lambda f: [place[f"{s:g}"] for s in f["severity"]]
        )
        control = own[own["shift"] == "none"].assign(x=place[""])
        curve = curve.sort_values("x")
        if shift in SHIFT_STARTS:
            curve = pd.concat([control, curve])
        if curve.empty:
            continue
        if label not in named:
            axes.plot(curve["x"], 100 * curve["mean"], color=MUTED, linewidth=0.7, alpha=0.45)
            top = max(top, 100 * float(curve["mean"].max()))
            continue
        look = looks[label]
        x, mean = curve["x"].to_numpy(float), 100 * curve["mean"].to_numpy(float)
        spread = 100 * curve["sd_seeds"].fillna(0.0).to_numpy(float)
        axes.fill_between(
            x, np.maximum(mean - spread, 0), mean + spread, color=look.colour, alpha=0.16, lw=0
        )
        axes.plot(x, mean, look.mark, color=look.colour, linestyle=look.line, markersize=4.2)
        if shift not in SHIFT_STARTS and len(control):
            axes.errorbar(
                control["x"],
                100 * control["mean"],
                100 * control["sd_seeds"].fillna(0.0),
                fmt=look.mark,
                color=look.colour,
                markersize=4.2,
                elinewidth=1,
            )
        if len(matched):
            pair = 100 * np.array([float(matched["mean"].iloc[0]), float(curve["mean"].iloc[0])])
            ends_x = [place[CONTROL], place["nan"]]
            axes.plot(ends_x, pair, color=look.colour, linestyle=(0, (3, 2)), linewidth=1.1)
            axes.plot(
                ends_x[:1], pair[:1], look.mark, color=look.colour, markerfacecolor="none", ms=4.2
            )
            top = max(top, float(pair.max()))
        top = max(top, float((mean + spread).max()), 100 * float(control["mean"].max()))
        ends[label] = float(mean[-1])
    if certified is not None and len(certified):
        drawn = {label: looks[label] for label in named}
        top = max(top, draw_certified(axes, certified, place, drawn))
    top = min(max(top * 1.06, 1.0), 100.0)
    axes.set_ylim(0, top)
    axes.set_ylabel("error of novel clients (%)")
    bottom = lower if below else axes
    named_data = (frame.loc[frame["shift"] == shift, "severity"]).isna().all()
    bottom.set_xlabel(SHIFT_AXES.get(shift, "" if named_data else f"{shift}: severity"))
    _severity_ticks(bottom, place, shift)
    axes.grid(axis="y")
    if heuristic is not None and len(heuristic):
        _heuristic(axes, heuristic, place, looks, top)
    if below and terms is not None:
        draw_terms(lower, terms, place)
    height = figure.get_figheight() * (0.6 if below else 1.0)
    _direct_labels(axes, ends, looks, top, height)
    return figure


def severity_places(frame: pd.DataFrame, shift: str) -> dict[str, float]:
    """Where each severity, written as text, stands on the axis; the control's is under "".

    Shifts that start at "nothing" have a true scale; others stand at equal distances, from mild to
    strong, one step right of the control; Dirichlet alpha rises, as in the papers' figures.
    Another data set's matched control stands before it.
    """
    severities = sorted(frame.loc[frame["shift"] == shift, "severity"].unique())
    if shift in SHIFT_STARTS:
        return {"": SHIFT_STARTS[shift]} | {f"{s:g}": float(s) for s in severities}
    if (frame["shift"] == shift + CONTROL).any():
        return {"": 0.0, CONTROL: 1.0, "nan": 2.0}
    return {"": 0.0} | {f"{s:g}": float(1 + i) for i, s in enumerate(severities)}


def _severity_ticks(axes: Axes, place: Mapping[str, float], shift: str) -> None:
    if shift in SHIFT_STARTS:
        axes.set_xticks(list(place.values()), [f"{x:g}" for x in place.values()])
        return
    words = {"": "unshifted", "nan": shift, CONTROL: "control"}
    axes.set_xticks(list(place.values()), [words.get(severity, severity) for severity in place])
    axes.axvline(0.5, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.set_xlim(-0.4, max(place.values()) + 0.15)


def _heuristic(
    axes: Axes,
    frame: pd.DataFrame,
    place: Mapping[str, float],
    looks: Looks,
    top: float,
) -> None:
    values = frame["value"].to_numpy(float)
    for label, own in frame[100 * frame["value"] <= top].groupby("label", sort=False):
        middle = own.groupby("severity")["value"].median()
        axes.plot(
            [place[f"{s:g}"] for s in middle.index],
            100 * middle,
            color=looks[str(label)].colour,
            linestyle=":",
        )
    if (100 * values > top).any():
        off = span(list(values[100 * values > top]))
        told = f"Ben-David value (heuristic): {off}, off this scale"
    else:
        told = "dotted: Ben-David value (heuristic)"
    axes.set_title(told, fontsize=7.5, fontweight="normal", loc="left")


def _direct_labels(
    axes: Axes, ends: Mapping[str, float], looks: Looks, top: float, height: float
) -> None:
    """Write each label at its curve's end, pushed apart so that none overlap."""
    order = sorted(ends, key=lambda label: ends[label])
    places = apart([ends[label] for label in order], step=top * 0.17 / height, top=top)
    for label, y in zip(order, places, strict=True):
        axes.annotate(
            label,
            (1.015, ends[label]),
            (1.07, y),
            xycoords=axes.get_yaxis_transform(),
            textcoords=axes.get_yaxis_transform(),
            color=looks[label].colour,
            va="center",
            fontsize=8,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": looks[label].colour,
                "lw": 0.7,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0.0, 0.5),
            },
        )
