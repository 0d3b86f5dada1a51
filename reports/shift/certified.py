"""What bounds say under a shift, beside the measured curves: certified edges, heuristic terms."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from latecomer.certify.page.svg import INK
from latecomer.certify.words import chance, number
from latecomer.reports.display.drawing import Looks
from latecomer.reports.frames.errors import primary_predictor
from latecomer.reports.words import span

BAND = "@band"
TERM_MARKS = {"source_risk": "o", "divergence": "s", "joint_error": "^", "deviation": "D"}
TERM_WORDS = {
    "source_risk": "seen clients' error",
    "divergence": "half the divergence",
    "joint_error": "joint error",
    "deviation": "deviation",
}


def certified_under(
    bounds: pd.DataFrame, shift: str, declared: Sequence[Mapping[str, Any]]
) -> pd.DataFrame:
    """Certificates of the mean error of held-out clients under one shift, by one rule.

    It is the first rule that the study declares and that was applied here: taking the smallest
    would void the guarantee.

    Parameters
    ----------
    bounds : pandas.DataFrame
        ``bound_frame`` of the rows.
    shift : str
        Which shift.
    declared : sequence of mapping
        ``certificates`` of the resolved study.

    Returns
    -------
    pandas.DataFrame
        Rows of ``bounds`` with a column ``together``: whether the certificates of all severities
        hold at once.
    """
    own = primary_predictor(
        bounds[
            (bounds["shift"] == shift)
            & bounds["rigorous"]
            & (bounds["population"] == "unseen-client")
        ]
    )
    plain = own["bound"].str.removesuffix(BAND)
    names = [f"{entry['route']}:{entry['rule']}" for entry in declared if entry.get("rule")]
    chosen = next((name for name in names if (plain == name).any()), None)
    kept = own[plain == chosen] if chosen is not None else own.head(0)
    kept = kept[kept["delta"].eq(kept.groupby("bound")["delta"].transform("first"))]
    return kept.assign(together=kept["bound"].str.endswith(BAND)).reset_index(drop=True)


def draw_certified(
    axes: Axes, certified: pd.DataFrame, place: Mapping[str, float], looks: Looks
) -> float:
    """Draw certificates below 1: dashed edges that hold at once, a tick for each severity alone.

    The edges are those of the lowest and of the highest seed; each seed has its own certificate.

    Returns
    -------
    float
        The highest value drawn, per cent; 0 if none is.
    """
    drawn = certified[~certified["vacuous"] & certified["label"].isin(list(looks))]
    top = 0.0
    for label, own in drawn.groupby("label", sort=False):
        colour = looks[str(label)].colour
        band = own[own["together"]].assign(severity=lambda f: f["severity"].map(_written))
        edges = 100 * band.groupby("severity")["value"].agg(["min", "max"])
        edges = edges.assign(x=[place[s] for s in edges.index]).sort_values("x")
        if len(edges):
            x, low, high = (edges[name].to_numpy(float) for name in ("x", "min", "max"))
            axes.fill_between(x, low, high, color=colour, alpha=0.1, linewidth=0)
            for edge in dict.fromkeys([tuple(low), tuple(high)]):
                axes.plot(x, edge, color=colour, linestyle=(0, (5, 2)), linewidth=0.9)
        alone = own[~own["together"]]
        axes.plot(
            [place[_written(s)] for s in alone["severity"]],
            100 * alone["value"],
            "_",
            color=colour,
            markersize=9,
            markeredgewidth=1.1,
        )
        top = max(top, 100 * float(own["value"].max()))
    return top


def say_certified(certified: pd.DataFrame) -> str:
    """Say how certificates are drawn and what holds with which probability; empty without any."""
    if certified.empty:
        return ""
    clients = int(certified["n_clients"].iloc[0])
    level = chance(float(certified["delta"].max()))
    text = (
        f" Ticks: certified for one severity alone, with probability {level}, from {clients} "
        "held-out clients under the same shift, support and query alike"
    )
    if certified["together"].any():
        text += (
            f"; dashed: for all its severities at once, with probability {level} together (lowest "
            "and highest seed, each a certificate of its own)"
        )
    vacuous = int(certified["vacuous"].sum())
    return text + (
        f"; {vacuous} of {len(certified)} are vacuous and not drawn." if vacuous else "."
    )


def describe_certified(certified: pd.DataFrame) -> str:
    """Describe the certificates for readers who cannot see them; empty without any."""
    alone = certified[~certified["together"]].assign(
        at=lambda f: ["" if pd.isna(s) else f" at {s:g}" for s in f["severity"]]
    )
    said = [
        f"{label} {span(list(own['value']))}{at}"
        for (label, at), own in alone.groupby(["label", "at"], sort=False)
    ]
    return f" Certified at most: {'; '.join(said)}." if said else ""


def draw_terms(axes: Axes, terms: pd.DataFrame, place: Mapping[str, float]) -> None:
    """Draw the terms of the Ben-David value on a log scale, the median over trained models."""
    for term, own in terms.groupby("term", sort=False):
        middle = own[own["value"] > 0].groupby("severity", dropna=False)["value"].median()
        x = [place[_written(severity)] for severity in middle.index]
        axes.plot(
            x,
            middle.to_numpy(float),
            TERM_MARKS.get(str(term), "v"),
            color=INK,
            markerfacecolor="none",
            linestyle=":",
            linewidth=0.8,
            markersize=3.6,
            label=TERM_WORDS.get(str(term), str(term).replace("_", " ")),
        )
    axes.axhline(1, color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.yaxis.set_minor_locator(NullLocator())
    told = "terms of the Ben-David value (heuristic)"
    axes.set_title(told, fontsize=7.5, fontweight="normal", loc="left")
    axes.legend(fontsize=6.5, loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=1.2)


def say_terms(terms: pd.DataFrame) -> str:
    """Say what the terms are and why they prove nothing here; empty without any."""
    if terms.empty:
        return ""
    return (
        " Below: the terms of the Ben-David value, which is a heuristic here: a personalised model "
        "depends on the target client's sample, which the theorem does not allow, and a trained "
        "classifier gives at most the divergence that it needs."
    )


def _written(severity: float) -> str:
    return "nan" if np.isnan(severity) else f"{severity:g}"
