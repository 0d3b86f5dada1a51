"""The last lines of ``latecomer run``: measured error and certificate of every model."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from latecomer.eval.results.rows import read_rows
from latecomer.render import number
from latecomer.reports.frames.errors import accuracy_frame, by_model

__all__ = ["summary_lines"]

_ABOUT = {
    ("unseen-client", "finite-pool"): "mean error of the clients not trained on",
    ("unseen-client", "iid"): "mean error of clients like these",
    ("next-client", "finite-pool"): "error of the next client",
    ("next-client", "iid"): "error of the next client",
}


def summary_lines(directory: Path, *, labels: Sequence[str] = ()) -> list[str]:
    """Show novel error and certificates, a line per model, and what the columns mean.

    Errors are those of the report.  A certificate is the largest over the seeds: each holds for
    its own trained model.  Models come in the order of ``labels``, others after them.
    """
    rows = read_rows(directory / "rows.csv")
    done = rows[(rows["status"] != "failed") & (rows["method"] != "")]
    errors = accuracy_frame(rows)
    errors = errors[errors["group"] == "novel"]
    novel = by_model(errors)
    proved = done[
        (done["metric"] == "certificate")
        & (done["group"] == "certification")
        & done["shift"].isin(["", "none"])
        & (done["term"] == "")
    ]
    if errors.empty and proved.empty:
        return []
    bounds = sorted(set(proved["bound"]), key=lambda bound: (bound.endswith("conformal"), bound))
    header = ["", *(["novel error"] if len(errors) else []), *bounds]
    table = [header]
    for (label, predictor), name in _models(done, labels).items():
        model = (done["label"] == label) & (done["predictor"] == predictor)
        line = [name]
        if len(errors):
            line.append(_error(novel.get((label, predictor))))
        for bound in bounds:
            values = proved[model.loc[proved.index] & (proved["bound"] == bound)]["value"]
            line.append(f"<= {number(values.max(), decimals=3, up=True)}" if len(values) else "-")
        if set(line[1:]) != {"-"}:
            table.append(line)
    widths = [max(len(line[i]) for line in table) for i in range(len(header))]
    shown = [
        "   " + "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in table
    ]
    left = done[(done["metric"] == "certificate_pool") & done["shift"].isin(["", "none"])]
    legend = _legend(errors, proved, left, bounds)
    return [*(line.rstrip() for line in shown), *legend, *_warnings(done)]


def _warnings(done: pd.DataFrame) -> list[str]:
    """Name the personalised methods that serve everybody one model."""
    told = done[(done["metric"] == "model_spread") & done["message"].fillna("").ne("")]
    return [
        f" warning      {label} {message}; see the report"
        for label, message in dict(zip(told["label"], told["message"], strict=True)).items()
    ]


def _models(rows: pd.DataFrame, labels: Sequence[str]) -> dict[tuple[str, str], str]:
    """Name the models; the predictor is said where a label has two."""
    place = {label: i for i, label in enumerate(labels)}
    given = rows[rows["predictor"] != ""]
    pairs = sorted(
        set(zip(given["label"], given["predictor"], strict=True)),
        key=lambda pair: (place.get(pair[0], len(place)), pair),
    )
    counts = Counter(label for label, _ in pairs)
    return {
        (label, predictor): f"{label} ({predictor})" if counts[label] > 1 else label
        for label, predictor in pairs
    }


def _error(told: Mapping[str, Any] | None) -> str:
    if told is None:
        return "-"
    spread = f" ± {told['sd_seeds']:.3f}" if told["n_seeds"] > 1 else ""
    return f"{told['mean']:.3f}{spread}"


def _legend(
    errors: pd.DataFrame, proved: pd.DataFrame, left: pd.DataFrame, bounds: Sequence[str]
) -> list[str]:
    lines = []
    if len(errors):
        seeds = int(errors["n_seeds"].max())
        spread = f", ± sd over {seeds} seeds" if seeds > 1 else ", 1 seed"
        clients = int(errors["n_clients"].max())
        lines.append(f" novel error  mean over {clients} clients that joined late{spread}")
    largest = ", largest over the seeds" if proved["seed"].nunique() > 1 else ""
    for bound in bounds:
        first = proved[proved["bound"] == bound].iloc[0]
        about = _ABOUT.get((first["population"], first["sampling"]), first["population"])
        lines.append(
            f" {bound:<12} bounds the {about} with probability {1 - first['delta']:.10g},"
            f" from {first['n_clients']} certification clients{largest}"
            f"{_for_others(left[left['bound'] == bound])}"
        )
    return lines


def _for_others(left: pd.DataFrame) -> str:
    """Say what a bound over a pool leaves for the clients that were not scored."""
    others = left.loc[left["term"] == "others", "value"]
    if others.empty:
        return ""
    n = int(left.loc[left["term"] == "size", "value"].max() - left["n_clients"].min())
    most = number(others.max(), decimals=3, up=True)
    return f"; it leaves at most {most} for the {n} not scored"
