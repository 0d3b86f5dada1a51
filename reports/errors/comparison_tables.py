"""Tables that compare: every two models, ours with the papers', other data with its control."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from latecomer.reports.display.drawing import model_names
from latecomer.reports.display.table import PLUS_MINUS, Table, over_seeds
from latecomer.reports.frames.errors import in_order, records
from latecomer.reports.frames.paper import within_spread
from latecomer.reports.words import DASH, count, percent, points, sentence_case


def pair_table(pairs: pd.DataFrame, models: pd.DataFrame) -> Table:
    """Every two models: difference, interval, corrected p-value, the smallest p first.

    ``models`` is any frame with ``label`` and ``predictor``, from which models are named.
    """
    names = model_names(models)
    frame = pairs.sort_values("p", kind="stable", ignore_index=True)
    shown = pd.DataFrame(
        [
            {
                "method": names[row["label"], row["predictor"]],
                "compared with": names[row["other"], row["other_predictor"]],
                "difference (points)": points(row["difference"]),
                "95% interval": f"{points(row['lower'])} to {points(row['upper'])}",
                "p (Holm)": chance_of(row["p_holm"]),
                "clients": str(row["n_clients"]),
                "seeds": str(row["n_seeds"]),
            }
            for row in records(frame)
        ]
    )
    marked = frame["p_holm"] <= 0.05
    bold = tuple((int(i), "p (Holm)") for i in frame.index[marked])
    caption = (
        "Novel error of the first minus that of the second, paired over clients, each client "
        "averaged over the seeds both have. Intervals are 95% t-intervals over clients, each for "
        "itself; p-values are of the paired t-test, corrected after Holm over "
        f"{count(len(frame), 'pair')}, 5% or less in bold. What is compared are these trained "
        "models: seeds are no part of the test."
    )
    return Table("pairs", caption, frame, shown, ("method", "compared with"), bold)


def chance_of(p: float) -> str:
    """Write a p-value with two digits.

    >>> chance_of(0.03141), chance_of(0.00001), chance_of(1.0)
    ('0.031', '< 0.001', '1')
    """
    if pd.isna(p):
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}".replace("1.00", "1")


def paper_table(frame: pd.DataFrame, labels: Sequence[str], study: Mapping[str, Any]) -> Table:
    """Set published accuracy beside ours, with the difference."""
    frame = in_order(frame, labels)
    full = study.get("scale") == "paper"
    frame = frame.assign(within_combined_spread=within_spread(frame) if full else None)
    several = frame["setting"].nunique() > 1
    shown = []
    for row in records(frame):
        cells = {
            "method": row["label"],
            "item": row["item"],
            **({"setting": row["setting"]} if several else {}),
            "clients": row["group"],
            "paper": _spread(row["paper"], row["paper_spread"]),
            "ours": _spread(row["ours"], row["ours_spread"]),
            "difference (points)": points(row["difference"]),
            "our clients": str(row["n_clients"]),
            "our seeds": str(row["n_seeds"]),
        }
        if full:
            said = {True: "yes", False: "no"}.get(row["within_combined_spread"], DASH)
            cells["within the combined spread"] = said
        shown.append(cells)
    kinds = ", ".join(dict.fromkeys(k for k in frame["paper_spread_kind"] if k)) or "not published"
    pooled = sorted(set(frame["aggregation"]))
    own = "ours has none, being of one seed" if frame["ours_spread"].isna().all() else "ours alike"
    caption = f"Accuracy; {PLUS_MINUS} is the {kinds}; {own}. "
    caption += " ".join(
        "Ours is pooled over all test samples, as the published code does."
        if how == "pooled"
        else "Ours is the mean over clients."
        for how in pooled
    )
    if full:
        caption += " Combined spread: the root of the summed squares of both."
    words = ("method", "item", "setting", "clients", "within the combined spread")
    return Table("paper", caption, frame, pd.DataFrame(shown), words)


def _spread(mean: float, spread: float) -> str:
    if pd.isna(spread):
        return percent(mean)
    return f"{percent(mean)} {PLUS_MINUS} {points(spread).lstrip('+')}"


def effect_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Effect of other data, beside its matched control, per model."""
    frame = in_order(frame, labels)
    names = model_names(frame)
    shown = pd.DataFrame(
        [
            {
                "method": names[row["label"], row["predictor"]],
                "data": row["shift"],
                "effect (points)": _spread_points(row["effect"], row["sd_seeds"]),
                "95% over clients": f"{points(row['lower'])} to {points(row['upper'])}",
                "clients": str(row["n_clients"]),
                "seeds": str(row["n_seeds"]),
            }
            for row in records(frame)
        ]
    )
    caption = (
        "Error on the other data minus error on the control: the same clients with samples of the "
        "same classes, from the other data or again from their own, equally many. What having "
        "other samples and fewer of them does is in both, so the effect is that of the data. "
        f"{sentence_case(over_seeds(frame))}. The interval is the 95% t-interval over clients, "
        "each averaged over seeds."
    )
    return Table("shift-effect", caption, frame, shown, ("method", "data"))


def _spread_points(mean: float, spread: float) -> str:
    sd = "" if pd.isna(spread) else f" {PLUS_MINUS} {points(spread).lstrip('+')}"
    return f"{points(mean)}{sd}"


def lacks_table(frame: pd.DataFrame) -> Table:
    """Say which clients another data set could not fill."""
    shown = pd.DataFrame(
        [
            {
                "data": row["shift"],
                "client": str(row["client"]),
                "samples missing": f"{int(row['n_missing']):,}",
                "why": str(row["message"]),
            }
            for row in records(frame)
        ]
    )
    caption = (
        "Samples that the other data could not give a client; its control lacks them too. A client "
        "left without support or query data is not measured under that shift."
    )
    return Table("samples-missing", caption, frame, shown, ("data", "why"))
