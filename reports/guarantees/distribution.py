"""How error is spread over clients: shares above each level, measured and certified."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from latecomer.certify.page.svg import MUTED, WIDE
from latecomer.certify.words import (
    DASH,
    chance,
    counts,
    magnitude,
    percent,
    shift_name,
    whole_percent,
)
from latecomer.reports.display.drawing import MOST_CURVES, Looks, styled
from latecomer.reports.display.errors_figure import model_panels
from latecomer.reports.display.naming import model_names
from latecomer.reports.display.pictures import Plot, Table, doubted
from latecomer.reports.display.section import Block, Material, Section
from latecomer.reports.frames.bounds import doubt
from latecomer.reports.frames.errors import (
    CONDITION,
    MODEL,
    CellTables,
    client_errors,
    first_record,
    in_order,
    joined,
    primary_predictor,
    records,
    unshifted,
)
from latecomer.reports.words import bound_name, range_of

CURVE_COLUMNS = (
    *("label", "predictor", "seed", "bound", "shift", "severity", "delta"),
    *("threshold", "sampled", "upper"),
)


def curve_frame(tables: CellTables) -> pd.DataFrame:
    """Join the ``error_curve`` artifacts of all cells.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed bound shift severity delta level sampled upper``: from ``level`` to
        the next one, ``sampled`` is the share of held-out clients with an error above it and
        ``upper`` its certified bound, all levels at once.
    """
    frame = joined(tables, CURVE_COLUMNS, ("severity", "delta", *CURVE_COLUMNS[-3:]), "")
    return frame.rename(columns={"threshold": "level"})


def fraction_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Certified shares of clients above single thresholds, beside the new clients' share.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed bound shift severity threshold value delta n_clients rigorous
        measured n_novel``: with probability 1 - delta at most ``value`` of the clients have an
        error above ``threshold``, which is proven where ``rigorous``; ``measured`` is that share
        among the ``n_novel`` new clients.
    """
    chosen = rows[(rows["metric"] == "certified_fraction") & (rows["term"] == "")]
    keys = [*MODEL, "seed", *CONDITION]
    told = ["bound", "value", "delta", "n_clients", "rigorous"]
    frame = chosen[[*keys, *told]].reset_index(drop=True)
    frame["threshold"] = pd.to_numeric(
        frame["bound"].str.replace(r"^.*@", "", regex=True), errors="coerce"
    )
    errors = client_errors(rows)
    novel = errors[errors["group"] == "novel"]
    each = frame.reset_index().astype({"seed": "int64"}).merge(novel, on=keys)
    above = (each["error"] > each["threshold"]).groupby(each["index"])
    frame["measured"] = above.mean().reindex(frame.index)
    frame["n_novel"] = above.size().reindex(frame.index, fill_value=0)
    return frame


def fraction_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Show certified shares: a row per trained model and threshold."""
    frame = in_order(frame, labels)
    names = model_names(frame)
    shown = pd.DataFrame(
        {
            "method": names[row["label"], row["predictor"]],
            "seed": str(row["seed"]),
            "condition": shift_name(row["shift"], row["severity"]),
            "error above": whole_percent(row["threshold"]),
            "certified share at most": magnitude(row["value"]),
            "with probability": chance(row["delta"]),
            "share of new clients": percent(row["measured"]),
            "new clients": str(row["n_novel"]),
            "held-out clients": str(row["n_clients"]),
        }
        for row in records(frame)
    )
    caption = (
        "The share of clients whose error is above a threshold: certified from the held-out "
        "clients, and as it is among the new ones. Each value belongs to one trained model."
    )
    words, label = ("method", "condition"), "Certified shares"
    return Table("certified-shares", caption, frame, shown, words, label=label, noun="rows")


def price_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """List each certificate's margin over the measured mean, beside the least for equal scores.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed bound shift severity paid reference reference_pool n_clients``;
        ``reference`` is what no deterministic rule for independent clients goes below when all have
        the same error, ``reference_pool`` the same for a finite pool; NaN for the other.
    """
    chosen = rows[rows["metric"] == "certificate_price"]
    keys = [*MODEL, "seed", "bound", *CONDITION, "n_clients"]
    tags = [*keys, "delta", "sampling"]
    if chosen.empty:
        return pd.DataFrame(columns=[*keys, "paid", "reference", "reference_pool"])
    frame = chosen.set_index([*tags, "term"])["value"].unstack("term").reset_index()
    frame.columns.name = None
    frame = frame.reindex(columns=[*tags, "paid", "reference", "reference_pool"])
    # Rows hold a pool's share of clients that may go unseen; each adds one minus the mean error,
    # as does the share 1 - delta^(1/n) of independent clients, which the reference beside it has.
    unseen = 1 - frame["delta"] ** (1 / frame["n_clients"])
    pool = frame["reference_pool"].notna() | (frame["sampling"] == "finite-pool")
    frame["reference_pool"] *= frame["reference"] / unseen
    frame["reference"] = frame["reference"].mask(pool)
    return frame.drop(columns=["delta", "sampling"])


def price_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Show what certainty costs: a row per model, rule and condition, ranges over seeds."""
    frame = in_order(frame, labels)
    names = model_names(frame)
    shown = []
    for _, part in frame.groupby([*MODEL, "bound", *CONDITION], dropna=False, sort=False):
        first = first_record(part)
        shown.append(
            {
                "method": names[first["label"], first["predictor"]],
                "certificate": bound_name(first["bound"]),
                "condition": shift_name(first["shift"], first["severity"]),
                **{
                    head: _range(part[name])
                    for head, name in (
                        ("margin (points)", "paid"),
                        ("least for equal scores", "reference"),
                        ("least for equal scores, finite pool", "reference_pool"),
                    )
                },
                "clients": str(first["n_clients"]),
                "seeds": str(part["seed"].nunique()),
            }
        )
    caption = (
        "Margin: the certificate minus the held-out clients' mean error, lowest to highest over "
        "seeds. Least: the margin below which no deterministic rule could go if every client had "
        "that mean error, clients being independent draws or those of a finite pool; rules that "
        "use that errors differ can."
    )
    words = ("method", "certificate", "condition")
    cells, label = pd.DataFrame(shown), "Margins of certificates"
    return Table("prices", caption, frame, cells, words, label=label, noun="rows")


