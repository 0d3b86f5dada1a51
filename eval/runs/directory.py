"""The files of a run directory beside its cells: what is declared, and the rows of all cells."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from latecomer.checks import named_files, output_files, output_folder
from latecomer.errors import InputError
from latecomer.eval.results.kept_cells import declared_study
from latecomer.eval.results.rows import COLUMNS, read_records, rows_to_text
from latecomer.eval.runs.cell_directory import is_done
from latecomer.eval.runs.job import Job
from latecomer.eval.runs.provenance import environment
from latecomer.eval.studies.cells import Cell, without_folders
from latecomer.eval.studies.settings import Study
from latecomer.files import make_new, write_atomic, write_changed
from latecomer.models.methods import METHODS, find_method
from latecomer.reading.yaml_text import write_yaml

WRITTEN = (
    *("study.yaml", "cells.json", "env.json", "rows.csv", "certification.jsonl"),
    "finished.json",
)
"""What a run writes beside its cells and its report."""


def check_directory(folder: Path, study: Study, *, extend: bool = False) -> None:
    """Refuse a directory that holds another study, or that is no run directory.

    Files whose content ids hold may have moved: it decides which cells are done.

    Parameters
    ----------
    folder : Path
        The run directory, which need not exist.
    study : Study
        The study that is asked for.
    extend : bool
        Allow further methods, seeds and shifts; nothing may be taken away or changed.

    Raises
    ------
    InputError
        With one line per key in which the studies differ; for a path that is no folder, or whose
        files are links to data.
    """
    output_folder("--out", folder)
    if not folder.exists():
        return
    if (folder / "reissued.json").is_file():
        raise InputError(
            f"{folder} holds certificates re-issued from the scores of another run: nothing is "
            "trained there, use another --out"
        )
    output_files(folder, WRITTEN, named_files(study.resolved()))
    declared = folder / "study.yaml"
    if not declared.is_file():
        if any(not entry.name.endswith(".tmp") for entry in folder.iterdir()):
            raise InputError(
                f"{folder} holds other files and is no run directory: use another --out"
            )
        return
    advice = f"use another --out, with --adopt {folder} to keep what is finished"
    try:
        there = without_folders(declared_study(folder))
    except (InputError, UnicodeDecodeError):
        raise InputError(f"{declared} is damaged: {advice}") from None
    asked = without_folders(study.resolved())
    differing = _differing(there, asked)
    changed = _differing(there, _without_additions(there, asked))
    if differing and (changed or not extend):
        advice = "" if changed else ", or --extend to add to this one"
        refused = "--extend adds methods, seeds and shifts and changes nothing else"
        first = f"{folder} holds another study: use another --out{advice}"
        raise InputError("; ".join([f"{first} ({refused})" if extend else first, *differing]))


# Settings that a resolved study leaves out when they have their original value.
_UNSAID = {"train.device": '"cpu"', "train.precision": '"float32"'}
# Keys that describe a study and affect no number: they may be reworded between two starts.
_WORDS = ("question", "note", "scale", "paper")


def _differing(there: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    old, new = _UNSAID | _flat(there), _UNSAID | _flat(asked)
    return [
        f"{key}: {old.get(key, 'nothing')} there, {new.get(key, 'nothing')} asked for"
        for key in {**old, **new}
        if old.get(key) != new.get(key) and key not in _WORDS
    ]


def _without_additions(there: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the methods, seeds and shifts that the directory lacks; put the rest in its order."""
    labelled = {method["label"]: method for method in asked["methods"]}
    methods = [
        labelled[method["label"]]
        for method in there.get("methods") or ()
        if method["label"] in labelled
    ]
    seeds = [seed for seed in there.get("seeds") or () if seed in asked["seeds"]]
    shifts = {
        name: [entry for entry in (there.get("shifts") or {}).get(name) or () if entry in entries]
        for name, entries in asked["shifts"].items()
    }
    return {**asked, "methods": methods, "seeds": seeds, "shifts": shifts}


