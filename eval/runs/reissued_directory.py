"""A run directory that holds certificates issued anew."""

import json
import shutil
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from latecomer.eval.results.artifacts import Artifact, read_artifact, write_artifact
from latecomer.eval.results.kept_cells import cells_of, rows_content, rows_file
from latecomer.eval.results.rows import rows_to_text
from latecomer.eval.runs.cell_directory import seal
from latecomer.eval.runs.provenance import environment
from latecomer.eval.runs.reissue_source import MARK, Plan, Source, held_out
from latecomer.files import write_atomic
from latecomer.reading.yaml_text import write_yaml

LATE = (
    "declared after these scores existed: it holds at its delta only if the choice of the rule and "
    "of its settings owes nothing to them"
)
"""Why a certificate that was declared late is no proof."""
Row = dict[str, Any]
Issued = tuple[list[Row], list[Row], dict[str, list[Row]]]
"""Rows, facts and curves of one trained model's certificates."""


def write_reissued(
    folder: Path,
    there: Source,
    plan: Plan,
    rows: Sequence[Row],
    issued: Mapping[str, Issued],
    note: str,
) -> None:
    """Write the new run directory; ``study.yaml``, which makes it a run directory, comes last."""
    mark = {
        "from": there.path.resolve().name,
        "rows_sha256": sha256(rows_content(rows_file(there.path))).hexdigest(),
        "declared_late": plan.late,
        "late": LATE if plan.late else "",
        "note": note,
        "made_with": environment(),
    }
    for cell, (_, facts, curves) in issued.items():
        _write_cell(folder, there, plan, cell, rows, facts, curves)
    for name in ("env.json", "certification.jsonl"):
        if (there.path / name).is_file():
            write_atomic(folder / name, (there.path / name).read_bytes())
    names = _copy_others(folder, there, list(issued))
    write_atomic(folder / "cells.json", json.dumps({"cells": names, "about": {}}, indent=1) + "\n")
    write_atomic(folder / "rows.csv", rows_to_text(rows))
    write_atomic(folder / MARK, json.dumps(mark, indent=1) + "\n")
    text = write_yaml(plan.resolved)
    write_atomic(folder / "study.yaml", text)


def _copy_others(folder: Path, there: Source, issued: list[str]) -> list[str]:
    """Copy cells without new certificates unchanged; return all cells' names, in the old order."""
    added = []
    for place in sorted(cells_of(there.path).glob("*/done")):
        name = place.parent.name
        if name not in issued:
            passing = shutil.ignore_patterns("checkpoints", "lock.*")
            shutil.copytree(place.parent, folder / "cells" / name, ignore=passing)
            added.append(name)
    index = there.path / "cells.json"
    order = json.loads(index.read_text("utf-8"))["cells"] if index.is_file() else []
    everyone = [*issued, *added]
    return [*(name for name in order if name in everyone), *sorted(set(everyone) - set(order))]


def _write_cell(
    folder: Path,
    there: Source,
    plan: Plan,
    cell: str,
    rows: Sequence[Row],
    facts: Sequence[Row],
    curves: Mapping[str, Sequence[Row]],
) -> None:
    """Write what a report reads of one cell; its configuration matches no cell of any study."""
    place, old = folder / "cells" / cell, cells_of(there.path) / cell
    if (old / "artifacts").is_dir():
        shutil.copytree(old / "artifacts", place / "artifacts")
    if (old / "timing.json").is_file():
        write_atomic(place / "timing.json", (old / "timing.json").read_bytes())
    own = [row for row in rows if row["cell"] == cell]
    kept = [fact for fact in _facts(place) if not held_out(fact)]
    tables = {"certificates": ([*facts, *kept], "fact")}
    tables |= {kind: (list(table), "record") for kind, table in curves.items()}
    for name, (table, axis) in tables.items():
        for left in (place / "artifacts").glob(f"{name}.*"):
            left.unlink()
        if table:
            made = Artifact(kind=name, table=table, axes=(axis,))
            write_artifact(place / "artifacts", name, made)
    names = ("study", "data", "split", "shifts", "model", "train", "evaluation", "bounds")
    method = next(m for m in plan.resolved["methods"] if m["label"] == own[0]["label"])
    config = {name: plan.resolved[name] for name in names} | {
        "kind": "method",
        "method": method,
        "certificates": [said for _, said in plan.issued],
        "seed": int(own[0]["seed"]),
        "reissued": True,
    }
    write_atomic(place / "config.json", json.dumps(config, indent=1) + "\n")
    text = rows_to_text(own)
    write_atomic(place / "rows.csv", text)
    write_atomic(place / "done", seal(text.encode("utf-8")))


def _facts(place: Path) -> list[Row]:
    file = place / "artifacts" / "certificates.csv"
    return [dict(fact) for fact in (read_artifact(file).table or ())] if file.is_file() else []
