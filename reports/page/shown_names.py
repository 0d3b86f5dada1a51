"""Names that reports give methods whose plain name would promise too much."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from latecomer.eval.results.rows import RunRecord
from latecomer.reports.words import shown_names


def under_shown_names(run: RunRecord) -> RunRecord:
    """Return the run with methods of ``shown_names`` under the names they are shown by.

    Models whose label is their method's plain name are renamed, and so are those trained beside
    them (``fedma r1:tuned``); a label that the study gave stays. The run directory is not touched.

    Parameters
    ----------
    run : RunRecord

    Returns
    -------
    RunRecord
        The same object where there is nothing to rename.
    """
    rows, methods = run.rows, list(run.study.get("methods") or ())
    own = rows["method"].isin(list(shown_names()))
    entries = [_entry(one) for one in methods]
    if not own.any() and not any(one["name"] in shown_names() for one in entries):
        return run
    given = {one["label"] for one in entries if one["label"] != one["name"]}
    shown = [
        shown_name(str(method), str(label), given)
        for method, label in rows.loc[own, ["method", "label"]].itertuples(index=False)
    ]
    rows = rows.copy()
    rows.loc[own, "label"] = shown
    methods = [
        {**entry, "label": shown_name(entry["name"], entry["label"], given)}
        if entry["name"] in shown_names()
        else one
        for one, entry in zip(methods, entries, strict=True)
    ]
    cells = tuple(replace(cell, config=_renamed(cell.config, given)) for cell in run.cells)
    return replace(run, rows=rows, cells=cells, study={**run.study, "methods": methods})


def shown_name(method: str, label: str, given: set[str]) -> str:
    """Return what a label of a method is shown as; labels that a study gave stay.

    >>> shown_name("fedma", "fedma", set()), shown_name("fedma", "fedma, all clients", set())
    ('FedMA (one-shot matching)', 'FedMA (one-shot matching), all clients')
    >>> shown_name("fedma", "fedma of ours", {"fedma of ours"}), shown_name("pefll", "a", set())
    ('fedma of ours', 'a')
    """
    beside = label.removeprefix(method)
    if method not in shown_names() or label in given or not label.startswith(method):
        return label
    return shown_names()[method] + beside if beside[:1] in ("", " ", ",") else label


def _entry(method: Any) -> dict[str, Any]:
    """Return a study's method as its settings, with name and label."""
    told = dict(method) if isinstance(method, Mapping) else {"name": method}
    name = str(told["name"])
    return {**told, "name": name, "label": str(told.get("label") or name)}


def _renamed(config: dict[str, Any], given: set[str]) -> dict[str, Any]:
    method = config.get("method")
    if not isinstance(method, Mapping) or method.get("name") not in shown_names():
        return config
    name = str(method["name"])
    changed: dict[str, Any] = {
        "method": {**method, "label": shown_name(name, str(method["label"]), given)}
    }
    if "of" in config:
        changed["of"] = shown_name(name, str(config["of"]), given)
    return {**config, **changed}
