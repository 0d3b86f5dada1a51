"""Rows to tidy frames: measured errors, shift curves, diagnostics, failures.

All functions are pure.  Rows are those of ``latecomer.eval.results.rows.read_rows``.  Errors are
fractions; a client's error is averaged over seeds before any spread over clients is taken, and a
seed's error is averaged over clients before any spread over seeds is.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from latecomer.eval.names import method_facts
from latecomer.reports.frames.comparison import MODEL, comparison_frame, half_width
from latecomer.reports.words import METRICS

CONDITION = ["shift", "severity"]
GROUPS = ("seen", "certification", "novel")
# A shift to other data is judged against the same clients refilled from their own data.
CONTROL = "-control"
# How clients are served that take no gradient step.
_UNTRAINED = (
    *("forward", "global", "unlabelled", "knn", "intercept", "chosen", "mixture", "gaussian"),
)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """List a frame's rows as dicts of Python's own numbers, as ``DataFrame.to_dict`` does.

    That takes three times as long on a frame of few rows, and a page lists three hundred of them.
    """
    names = [str(name) for name in frame.columns]
    columns = [_natives(column) for _, column in frame.items()]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _natives(column: pd.Series) -> list[Any]:
    values: list[Any] = column.tolist()
    if column.dtype != object:
        return values
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def first_record(frame: pd.DataFrame) -> dict[str, Any]:
    """Give a frame's first row as a dict."""
    return records(frame.head(1))[0]


