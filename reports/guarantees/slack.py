"""How far certificates are from measured errors, why, and how bounds rank models.

A certificate's value minus the error that its system would have with nobody held out is the slack.
It adds up from accuracy given up (the certified system's measured error minus that of the same
method trained on the held-out clients as well), other clients (the certificate starts from its own
clients' scores, the measured error is the new clients'), and the certificate's terms.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from latecomer.certify.words import DASH, MINUS, percent, points
from latecomer.reports.display.naming import model_names
from latecomer.reports.display.section import Block, Material, Section
from latecomer.reports.display.table import Table
from latecomer.reports.frames.bounds import MEASURED_TERMS, bound_frame
from latecomer.reports.frames.comparison import MODEL, half_width
from latecomer.reports.frames.errors import client_errors, in_order, records
from latecomer.reports.words import bound_name, in_one_unit

PAID = {"samples": "sample_level", "deviation": "sample_level", "draws": "monte_carlo"}
"""What terms pay for; all others pay for the choice of clients."""
PARTS = ("given_up", "other_clients", "client_sampling", "sample_level", "monte_carlo")
FEWEST = 3  # models that can be ranked


def references(configs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Map each label to that of the same method trained on every client but the new ones.

    A study trains such models where ``evaluation.given_up`` is set.  Without held-out clients
    its usual models already are such, and models that a route trains are compared with them.

    Parameters
    ----------
    configs : iterable of mapping
        Configurations of the run's cells; those of the split are ignored.
    """
    kinds: dict[str, str] = {}
    whole: dict[str, str] = {}
    routed: dict[str, str] = {}
    made = [config for config in configs if config.get("method")]
    for config in made:
        label = str(config["method"]["label"])
        kinds[label] = kind = str(config.get("kind", "method"))
        if kind == "whole":
            whole[str(config["of"])] = label
        elif kind != "method":
            entry = config["certificates"][0]
            routed[label] = label.removesuffix(f" {entry['route']}:{entry['rule']}")
    held_out = any((config.get("split") or {}).get("certify") for config in made)
    matched = dict(whole)
    for label, own in routed.items():
        if own in whole:
            matched[label] = whole[own]
        elif own in kinds and not held_out:
            matched[label] = own
    return matched


