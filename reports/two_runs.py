"""Two runs side by side: settings that differ, and errors paired over clients."""

from pathlib import Path
from typing import Any

import pandas as pd

from latecomer.checks import dotted
from latecomer.eval.results.rows import RunRecord, load_run
from latecomer.reports.frames.errors import (
    CONDITION,
    MODEL,
    client_errors,
    half_width,
    study_methods,
)


def compare_runs(first: str | Path, second: str | Path) -> dict[str, Any]:
    """Compare two run directories.

    Returns
    -------
    dict
        ``settings`` (``settings_frame``), ``differences`` (``differences_frame``) and ``paired``,
        whether both runs served the same clients.

    Raises
    ------
    InputError
        When either directory holds no readable run.
    """
    one, other = load_run(first), load_run(second)
    # Data and split are declared alike, so that client ids mean the same clients.
    paired = all(one.study.get(name) == other.study.get(name) for name in ("data", "split"))
    return {
        "settings": settings_frame(one, other),
        "differences": differences_frame(one.rows, other.rows, paired=paired),
        "paired": paired,
    }


def settings_frame(first: RunRecord, second: RunRecord) -> pd.DataFrame:
    """List the settings, versions and machines in which two runs differ, as text.

    Methods are compared under their labels, whatever their order; of a method that only one run
    has, the name is listed.
    """
    told = [_told(run) for run in (first, second)]
    methods = [study_methods(run.study.get("methods") or ()) for run in (first, second)]
    for text, own, others in zip(told, methods, reversed(methods), strict=True):
        for label, entry in own.items():
            both = label in others
            text |= _flat(entry if both else entry.get("name"), f"methods.{label}")
    one, other = told
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    rows = [(key, one.get(key, ""), other.get(key, "")) for key in keys]
    return pd.DataFrame(rows, columns=["setting", "first", "second"])


def differences_frame(
    first: pd.DataFrame, second: pd.DataFrame, *, paired: bool = True
) -> pd.DataFrame:
    """Error of every model in the second run minus that in the first, by seed and over seeds.

    Columns ``label predictor group shift severity seed first second difference lower upper
    n_clients n_seeds``.  Unless ``paired``, client ids mean other clients in each: then means are
    compared and there is no interval.  ``seed`` is -1 for all common seeds together, over which
    each client is averaged; ``lower`` and ``upper`` are the 95% t-interval over clients.  Where
    ``difference`` is positive the second run is worse.
    """
    keys = [*MODEL, "group", *CONDITION]
    parts = []
    for by in ([*keys, "seed"], keys):
        one, other = (_common(a, b) for a, b in ((first, second), (second, first)))
        if paired:
            both = one.merge(other, on=[*keys, "seed", "client"], suffixes=("_1", "_2"))
            both = both.groupby([*by, "client"], dropna=False)[["error_1", "error_2"]].mean()
            both = both.reset_index()
        else:
            both = pd.concat(
                [
                    one.rename(columns={"error": "error_1"}),
                    other.rename(columns={"error": "error_2"}),
                ]
            )
        both["gone"] = both["error_2"] - both["error_1"]
        groups = both.groupby(by, dropna=False)
        frame = groups[["error_1", "error_2"]].mean()
        frame.columns = ["first", "second"]
        frame["difference"] = frame["second"] - frame["first"]
        half = groups["gone"].agg(half_width) if paired else float("nan")
        frame["lower"], frame["upper"] = frame["difference"] - half, frame["difference"] + half
        frame["n_clients"] = groups["client"].nunique()
        frame = frame.reset_index()
        seeds = one.groupby(keys, dropna=False)["seed"].nunique().rename("n_seeds").reset_index()
        if "seed" in by:
            frame["n_seeds"] = 1
        else:
            frame = frame.merge(seeds, on=keys).assign(seed=-1)
        parts.append(frame)
    columns = ["seed", "first", "second", "difference", "lower", "upper", "n_clients", "n_seeds"]
    return pd.concat(parts, ignore_index=True)[[*keys, *columns]]


def _common(rows: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Errors of the models, seeds and conditions that the other run has too."""
    keys = [*MODEL, "group", *CONDITION, "seed"]
    there = client_errors(others)[keys].drop_duplicates()
    return client_errors(rows)[[*keys, "client", "error"]].merge(there, on=keys)


def _told(run: RunRecord) -> dict[str, str]:
    study = {name: value for name, value in run.study.items() if name != "methods"}
    about = ("git_commit", "device", "python", "versions")
    return _flat(study) | _flat({name: run.env.get(name) for name in about}, "made with")


def _flat(value: Any, key: str = "") -> dict[str, str]:
    return {name: str(one) for name, one in dotted(value, key).items() if one is not None}