def by_model(frame: pd.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    """Map (label, predictor) to the model's row."""
    return {(row["label"], row["predictor"]): row for row in records(frame)}


def client_errors(rows: pd.DataFrame, metric: str = "error") -> pd.DataFrame:
    """Errors of single clients, one row per model, client and condition.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the run.
    metric : str
        ``error`` on their query data, or ``training_error``, where a run measured that.

    Returns
    -------
    pandas.DataFrame
        ``label method personalization predictor seed group client shift severity n_query error``;
        ``severity`` is NaN when the shift has none.  Such a frame given as ``rows`` is
        returned as it is, so functions that need only errors take either.
    """
    if "error" in rows:
        return rows
    chosen = (
        (rows["metric"] == metric)
        & (rows["client"] != "")
        & (rows["method"] != "")
        & (rows["status"] != "failed")
    )
    columns = ["label", "method", "personalization", "predictor", "seed", "group", "client"]
    frame = rows.loc[chosen, [*columns, "shift", "severity", "n_query", "value"]].rename(
        columns={"value": "error"}
    )
    frame["shift"] = frame["shift"].where(frame["shift"] != "", "none")
    return frame.astype({"seed": "int64"}).reset_index(drop=True)


def labels_in(rows: pd.DataFrame, study_methods: Sequence[object] = ()) -> list[str]:
    """Labels of the methods in the study's order, then any others by name.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the run.
    study_methods : sequence
        ``methods`` of the resolved study: names, or mappings with ``name`` and ``label``.
    """
    present = set(rows.loc[rows["method"] != "", "label"])
    declared = [
        str(entry.get("label") or entry.get("name")) if isinstance(entry, dict) else str(entry)
        for entry in study_methods
    ]
    return [x for x in declared if x in present] + sorted(present - set(declared))


def personalization(rows: pd.DataFrame) -> dict[str, str]:
    """Map each label to how its method serves new clients; it is unknown for failed cells."""
    known = rows.loc[
        (rows["method"] != "") & (rows["personalization"] != ""), ["label", "personalization"]
    ]
    return dict(known.drop_duplicates("label").to_numpy().tolist())


def serving_steps(rows: pd.DataFrame, study_methods: Sequence[object] = ()) -> dict[str, int]:
    """Map each label to the gradient steps that a new client takes before it is served.

    A label is left out where they are not known: systems trained elsewhere, and methods from
    outside the package whose new clients train.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the run.
    study_methods : sequence
        ``methods`` of the resolved study.
    """
    settings = {
        str(entry.get("label") or entry.get("name")): entry
        for entry in study_methods
        if isinstance(entry, dict)
    }
    measured = rows.loc[rows["method"] != "", ["label", "method"]].drop_duplicates("label")
    served, told = personalization(rows), {}
    for label, method in measured.itertuples(index=False, name=None):
        steps = method_facts().get(method, {}).get("serving", {})
        own = settings.get(label, {})
        if steps:
            told[label] = prod(int(own.get(name, default)) for name, default in steps.items())
        elif served.get(label) in _UNTRAINED:
            told[label] = 0
    return told


def in_order(frame: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """Sort a frame by the position of its label in ``labels``, otherwise stably."""
    place = {label: position for position, label in enumerate(labels)}
    position = frame["label"].map(place).fillna(len(place))
    return frame.iloc[np.argsort(position.to_numpy(), kind="stable")].reset_index(drop=True)


def primary_predictor(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep one predictor per label: the deterministic one where there is one."""
    has = frame.groupby("label")["predictor"].transform(lambda p: (p == "deterministic").any())
    return frame[~has | (frame["predictor"] == "deterministic")]


def dealt_shifts(errors: pd.DataFrame) -> tuple[str, ...]:
    """List the shifts under which none of the unshifted new clients is served, but others are.

    Parameters
    ----------
    errors : pandas.DataFrame
        ``client_errors`` of the rows.
    """
    novel = errors[errors["group"] == "novel"]
    own = {str(shift): set(part["client"]) for shift, part in novel.groupby("shift", sort=False)}
    plain = own.pop("none", set())
    return tuple(shift for shift, clients in own.items() if plain and plain.isdisjoint(clients))


def _spread(errors: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    by_seed = errors.groupby([*by, "seed"], dropna=False)["error"].mean().reset_index()
    by_client = errors.groupby([*by, "client"], dropna=False)["error"].mean().reset_index()
    seeds = by_seed.groupby(by, dropna=False)["error"]
    clients = by_client.groupby(by, dropna=False)["error"]
    frame = pd.DataFrame(
        {
            "mean": seeds.mean(),
            "sd_seeds": seeds.std(ddof=1),
            "se_clients": clients.sem(ddof=1),
            "half": clients.agg(half_width),
            "worst": clients.max(),
            "n_clients": clients.size(),
            "n_seeds": seeds.size(),
        }
    ).reset_index()
    # An error lies in [0, 1]; the t-interval does not know that.
    frame["lower"] = (frame["mean"] - frame["half"]).clip(lower=0.0)
    frame["upper"] = (frame["mean"] + frame["half"]).clip(upper=1.0)
    return frame.drop(columns="half")


def accuracy_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Unshifted error per model and client group.

    Returns
    -------
    pandas.DataFrame
        ``label predictor group mean sd_seeds se_clients worst n_clients n_seeds lower upper`` and,
        for the novel group, ``difference difference_lower difference_upper p_holm tied`` against
        the model of least new-client error.  ``lower`` and ``upper`` are the 95% t-interval over
        clients.
    """
    errors = client_errors(rows)
    errors = errors[(errors["shift"] == "none") & errors["group"].isin(["seen", "novel"])]
    frame = _spread(errors, [*MODEL, "group"])
    novel = errors[errors["group"] == "novel"]
    return frame.merge(comparison_frame(novel), on=[*MODEL, "group"], how="left")


def shift_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """New-client error under every shift and severity, one predictor per label.

    Returns
    -------
    pandas.DataFrame
        ``label predictor shift severity mean sd_seeds se_clients worst n_clients n_seeds lower
        upper``; the unshifted control has shift ``none``.
    """
    errors = client_errors(rows)
    errors = primary_predictor(errors[errors["group"] == "novel"])
    return _spread(errors, [*MODEL, *CONDITION])


def diagnostics_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Distance of every new client to its nearest seen client, beside its error.

    Returns
    -------
    pandas.DataFrame
        ``label predictor client shift severity metric distance error n_seeds``, errors averaged
        over seeds; ``metric`` is one of ``words.METRICS``.  A client whose distance a
        shift leaves as it was (a blur moves no label) is listed unshifted only.
    """
    errors = client_errors(rows)
    errors = primary_predictor(errors[errors["group"] == "novel"])
    keys = ["client", *CONDITION]
    mean = errors.groupby([*MODEL, *keys], dropna=False)["error"].agg(["mean", "size"])
    known = list(METRICS)
    chosen = rows[(rows["method"] == "") & rows["metric"].isin(known) & (rows["client"] != "")]
    distances = chosen[[*keys, "metric", "value"]].rename(columns={"value": "distance"})
    distances["shift"] = distances["shift"].where(distances["shift"] != "", "none")
    frame = mean.reset_index().rename(columns={"mean": "error", "size": "n_seeds"})
    plain = distances.loc[distances["shift"] == "none", ["client", "metric", "distance"]]
    moved = distances.merge(
        plain.rename(columns={"distance": "before"}), on=["client", "metric"], how="left"
    )
    kept = (moved["shift"] == "none") | (moved["distance"] != moved["before"])
    merged = frame.merge(moved[kept].drop(columns="before"), on=keys, how="inner")
    order = merged["metric"].map({name: position for position, name in enumerate(known)})
    columns = [*MODEL, *keys, "metric", "distance", "error", "n_seeds"]
    return merged.loc[np.argsort(order.to_numpy(), kind="stable"), columns].reset_index(drop=True)


def rank_frame(diagnostics: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rank correlation of error with each distance, per label.

    Returns
    -------
    pandas.DataFrame
        ``label metric clients spearman n``, over unshifted clients (``unshifted``) and over all
        conditions (``all``); NaN where either side is constant.
    """
    records = []
    for (label, metric), frame in diagnostics.groupby(["label", "metric"], sort=False):
        for clients, part in (("unshifted", frame[frame["shift"] == "none"]), ("all", frame)):
            constant = part["distance"].nunique() < 2 or part["error"].nunique() < 2
            rho = np.nan
            if not constant:
                ranks = np.array([stats.rankdata(part[name]) for name in ("distance", "error")])
                rho = float(np.corrcoef(ranks)[0, 1])
            records.append((label, metric, clients, rho, len(part)))
    return pd.DataFrame(records, columns=["label", "metric", "clients", "spearman", "n"])


def failures_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Cells that failed: ``label seed cell message``."""
    chosen = rows[rows["status"] == "failed"]
    return chosen[["label", "seed", "cell", "message"]].reset_index(drop=True)


def group_sizes(rows: pd.DataFrame) -> dict[str, int]:
    """Clients measured per group without shift; a group without rows counts 0."""
    errors = client_errors(rows)
    plain = errors.loc[errors["shift"] == "none", ["group", "client"]]
    counts = plain.drop_duplicates()["group"].value_counts()
    return {name: int(counts.get(name, 0)) for name in GROUPS}
