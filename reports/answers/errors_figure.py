"""Errors of new clients a model, and the clients that a certificate came from."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from latecomer.reports.display.drawing import Looks, styled
from latecomer.reports.display.style import INK, ROUTE_COLOURS, WIDE
from latecomer.reports.frames.errors import records
from latecomer.reports.words import percent

__all__ = ["draw_certified_clients", "draw_intervals"]


@styled
def draw_intervals(
    frame: pd.DataFrame,
    names: Mapping[tuple[str, str], str],
    looks: Looks,
    *,
    width: float = WIDE,
) -> Figure:
    """Draw every model's mean error on new clients with its 95% interval over clients.

    Parameters
    ----------
    frame : pandas.DataFrame
        Novel rows of ``accuracy_frame``, in the order to draw them.
    names : mapping
        What every (label, predictor) is called.
    looks : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    narrow = width < 5
    figure = Figure(figsize=(width, 0.8 + (0.46 if narrow else 0.3) * max(len(frame), 1)))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    called = []
    for row, one in enumerate(records(frame)):
        look, name = looks[one["label"]], names[one["label"], one["predictor"]]
        axes.plot(
            [100 * one["lower"], 100 * one["upper"]], [row, row], color=look.colour, linewidth=2.5,
            alpha=0.45,
        )  # fmt: skip
        axes.plot([100 * one["mean"]], [row], look.mark, color=look.colour, markersize=6)
        called.append(name)
        if narrow:
            axes.text(
                0.0, row - 0.22, name, transform=axes.get_yaxis_transform(), ha="left", va="bottom"
            )
    axes.set_ylim(len(frame) - 0.5, -0.9 if narrow else -0.6)
    axes.set_yticks([] if narrow else range(len(frame)), [] if narrow else called)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(left=0)
    axes.set_xlabel("error of new clients (%), 95% interval over clients")
    axes.grid(axis="x")
    return figure


@styled
def draw_certified_clients(
    errors: np.ndarray, certificate: Mapping[str, Any], looks: Looks, *, width: float = WIDE
) -> Figure:
    """Draw the errors of the certified clients, sorted, with their mean and the certificate.

    Parameters
    ----------
    errors : ndarray
        One error a client.
    certificate : mapping
        ``value``, ``words`` about it, and ``certified``, the mean of the clients.
    looks : mapping
        Not used.
    width : float
        Inches.
    """
    figure = Figure(figsize=(width, 2.9))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    ordered = 100 * np.sort(errors)
    axes.bar(np.arange(len(ordered)), ordered, width=0.9, color="#a9b2bd", linewidth=0)
    lines = (
        (certificate["certified"], INK, f"their mean {percent(certificate['certified'])}"),
        (
            certificate["value"], ROUTE_COLOURS["r4"],
            certificate["words"],
        ),
    )  # fmt: skip
    for value, colour, text in lines:
        axes.axhline(100 * value, color=colour, linewidth=1.6)
        axes.annotate(
            text, (0.01, 100 * value), (0, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="bottom", color=colour,
        )  # fmt: skip
    axes.set_xticks([])
    axes.set_xlim(-0.6, len(ordered) - 0.4)
    axes.set_ylim(0, 1.12 * max(100 * float(certificate["value"]), float(ordered.max())))
    axes.set_ylabel("error (%)")
    axes.set_xlabel(f"the {len(ordered)} certified clients, sorted by error")
    axes.grid(axis="y")
    return figure