def slack_frame(
    rows: pd.DataFrame, reference: Mapping[str, str], bounds: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Break down how far every unshifted bound on new clients is from what was measured.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the run.
    reference : mapping
        ``references`` of its cells.
    bounds : pandas.DataFrame, optional
        ``bound_frame`` of the rows where it is known.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed bound rigorous vacuous value measured lower upper n_novel slack`` and
        the parts that add up to ``slack``: ``given_up other_clients client_sampling sample_level
        monte_carlo``.  ``lower`` and ``upper`` are the 95% t-interval of ``measured`` over the
        new clients.  Where a label has no reference, ``given_up`` is NaN and the other parts
        add up to ``slack``.
    """
    bounds = bound_frame(rows) if bounds is None else bounds
    bounds = bounds[(bounds["shift"] == "none") & (bounds["population"] == "unseen-client")]
    errors = client_errors(rows)
    novel = errors[(errors["group"] == "novel") & (errors["shift"] == "none")]
    means = novel.groupby([*MODEL, "seed"])["error"].mean()
    halves = novel.groupby([*MODEL, "seed"])["error"].agg(half_width)
    terms = rows[
        (rows["metric"] == "certificate") & (rows["term"] != "") & rows["shift"].isin(["", "none"])
    ]
    keys = ["label", "seed", "bound", "predictor", "delta"]
    made_of = {key: part for key, part in terms.groupby(keys, sort=False)}
    facts = ("label", "predictor", "seed", "bound", "rigorous", "vacuous", "value", "measured")
    slacks = []
    for row in records(bounds):
        start, parts = _paid(made_of.get(tuple(row[name] for name in keys)))
        half = float(halves.get((row["label"], row["predictor"], row["seed"]), np.nan))
        parts["other_clients"] = start - row["measured"]
        parts["given_up"] = row["measured"] - _reference(means, row, reference)
        slack = sum(value for value in parts.values() if not np.isnan(value))
        slacks.append(
            {
                **{name: row[name] for name in facts},
                "lower": max(row["measured"] - half, 0.0),
                "upper": min(row["measured"] + half, 1.0),
                "n_novel": row["n_novel"],
                "slack": np.nan if np.isnan(parts["other_clients"]) else slack,
                **parts,
            }
        )
    columns = [*facts, "lower", "upper", "n_novel", "slack", *PARTS]
    return pd.DataFrame(slacks, columns=columns)


def _paid(terms: pd.DataFrame | None) -> tuple[float, dict[str, float]]:
    """Return the measured term that a bound starts from, and its other terms summed by purpose."""
    start, parts = np.nan, dict.fromkeys(PARTS, 0.0)
    for entry in records(terms) if terms is not None else []:
        if entry["term"] in MEASURED_TERMS:
            start = float(entry["value"])
        else:
            parts[PAID.get(entry["term"], "client_sampling")] += float(entry["value"])
    return start, parts


def _reference(means: pd.Series, row: Mapping[str, Any], reference: Mapping[str, str]) -> float:
    """Return the reference's measured error: of the same predictor, else of the fixed weights."""
    label = reference.get(row["label"])
    for predictor in (row["predictor"], "deterministic"):
        if label is not None and (label, predictor, row["seed"]) in means.index:
            return float(means[label, predictor, row["seed"]])
    return float("nan")


def slack_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Show a row per trained model and bound, vacuous ones marked."""
    frame = in_order(frame, labels)
    names = model_names(frame)
    write, unit = in_one_unit(frame["value"])
    shown = []
    for row in records(frame):
        kind = "vacuous" if row["vacuous"] else "certificate" if row["rigorous"] else "not proven"
        shown.append(
            {
                "method": names[row["label"], row["predictor"]],
                "bound": bound_name(row["bound"]),
                "seed": str(row["seed"]),
                f"value{unit}": write(row["value"]),
                "is": kind,
                "new-client error (95%)": _measured(row),
                "new clients": str(row["n_novel"]),
                "slack": _points(row["slack"]),
                "= accuracy given up": _points(row["given_up"]),
                "+ other clients": _points(row["other_clients"]),
                "+ choice of clients": _points(row["client_sampling"]),
                "+ choice of samples": _points(row["sample_level"]),
                "+ Monte Carlo": _points(row["monte_carlo"]),
            }
        )
    caption = (
        "Slack in points: the bound minus the new clients' error under the same method trained "
        "on the certified clients as well (where nobody trained that, under the certified model). "
        "Accuracy given up: how far new clients' error under the certified system is above that. "
        "Other clients: the bound starts from its own clients' scores. The interval is the 95% "
        "t-interval over new clients."
    )
    words = ("method", "bound", "is")
    cells, label = pd.DataFrame(shown), "Slack of bounds"
    return Table("slack", caption, frame, cells, words, label=label, noun="rows")


def _measured(row: Mapping[str, Any]) -> str:
    if not row["n_novel"]:
        return DASH
    return f"{percent(row['measured'])} ({percent(row['lower'])} to {percent(row['upper'])})"


def _points(value: float) -> str:
    if pd.isna(value):
        return DASH
    return points(value) if abs(value) < 10 else f"{100 * value:+,.0f}".replace("-", MINUS)


def order_frame(bounds: pd.DataFrame, gaps: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of each bound's values with what was measured, across trained models.

    Parameters
    ----------
    bounds, gaps : pandas.DataFrame
        ``bound_frame`` and ``gap_frame`` of the rows.

    Returns
    -------
    pandas.DataFrame
        ``bound delta rigorous n_models n_vacuous tau_gap n_gap tau_error n_error``: Kendall's tau-b
        with the generalization gap (new- minus seen-client error) and with the new-client error;
        NaN for fewer than three models, or where either side is constant.
    """
    bounds = bounds[(bounds["shift"] == "none") & bounds["population"].ne("one-client")]
    both = bounds.merge(gaps[[*MODEL, "seed", "gap"]], on=[*MODEL, "seed"], how="left")
    rows = []
    for (bound, delta), part in both.groupby(["bound", "delta"], sort=False):
        gap, error = (part.dropna(subset=[name]) for name in ("gap", "measured"))
        rows.append(
            {
                "bound": bound,
                "delta": delta,
                "rigorous": bool(part["rigorous"].all()),
                "n_models": len(part),
                "n_vacuous": int(part["vacuous"].sum()),
                "tau_gap": _tau(gap["value"], gap["gap"]),
                "n_gap": len(gap),
                "tau_error": _tau(error["value"], error["measured"]),
                "n_error": len(error),
            }
        )
    columns = ("bound", "delta", "rigorous", "n_models", "n_vacuous")
    return pd.DataFrame(rows, columns=[*columns, "tau_gap", "n_gap", "tau_error", "n_error"])


def _tau(left: pd.Series, right: pd.Series) -> float:
    if len(left) < FEWEST or left.nunique() < 2 or right.nunique() < 2:
        return float("nan")
    return float(stats.kendalltau(left, right).statistic)


def order_table(frame: pd.DataFrame) -> Table:
    """Show how bounds order models beside how measurements do."""
    shown = []
    for row in records(frame):
        words = {
            name: DASH
            if pd.isna(row[f"tau_{name}"])
            else f"{row[f'tau_{name}']:+.2f} ({row[f'n_{name}']})".replace("-", MINUS)
            for name in ("gap", "error")
        }
        shown.append(
            {
                "bound": bound_name(row["bound"]),
                "delta": f"{row['delta']:g}",
                "trained models": str(row["n_models"]),
                "of these vacuous": str(row["n_vacuous"]),
                "with the gap": words["gap"],
                "with the new-client error": words["error"],
            }
        )
    caption = (
        "Kendall's rank correlation, across trained models, of a bound's value with the measured "
        "gap (new- minus seen-client error) and the measured error of new clients; in brackets the "
        "models that have both. Models of one split are measured on the same clients, so no "
        "interval is given. A vacuous bound may still order models."
    )
    cells, label = pd.DataFrame(shown), "Rank correlations of bounds"
    return Table("bound-order", caption, frame, cells, ("bound",), label=label, noun="bounds")


def _slack(material: Material) -> Iterator[Block]:
    known = references([cell.config for cell in material.run.cells])
    alike = len(material.everything) == len(material.rows)
    slack = slack_frame(material.everything, known, material.bounds if alike else None)
    if len(slack):
        yield slack_table(slack, material.labels)


def _bound_order(material: Material) -> Iterator[Block]:
    order = order_frame(material.bounds, material.gaps)
    if order[["tau_gap", "tau_error"]].notna().any(axis=None):
        yield order_table(order)


SLACK = Section("slack", _slack, title="How far bounds are from what was measured")
ORDER = Section("bound-order", _bound_order, title="Do bounds order models as measurements do?")
