"""Tables about errors, bounds, shifts and distances, made from their frames."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from latecomer.reports.display.drawing import model_names
from latecomer.reports.display.table import PLUS_MINUS, Table, over_seeds
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import (
    accuracy_frame,
    by_model,
    first_record,
    gap_frame,
    gap_summary,
    in_order,
    personalization,
    rank_frame,
    records,
)
from latecomer.reports.words import (
    DASH,
    FAMILIES,
    METRICS,
    magnitude,
    percent,
    points,
    shift_name,
    signed,
)


def accuracy_table(rows: pd.DataFrame, labels: Sequence[str]) -> Table | None:
    """Seen and novel error per model, gap and comparison with the best; None without errors."""
    frame = in_order(accuracy_frame(rows), labels)
    if frame.empty:
        return None
    served = personalization(rows)
    parts = {name: frame[frame["group"] == name] for name in ("seen", "novel")}
    seen, novel = by_model(parts["seen"]), by_model(parts["novel"])
    gaps = by_model(gap_summary(gap_frame(rows)))
    heads = {name: _counted(f"{name} error", part["n_clients"]) for name, part in parts.items()}
    shown, bold = [], []
    for place, (pair, name) in enumerate(model_names(frame).items()):
        both = [group[pair] for group in (seen, novel) if pair in group]
        family = served.get(pair[0], "")
        shown.append(
            {
                "method": name,
                heads["seen"]: _with_spread(seen.get(pair)),
                heads["novel"]: _with_spread(novel.get(pair)),
                **_novel_cells(novel.get(pair)),
                "gap (points)": _gap_cell(gaps.get(pair)),
                "new clients get": FAMILIES.get(family, family),
                "seeds": str(max(int(row["n_seeds"]) for row in both)),
            }
        )
        if pair in novel and novel[pair]["tied"]:
            bold.append((place, heads["novel"]))
    caption = (
        f"Error of seen and novel clients without shift: mean over clients, then over seeds; "
        f"{over_seeds(frame)}. The interval is the 95% "
        "t-interval over clients, each client averaged over seeds. Gap: novel minus seen accuracy. "
        "Bold: the lowest novel error and every one not significantly worse (paired t-test over "
        "clients, Holm over all pairs, 5%)."
    )
    words = ("method", "new clients get")
    return Table("accuracy", caption, frame, pd.DataFrame(shown), words, tuple(bold))


def _with_spread(row: Mapping[str, Any] | None) -> str:
    return f"{percent(row['mean'])}{_sd(row)}" if row else DASH


def _gap_cell(row: Mapping[str, Any] | None) -> str:
    return f"{points(row['gap'])}{_sd(row)}" if row else DASH


def _sd(row: Mapping[str, Any]) -> str:
    sd = row["sd_seeds"]
    return "" if pd.isna(sd) else f" {PLUS_MINUS} {points(sd).lstrip('+')}"


def _counted(heading: str, counts: pd.Series) -> str:
    known = sorted({int(n) for n in counts.dropna()}) or [0]
    return f"{heading} ({DASH.join(str(n) for n in (known[0], known[-1])[: len(known)])} clients)"


def _novel_cells(row: Mapping[str, Any] | None) -> dict[str, str]:
    cells = [DASH, DASH, DASH]
    if row:
        best = row["difference"] == 0 and pd.isna(row["p_holm"])
        ends = f"[{points(row['difference_lower'])}, {points(row['difference_upper'])}]"
        cells = [
            f"{percent(row['lower'])} to {percent(row['upper'])}",
            "best" if best else f"{points(row['difference'])} {ends}",
            percent(row["worst"]),
        ]
    heads = ("95% over clients", "above the best (95%)", "worst client")
    return dict(zip(heads, cells, strict=True))


def bound_table(bounds: pd.DataFrame, name: str, bound: str) -> Table:
    """Values of one bound: a row per model and condition, a column per seed, never averaged."""
    own = bounds[bounds["bound"] == bound]
    shifted = bool((own["shift"] != "none").any())
    several = own["delta"].nunique() > 1
    next_client = bool((own["population"] == "next-client").all())
    clients = _counted("", own.loc[own["n_novel"] > 0, "n_novel"]).strip()
    beside = f"novel clients at or below it {clients.replace('(', '(of ').replace(' clients', '')}"
    beside = beside if next_client else f"measured novel error {clients}"
    seeds = sorted(int(seed) for seed in own["seed"].unique())
    shown = []
    for _, part in own.groupby([*MODEL, "shift", "severity", "delta"], dropna=False, sort=False):
        by_seed = {int(row["seed"]): row for row in records(part)}
        first = first_record(part)
        cells = {"method": str(first["label"])}
        if shifted:
            cells["condition"] = shift_name(first["shift"], first["severity"])
        if several:
            cells["delta"] = f"{first['delta']:g}"
        for seed in seeds:
            cells[f"seed {seed}"] = magnitude(by_seed[seed]["value"]) if seed in by_seed else DASH
        others = [by_seed[seed]["others"] for seed in seeds if seed in by_seed]
        if pd.notna(others).any():
            cells["left for those not scored"] = ", ".join(magnitude(value) for value in others)
        told = [_beside(by_seed.get(seed), next_client) for seed in seeds]
        shown.append({**cells, beside: ", ".join(told), "predictor": str(first["predictor"])})
    caption = "A column per seed: every value belongs to one trained model, none is an average."
    if len(seeds) > 1:
        caption += " The measured side lists the seeds in the same order."
    words = ("method", "predictor", "condition")
    return Table(name, caption, own, pd.DataFrame(shown), words)


def _beside(row: Mapping[str, Any] | None, next_client: bool) -> str:
    if row is None or not row["n_novel"]:
        return DASH
    return str(row["covered"]) if next_client else percent(row["measured"])


def shift_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Novel error per method (rows) and condition (columns)."""
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
        (row["label"], row["shift"], str(row["severity"])): _with_spread(row)
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
        f"Novel error under each shift and severity, mean over clients and seeds; "
        f"{over_seeds(ordered)}. The number of clients stands in brackets."
    )
    return Table("shift", caption, ordered, pd.DataFrame(shown), ("method",))


def rank_table(diagnostics: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Rank correlations of error with distance to the nearest training client."""
    frame = in_order(rank_frame(diagnostics), labels)
    shifted = bool((diagnostics["shift"] != "none").any())
    shown: dict[str, dict[str, str]] = {}
    for row in records(frame):
        if row["clients"] == "all" and not shifted:
            continue
        head = METRICS[row["metric"]].split(" to ")[0].removeprefix("label ")
        head += f" ({row['n']}{'' if row['clients'] == 'unshifted' else ', with shifts'})"
        own = shown.setdefault(row["label"], {"method": row["label"]})
        own[head] = signed(row["spearman"])
    caption = (
        "Spearman's rank correlation of a novel client's error (averaged over seeds) with its "
        "distance to the nearest training client: of labels (KL, TV, JS, Hellinger), of inputs "
        "(proxy A-distance); in brackets the number of points."
    )
    if shifted:
        caption += (
            " The same client under several shifts counts once per shift, so that number "
            "overstates independence and no interval is given."
        )
    return Table(
        "rank-correlation", caption, frame, pd.DataFrame(list(shown.values())), ("method",)
    )
