"""How error is spread over clients: the share of clients with an error above each level."""

from collections.abc import Iterator
from functools import partial
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from latecomer.certify.page.svg import MUTED, WIDE
from latecomer.certify.words import chance, counts, percent
from latecomer.reports.display.drawing import MOST_CURVES, Looks, sheet, styled
from latecomer.reports.display.naming import model_names
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Block, Material, Section
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import client_errors, primary_predictor
from latecomer.reports.guarantees.shares import curve_frame


def error_distribution_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Share of new clients whose unshifted error is above each level that occurs.

    Clients and seeds count alike: a client measured under three seeds is three measurements.

    Returns
    -------
    pandas.DataFrame
        ``label predictor level share n_clients n_seeds``: the step function t -> share of errors
        above t, at its jumps, from level 0 to 1.
    """
    errors = client_errors(rows)
    errors = errors[(errors["group"] == "novel") & (errors["shift"] == "none")]
    parts = []
    for (label, predictor), own in primary_predictor(errors).groupby(MODEL, sort=False):
        sizes = {"n_clients": own["client"].nunique(), "n_seeds": own["seed"].nunique()}
        values = np.sort(own["error"].to_numpy())
        levels = np.unique([0.0, *values, 1.0])
        above = 1 - np.searchsorted(values, levels, side="right") / len(values)
        curve = {"label": label, "predictor": predictor, "level": levels, "share": above, **sizes}
        parts.append(pd.DataFrame(curve))
    columns = [*MODEL, "level", "share", "n_clients", "n_seeds"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def leading_models(frame: pd.DataFrame) -> list[str]:
    """Labels of the up to eight models of least mean error, in the frame's order."""
    by_label = frame.groupby("label", sort=False)
    # The area below the curve is the mean error.
    means = by_label.apply(lambda own: float(own["share"].iloc[:-1] @ np.diff(own["level"])))
    chosen = means.nsmallest(MOST_CURVES)
    return [str(label) for label in means.index if label in chosen.index]


@styled
def error_distribution_figure(
    frame: pd.DataFrame, looks: Looks, *, band: pd.DataFrame | None = None, width: float = WIDE
) -> Figure:
    """Draw one panel per model: the share of new clients with an error above each level.

    The other models stand behind in grey.  Of more than eight models only the eight of least mean
    error have panels.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``error_distribution_frame`` of the rows.
    looks : mapping
        Colour and mark per label.
    band : pandas.DataFrame, optional
        ``label level upper``: a certified bound on the share above each level, all levels at once.
    width : float
        Inches.
    """
    drawn = leading_models(frame)
    names = {pair: name for pair, name in model_names(frame).items() if pair[0] in drawn}
    columns = min(2 if width < 5 else 4, len(names))
    lines = -(-len(names) // columns)
    titles = {pair: fill(name, int(12 * width / columns)) for pair, name in names.items()}
    line = 1.35 + 0.13 * max(title.count("\n") for title in titles.values())
    figure, panels = sheet(width, 0.6 + line * lines, lines, columns, sharex=True, sharey=True)
    tops = [float(frame.loc[frame["share"] > 0, "level"].max())]
    if band is not None and len(band):
        tops.append(float(band.loc[band["upper"] > 0.02, "level"].max()))
    high = 100 * float(frame["share"].max() if band is None else 1.0)
    right = min(100.0, 100 * 1.15 * max(np.nan_to_num(tops).max(), 0.02))
    curves = dict(list(frame.groupby(MODEL, sort=False)))
    corners = {pair: _corners(own, "share") for pair, own in curves.items()}
    for axes, (pair, title) in zip(panels, titles.items(), strict=False):
        others = [line for other, line in corners.items() if other != pair]
        axes.add_collection(LineCollection(others, colors=MUTED, linewidths=0.5, alpha=0.35))
        look = looks[pair[0]]
        if band is not None:
            for _, own in band[band["label"] == pair[0]].groupby("seed"):
                _steps(axes, own, "upper", color=look.colour, linewidth=1.0, linestyle=(0, (3, 2)))
        _steps(axes, curves[pair], color=look.colour, linewidth=1.8)
        axes.set_title(title, fontsize=8, pad=3)
        axes.grid()
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    panels[0].set_xlim(0, right)
    panels[0].set_ylim(0, min(max(1.08 * high, 5.0), 102))
    figure.supxlabel("error level (%)", fontsize=8.5)
    figure.supylabel("clients above it (%)", fontsize=8.5)
    return figure


def _steps(axes: Axes, own: pd.DataFrame, column: str = "share", **style: Any) -> None:
    axes.plot(*_corners(own, column).T, **style)


def _corners(own: pd.DataFrame, column: str) -> NDArray[np.float64]:
    """Corners of a step function in per cent; it holds its last value up to an error of 100%."""
    levels = np.append(own["level"].to_numpy(float), 1.0)
    shares = np.append(own[column].to_numpy(float), own[column].iloc[-1])
    x, y = np.repeat(levels, 2)[1:], np.repeat(shares, 2)[:-1]
    return 100 * np.column_stack([x, y])


def describe_distribution(frame: pd.DataFrame, band: pd.DataFrame | None) -> str:
    """Describe ``error_distribution_figure``: who has an error above 0 and above 10%."""
    names, said = model_names(frame), []
    for (label, predictor), name in names.items():
        own = frame[(frame["label"] == label) & (frame["predictor"] == predictor)]
        above = [float(own.loc[own["level"] <= t, "share"].iloc[-1]) for t in (0.0, 0.1)]
        said.append(f"{name} {percent(above[0], 0)} and {percent(above[1], 0)}")
    text = f"Share of new clients with an error above 0 and above 10%: {'; '.join(said)}."
    return text if band is None else f"{text} A dashed certified bound lies above each curve."


def distribution_caption(frame: pd.DataFrame, band: pd.DataFrame | None) -> str:
    """Say what ``error_distribution_figure`` counts and what its band is."""
    clients = counts(frame["n_clients"], "new client")
    some = frame["label"].nunique() > MOST_CURVES
    whose = f"for each of the {MOST_CURVES} models of least mean error" if some else "per model"
    whose = f"A panel {whose}, the others in grey: the" if len(model_names(frame)) > 1 else "The"
    together = " taken together" if frame["n_seeds"].max() > 1 else ""
    text = (
        f"{whose} share of {clients} "
        f"with an error above each level, {counts(frame['n_seeds'], 'seed')}{together}."
    )
    if band is not None:
        level = chance(float(band["delta"].iloc[0]))
        text += (
            " Dashed, one line a seed: the certified bound on that share, from the held-out "
            f"clients; for each trained model all levels hold at once with probability {level}."
        )
    return text


def _distribution(material: Material) -> Iterator[Block]:
    frame = material.ordered(error_distribution_frame(material.errors))
    if frame.empty:
        return
    curves = curve_frame(material.tables("error_curve"))
    band = primary_predictor(curves[curves["shift"] == "none"]) if len(curves) else None
    data = frame.assign(kind="measured on new clients")
    if band is not None:
        certified = band.rename(columns={"upper": "share"}).assign(kind="certified, at most")
        data = pd.concat([data, certified], ignore_index=True)
    yield Plot(
        "error-distribution",
        partial(error_distribution_figure, frame, material.looks, band=band),
        data,
        title="Certified error distribution" if band is not None else "Error distribution",
        alt=describe_distribution(frame, band),
        caption=distribution_caption(frame, band),
    )


DISTRIBUTION = Section("error-distribution", _distribution)