def _flat(value: Any, key: str = "") -> dict[str, str]:
    """Map dotted keys to values as text."""
    inside: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        inside = list(value.items())
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        inside = list(enumerate(value))
    if not inside:
        return {key: json.dumps(value, default=str)}
    flat: dict[str, str] = {}
    for name, item in inside:
        flat |= _flat(item, f"{key}.{name}" if key else str(name))
    return flat


def declare(folder: Path, study: Study, cells: Sequence[Cell], *, extend: bool = False) -> None:
    """Write ``study.yaml`` and ``cells.json``, which make a folder this study's run directory.

    Another run may have begun there since `check_directory` looked: its study is compared again,
    and of two that begin at once one is the first.

    Raises
    ------
    InputError
        As `check_directory`; nothing is then written.
    """
    resolved, declared = write_yaml(study.resolved()), folder / "study.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    # Looked for first: where all is done already, nothing need be writable.
    if declared.exists() or not make_new(declared, resolved.encode("utf-8")):
        check_directory(folder, study, extend=extend)
        write_changed(declared, resolved)
    about = {
        cell.id: {"label": cell.label, "seed": cell.seed, "rounds": cell.rounds} for cell in cells
    }
    index = {"cells": [cell.id for cell in cells], "about": about}
    write_changed(folder / "cells.json", json.dumps(index, indent=1) + "\n")


def write_environment(folder: Path, study: Study, found: Mapping[str, Any]) -> None:
    """Write ``env.json``: the machine, and what was ``found`` of the data and the network.

    That is ``copies``, counts of samples that several clients hold, and ``network``, what
    ``model.target: auto`` stands for.
    """
    about_here = environment(study.train.device) | _told_outside(study) | dict(found)
    write_atomic(folder / "env.json", json.dumps(about_here, indent=1) + "\n")


def _told_outside(study: Study) -> dict[str, Any]:
    """Return whom methods of other packages cite: a report may be made without those packages."""
    named = [method.name for method in study.methods if method.name not in METHODS]
    cited = {one.name: list(one.cites) for one in map(find_method, named) if one.cites}
    return {"cites": cited} if cited else {}


def merge(folder: Path, jobs: Sequence[Job]) -> None:
    """Write ``rows.csv`` from the rows of every cell, failed ones included."""
    records = [record for job in jobs for record in read_records(job.folder / "rows.csv")]
    text = rows_to_text(dict(zip(COLUMNS, record, strict=True)) for record in records)
    write_changed(folder / "rows.csv", text)


def count_scorings(
    folder: Path, jobs: Sequence[Job], split_hash: str, n_certification: int
) -> None:
    """List in ``certification.jsonl`` each model that was scored on the held-out clients.

    Rules and models chosen after looking at these scores would void the certificates, so the file
    only grows.
    """
    path = folder / "certification.jsonl"
    before = path.read_text("utf-8").splitlines() if path.is_file() else []
    try:
        entries = [json.loads(line) for line in before]
        known = {(entry["split"], entry["cell"]) for entry in entries}
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is damaged, and what it counted is lost: move it away, "
            "and say so beside the certificates"
        ) from None
    times = sum(entry["split"] == split_hash for entry in entries)
    for job in jobs:
        own = job.cell.config.get("certificates") or [{}]
        n_scored = n_certification if job.cell.kind == "method" else own[0].get("clients", 0)
        if not n_scored or not is_done(job.folder) or (split_hash, job.cell.id) in known:
            continue
        times += 1
        entry = {
            "split": split_hash,
            "cell": job.cell.id,
            "label": job.cell.label,
            "seed": job.cell.seed,
            "n_clients": n_scored,
            "systems": _systems(job),
            "times": times,
        }
        before.append(json.dumps(entry))
    if before:
        write_changed(path, "\n".join(before) + "\n")


def _systems(job: Job) -> int:
    """Count the systems that a cell certified: its model, by each way of predicting."""
    metric, predictor = COLUMNS.index("metric"), COLUMNS.index("predictor")
    told = read_records(job.folder / "rows.csv")
    return len({row[predictor] for row in told if row[metric] == "certificate"}) or 1
