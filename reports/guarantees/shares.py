"""Certificates about single clients' errors: shares above thresholds, and what certainty costs."""

from collections.abc import Sequence

import pandas as pd

from latecomer.certify.words import DASH, chance, magnitude, percent, shift_name
from latecomer.reports.display.naming import model_names
from latecomer.reports.display.section import Section, tabled
from latecomer.reports.display.table import Table
from latecomer.reports.frames.artifacts import CellTables, joined
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import (
    CONDITION,
    client_errors,
    first_record,
    in_order,
    records,
)
from latecomer.reports.words import bound_name

CURVE_COLUMNS = (
    *("label", "predictor", "seed", "bound", "shift", "severity", "delta", "level", "sampled"),
    "upper",
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
    frame = joined(
        tables,
        (*CURVE_COLUMNS, "threshold"),
        ("severity", "delta", "threshold", "sampled", "upper"),
        "",
    )
    frame["level"] = frame.pop("threshold")
    frame["shift"] = frame["shift"].where(frame["shift"] != "", "none")
    return frame


def fraction_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Certified shares of clients above single thresholds, beside the new clients' share.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed bound shift severity threshold value delta n_clients measured
        n_novel``: with probability 1 - delta at most ``value`` of the clients have an error above
        ``threshold``; ``measured`` is that share among the ``n_novel`` new clients.
    """
    chosen = rows[(rows["metric"] == "certified_fraction") & (rows["term"] == "")]
    keys = [*MODEL, "seed", *CONDITION]
    frame = chosen[[*keys, "bound", "value", "delta", "n_clients"]].reset_index(drop=True)
    frame["shift"] = frame["shift"].where(frame["shift"] != "", "none")
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
        [
            {
                "method": names[row["label"], row["predictor"]],
                "seed": str(row["seed"]),
                "condition": shift_name(row["shift"], row["severity"]),
                "error above": percent(row["threshold"]),
                "certified share at most": magnitude(row["value"]),
                "with probability": chance(row["delta"]),
                "share of new clients": percent(row["measured"]),
                "new clients": str(row["n_novel"]),
                "held-out clients": str(row["n_clients"]),
            }
            for row in records(frame)
        ]
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
    prices = chosen.assign(shift=chosen["shift"].where(chosen["shift"] != "", "none"))
    frame = prices.set_index([*tags, "term"])["value"].unstack("term").reset_index()
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
    known = values.dropna()
    if known.empty:
        return DASH
    low, high = (f"{100 * value:.1f}" for value in (known.min(), known.max()))
    return low if low == high else f"{low} to {high}"


PRICES = Section(
    "prices",
    tabled(lambda material: price_frame(material.rows), price_table),
    title="What certainty costs",
)
SHARES = Section(
    "certified-shares",
    tabled(lambda material: fraction_frame(material.rows), fraction_table),
    title="Certified shares of badly served clients",
)