def _range(values: pd.Series) -> str:
    return range_of(100 * values, "{:.1f}".format) if values.notna().any() else DASH


def _prices(material: Material) -> Iterator[Block]:
    frame = price_frame(material.rows)
    if len(frame):
        unproven = doubt(material.rows, "certificate", of=set(frame["bound"]))
        yield doubted(price_table(frame, material.labels), unproven)


def _shares(material: Material) -> Iterator[Block]:
    frame = fraction_frame(material.rows)
    if len(frame):
        unproven = doubt(material.rows, "certified_fraction")
        yield doubted(fraction_table(frame, material.labels), unproven)


PRICES = Section(
    "prices",
    _prices,
    title="What certainty costs",
)
SHARES = Section(
    "certified-shares",
    _shares,
    title="Certified shares of badly served clients",
)


def error_distribution_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Share of new clients whose unshifted error is above each level that occurs.

    Clients and seeds count alike: a client measured under three seeds is three measurements.

    Returns
    -------
    pandas.DataFrame
        ``label predictor level share n_clients n_seeds``: the step function t -> share of errors
        above t, at its jumps, from level 0 to 1.
    """
    errors = primary_predictor(unshifted(client_errors(rows)))
    parts = []
    for (label, predictor), own in errors.groupby(MODEL, sort=False):
        sizes = {"n_clients": own["client"].nunique(), "n_seeds": own["seed"].nunique()}
        values = np.sort(own["error"].to_numpy())
        levels = np.unique([0.0, *values, 1.0])
        above = 1 - np.searchsorted(values, levels, side="right") / len(values)
        curve = {"label": label, "predictor": predictor, "level": levels, "share": above, **sizes}
        parts.append(pd.DataFrame(curve))
    columns = [*MODEL, "level", "share", "n_clients", "n_seeds"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


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
    band : pandas.DataFrame, optional
        ``label level upper``: a certified bound on the share above each level, all levels at once.
    """
    by_label = frame.groupby("label", sort=False)
    # The area below the curve is the mean error.
    means = by_label.apply(lambda own: float(own["share"].iloc[:-1] @ np.diff(own["level"])))
    leading = means.nsmallest(MOST_CURVES).index
    names = {pair: name for pair, name in model_names(frame).items() if pair[0] in leading}
    figure, drawn = model_panels(names, width, above=0.6)
    tops = [float(frame.loc[frame["share"] > 0, "level"].max())]
    if band is not None and len(band):
        tops.append(float(band.loc[band["upper"] > 0.02, "level"].max()))
    high = 100 * float(frame["share"].max() if band is None else 1.0)
    right = min(100.0, 100 * 1.15 * max(np.nan_to_num(tops).max(), 0.02))
    curves = dict(list(frame.groupby(MODEL, sort=False)))
    corners = {pair: _corners(own, "share") for pair, own in curves.items()}
    for pair, axes in drawn.items():
        others = [line for other, line in corners.items() if other != pair]
        axes.add_collection(LineCollection(others, colors=MUTED, linewidths=0.5, alpha=0.35))
        look = looks[pair[0]]
        if band is not None:
            for _, own in band[band["label"] == pair[0]].groupby("seed"):
                x, y = _corners(own, "upper").T
                axes.plot(x, y, color=look.colour, linewidth=1.0, linestyle=(0, (3, 2)))
        axes.plot(*corners[pair].T, color=look.colour, linewidth=1.8)
    axes.set_xlim(0, right)
    axes.set_ylim(0, min(max(1.08 * high, 5.0), 102))
    figure.supxlabel("error level (%)", fontsize=8.5)
    figure.supylabel("clients above it (%)", fontsize=8.5)
    return figure


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
    unproven = "" if band is None else doubt(material.rows, "error_curve_width")
    kind = f"{'not proven' if unproven else 'certified'}, at most"
    if band is not None:
        certified = band.rename(columns={"upper": "share"}).assign(kind=kind)
        data = pd.concat([data, certified], ignore_index=True)
    plot = Plot(
        "error-distribution",
        partial(error_distribution_figure, frame, material.looks, band=band),
        data,
        title="Error distribution" if band is None or unproven else "Certified error distribution",
        alt=describe_distribution(frame, band),
        caption=distribution_caption(frame, band),
    )
    yield doubted(plot, unproven)


DISTRIBUTION = Section("error-distribution", _distribution)
