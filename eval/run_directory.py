"""The files of a run directory around its cells: what it declares, what it adds up."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from latecomer.eval.cells import Cell
from latecomer.eval.errors import InputError
from latecomer.eval.files import write_atomic
from latecomer.eval.provenance import environment
from latecomer.eval.rows import COLUMNS, read_records, write_rows
from latecomer.eval.study import Study
from latecomer.eval.work import Job, is_done

__all__ = ["check_directory", "count_scorings", "declare", "merge"]


def check_directory(folder: Path, study: Study) -> None:
    """Refuse a directory that holds another study, or that is no run directory.

    Raises
    ------
    InputError
        With one line a key where the studies differ.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, not a run directory")
    declared = folder / "study.yaml"
    if not declared.is_file():
        if any(not entry.name.endswith(".tmp") for entry in folder.iterdir()):
            raise InputError(
                f"{folder} holds other files and is no run directory: use another --out"
            )
        return
    try:
        there = yaml.safe_load(declared.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        raise InputError(f"{declared} is damaged: use another --out") from None
    old, new = _flat(there), _flat(study.resolved())
    differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    if differing:
        lines = [
            f"  {key}: {old.get(key, 'nothing')} there, {new.get(key, 'nothing')} asked for"
            for key in differing
        ]
        raise InputError("\n".join([f"{folder} holds another study: use another --out", *lines]))


def _flat(value: Any, key: str = "") -> dict[str, str]:
    """Dotted keys to values as text."""
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


def declare(folder: Path, study: Study, cells: Sequence[Cell], *, fresh: bool) -> None:
    """Write ``study.yaml``, ``cells.json`` and, when there is work to do, ``env.json``."""
    resolved = yaml.safe_dump(study.resolved(), sort_keys=False, allow_unicode=True)
    write_atomic(folder / "study.yaml", resolved)
    index = {"cells": [cell.id for cell in cells]}
    write_atomic(folder / "cells.json", json.dumps(index, indent=1) + "\n")
    if fresh:
        write_atomic(folder / "env.json", json.dumps(environment(), indent=1) + "\n")


def merge(folder: Path, jobs: Sequence[Job]) -> None:
    """Write ``rows.csv`` from the rows of every cell, failed ones included."""
    records = [record for job in jobs for record in read_records(job.folder / "rows.csv")]
    write_rows(folder / "rows.csv", (dict(zip(COLUMNS, r, strict=True)) for r in records))


def count_scorings(
    folder: Path, jobs: Sequence[Job], split_hash: str, n_certification: int
) -> None:
    """List in ``certification.jsonl`` each model that was scored on the certification clients.

    Rules and models chosen after looking at these scores would void the certificates, so the file
    only grows.
    """
    path = folder / "certification.jsonl"
    before = path.read_text("utf-8").splitlines() if path.is_file() else []
    entries = [json.loads(line) for line in before]
    known = {(entry["split"], entry["cell"]) for entry in entries}
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
            "times": times,
        }
        before.append(json.dumps(entry))
    if before:
        write_atomic(path, "\n".join(before) + "\n")
