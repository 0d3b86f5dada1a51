"""Shift figures: error of new clients against the severity of one shift, beside what bounds say."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from latecomer.certify.page.svg import INK, MUTED, NARROW
from latecomer.certify.words import DASH, chance, counts, number, percent, shift_name
from latecomer.eval.names import SHIFT_AXES, SHIFTS
from latecomer.reports.display.drawing import (
    Look,
    Looks,
    apart,
    leaders,
    leaders_caption,
    sheet,
    styled,
)
from latecomer.reports.display.naming import model_called, model_names
from latecomer.reports.display.pictures import Plot, Table, over_seeds, plus_minus
from latecomer.reports.display.section import Block, Group, Material, Section, Text
from latecomer.reports.frames.errors import CONTROL, in_order, primary_predictor, records
from latecomer.reports.words import file_stem, others_dealt, sentence_case, span

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
    would void the guarantee.  ``together`` says whether a row's certificates of all severities hold
    at once.
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
    Return the highest value drawn, per cent; 0 if none is.
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


# Beyond as many severities, the start among them, "unshifted" would run into the first of them.
_NAMES_ON_ONE_LINE = 6
# Where the unshifted control stands, for shifts with a true scale.
SHIFT_STARTS = {
    name: shift.neutral
    for name, shift in SHIFTS.items()
    if shift.true_scale and shift.neutral is not None
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
    heuristic : pandas.DataFrame, optional
        Rows of ``bound_frame`` of the Ben-David value for this shift.
    certified : pandas.DataFrame, optional
        ``certified_under`` this shift.
    terms : pandas.DataFrame, optional
        Rows of ``anatomy_frame`` of the Ben-David value for this shift; drawn below.
    """
    named = leaders(frame, "mean")
    below = terms is not None and len(terms) > 0
    figure, panels = sheet(
        width, (1.12 if below else 0.78) * width, 2 if below else 1,
        sharex=True, height_ratios=[2.6, 1] if below else [1],
    )  # fmt: skip
    axes, bottom = panels[0], panels[-1]
    place = severity_places(frame, shift)
    curves = {
        name: _curve(axes, own, shift, place, looks[name] if name in named else None)
        for name, own in ((str(label), own) for label, own in frame.groupby("label", sort=False))
    }
    top = max((reached for reached, _ in curves.values()), default=0.0)
    ends = {label: end for label, (_, end) in curves.items() if end is not None}
    if certified is not None and len(certified):
        drawn = {label: looks[label] for label in named}
        top = max(top, draw_certified(axes, certified, place, drawn))
    top = min(max(top * 1.06, 1.0), 100.0)
    axes.set_ylim(0, top)
    axes.set_ylabel("error of new clients (%)")
    _severity_axis(bottom, place, shift)
    axes.grid(axis="y")
    if heuristic is not None and len(heuristic):
        _heuristic(axes, heuristic, place, looks, top)
    if below and terms is not None:
        draw_terms(bottom, terms, place)
    height = figure.get_figheight() * (0.6 if below else 1.0)
    _direct_labels(axes, ends, looks, top, height)
    return figure


def _curve(
    axes: Axes, own: pd.DataFrame, shift: str, place: Mapping[str, float], look: Look | None
) -> tuple[float, float | None]:
    """Draw one method, in grey if it has no look; return the highest value and the curve's end."""
    control = own[own["shift"] == "none"].assign(x=place[""])
    curve = own[own["shift"] == shift]
    curve = curve.assign(x=[place[f"{s:g}"] for s in curve["severity"]]).sort_values("x")
    if shift in SHIFT_STARTS:
        curve = pd.concat([control, curve])
    if curve.empty:
        return 0.0, None
    x, mean = curve["x"].to_numpy(float), 100 * curve["mean"].to_numpy(float)
    if look is None:
        axes.plot(x, mean, color=MUTED, linewidth=0.7, alpha=0.45)
        return float(np.nanmax(mean)), None
    style: dict[str, Any] = {"color": look.colour, "markersize": 4.2}
    spread = 100 * curve["sd_seeds"].fillna(0.0).to_numpy(float)
    axes.fill_between(
        x, np.maximum(mean - spread, 0), mean + spread, color=look.colour, alpha=0.16, lw=0
    )
    axes.plot(x, mean, look.mark, linestyle=look.line, **style)
    top = max(float((mean + spread).max()), 100 * float(control["mean"].max()))
    if shift not in SHIFT_STARTS and len(control):
        bars = 100 * control["sd_seeds"].fillna(0.0)
        axes.errorbar(
            control["x"], 100 * control["mean"], bars, fmt=look.mark, elinewidth=1, **style
        )
    matched = own[own["shift"] == shift + CONTROL]
    if len(matched):
        pair = 100 * np.array([float(matched["mean"].iloc[0]), float(curve["mean"].iloc[0])])
        ends = [place[CONTROL], place["nan"]]
        axes.plot(ends, pair, color=look.colour, linestyle=(0, (3, 2)), linewidth=1.1)
        axes.plot(ends[:1], pair[:1], look.mark, markerfacecolor="none", **style)
        top = max(top, float(pair.max()))
    return top, float(mean[-1])


def severity_places(frame: pd.DataFrame, shift: str) -> dict[str, float]:
    """Where each severity, written as text, stands on the axis; the control's key is "".

    Shifts with a true scale start at the control.  Severities of others stand at equal distances,
    from mild to strong, one step right of the control; Dirichlet alpha rises, as in the papers'
    figures.  Another data set's matched control stands before it.
    """
    severities = sorted(frame.loc[frame["shift"] == shift, "severity"].unique())
    if shift in SHIFT_STARTS:
        return {"": SHIFT_STARTS[shift]} | {f"{s:g}": float(s) for s in severities}
    if (frame["shift"] == shift + CONTROL).any():
        return {"": 0.0, CONTROL: 1.0, "nan": 2.0}
    return {"": 0.0} | {f"{s:g}": float(1 + i) for i, s in enumerate(severities)}


def _severity_axis(axes: Axes, place: Mapping[str, float], shift: str) -> None:
    axes.set_xlabel(SHIFT_AXES.get(shift, "" if "nan" in place else f"{shift}: severity"))
    if shift in SHIFT_STARTS:
        axes.set_xticks(list(place.values()), [f"{x:g}" for x in place.values()])
        return
    start = "unshifted" if len(place) <= _NAMES_ON_ONE_LINE else "\nunshifted"
    words = {"": start, "nan": shift, CONTROL: "control"}
    axes.set_xticks(list(place.values()), [words.get(severity, severity) for severity in place])
    axes.axvline(0.5, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.set_xlim(-0.4, max(place.values()) + 0.15)


def _heuristic(
    axes: Axes, frame: pd.DataFrame, place: Mapping[str, float], looks: Looks, top: float
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
            model_called(label),
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


def describe_shift(frame: pd.DataFrame, shift: str) -> str:
    """Describe ``shift_figure``."""
    own = frame[frame["shift"] == shift]
    said = []
    for label, part in own.groupby("label", sort=False):
        cells = [f"{percent(row['mean'])} at {row['severity']:g}" for row in records(part)]
        if part["severity"].isna().any():
            cells = [percent(mean) for mean in part["mean"]]
        said.append(f"{model_called(str(label))} {', '.join(cells)}")
    return f"Error of new clients under {shift}: {'; '.join(said)}."


def shift_caption(frame: pd.DataFrame, shift: str, dealt: Sequence[str] = ()) -> str:
    """Say what in ``shift_figure`` does not explain itself: counts, the control, grey lines."""
    own = frame[frame["shift"] == shift]
    clients = counts(own["n_clients"], "new client")
    if shift in dealt:
        clients = f"{counts(own['n_clients'], 'client')}, others than those unshifted"
        if own["severity"].nunique() > 1:
            clients = clients.replace(",", " at each severity, others every time and", 1)
    text = f"{clients}, {counts(own['n_seeds'], 'seed')}. "
    text += leaders_caption(frame, "mean")
    if (frame["shift"] == shift + CONTROL).any():
        text += (
            f" {sentence_case(shift)}: the clients' classes filled with images of that data set; "
            "control (hollow): the same clients refilled, just as full, from their own data. The "
            "dashed line between them is the effect of the data alone."
        )
    return text.strip()


def shift_table(frame: pd.DataFrame, labels: Sequence[str], dealt: Sequence[str] = ()) -> Table:
    """New-client error per method (rows) and condition (columns)."""
    ordered = in_order(frame, labels)
    heads = {
        (row["shift"], str(row["severity"])): (
            f"{shift_name(row['shift'], row['severity'])} ({row['n_clients']})"
        )
        for row in sorted(
            records(ordered),
            key=lambda row: (row["shift"] != "none", row["shift"], row["severity"]),
        )
    }
    cells = {
        (row["label"], row["shift"], str(row["severity"])): plus_minus(
            percent(row["mean"]), row["sd_seeds"]
        )
        for row in records(ordered)
    }
    shown = [
        {
            "method": name,
            **{head: cells.get((pair[0], *key), DASH) for key, head in heads.items()},
            "seeds": str(int(ordered.loc[ordered["label"] == pair[0], "n_seeds"].max())),
        }
        for pair, name in model_names(ordered).items()
    ]
    caption = (
        f"New-client error under each shift and severity, mean over clients and seeds; "
        f"{over_seeds(ordered)}. The number of clients stands in brackets.{others_dealt(dealt)}"
    )
    label = "Error under shift"
    return Table("shift", caption, ordered, pd.DataFrame(shown), ("method",), label=label)


def _shift(material: Material) -> Iterator[Block]:
    frame = material.ordered(material.shifts)
    present = {name for name in frame["shift"] if name != "none"}
    shifts = sorted(
        name
        for name in present
        if not (name.endswith(CONTROL) and name.removesuffix(CONTROL) in present)
    )
    if not shifts:
        yield Text("The study asked for no shift.")
        return
    bounds, terms = material.bounds, material.anatomy
    heuristic = bounds[bounds["bound"] == "ben_david"]
    terms = terms[terms["bound"] == "ben_david"]
    dealt = material.dealt
    moved = set(shifts) - set(dealt)
    told = f"The same models{' and new clients, whose data are shifted' if moved else ''}."
    told += f"{others_dealt(dealt)} "
    if (frame["n_seeds"] > 1).any():
        told += "A ribbon is one standard deviation over seeds."
    else:
        told += "There is one seed, so no ribbon of spread."
    if len(heuristic):
        told += (
            " The Ben-David value written above a panel is a heuristic here: the model of a client "
            "depends on the client's own sample, and divergence and joint error come from trained "
            "networks (a trained classifier gives at most the divergence), so it proves nothing."
        )
    yield Text(told)
    yield Group([_plot(material, frame, name, heuristic, terms) for name in shifts])
    yield shift_table(frame, material.labels, dealt)


def _plot(
    material: Material, frame: pd.DataFrame, name: str, heuristic: pd.DataFrame, terms: pd.DataFrame
) -> Plot:
    certified = certified_under(material.bounds, name, material.study.get("certificates") or ())
    terms = terms[terms["shift"] == name]
    draw = partial(
        shift_figure,
        frame,
        name,
        material.looks,
        heuristic=heuristic[heuristic["shift"] == name],
        certified=certified,
        terms=terms,
    )
    return Plot(
        f"shift-{file_stem(name)}",
        draw,
        _beside(frame[frame["shift"].isin([name, name + CONTROL, "none"])], certified, terms),
        title=sentence_case(name),
        alt=describe_shift(frame, name) + describe_certified(certified),
        caption=shift_caption(frame, name, material.dealt)
        + say_certified(certified)
        + say_terms(terms),
        small=True,
    )


def _beside(curves: pd.DataFrame, certified: pd.DataFrame, terms: pd.DataFrame) -> pd.DataFrame:
    """Put what a shift's figure draws into one table: curves, certificates, terms."""
    if certified.empty and terms.empty:
        return curves
    keys = ["label", "predictor", "seed", "shift", "severity", "bound", "value"]
    drawn = [certified[[*keys, "together", "delta"]], terms[[*keys, "term"]]]
    return pd.concat([curves, *(part for part in drawn if len(part))], ignore_index=True)


SHIFT = Section("shift", _shift)
