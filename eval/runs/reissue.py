"""Certificates of held-out clients issued anew from a finished run's scores, nothing trained.

A score is made once; what may be said of it changes when a proof is mended or a better rule is
found.  The old run stays as it is, and what comes out is a directory of its own, in which every
certificate whose entry was not declared before the scores existed is marked as no proof: a rule
that was chosen after looking holds at its delta only if the choice owes nothing to these scores,
which no program can know.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from latecomer.eval.certificates.rules import sampling_of
from latecomer.eval.errors import InputError
from latecomer.eval.files import write_atomic
from latecomer.eval.jobs.cell_directory import seal
from latecomer.eval.results.artifacts import Artifact, read_artifact, write_artifact
from latecomer.eval.results.kept_cells import cells_of, run_folder
from latecomer.eval.results.rows import COLUMNS, make_row, read_records, rows_to_text
from latecomer.eval.routes.caveats import unproven
from latecomer.eval.routes.entries import HeldOut
from latecomer.eval.routes.r0_held_out import Drawn, issue_certificates
from latecomer.eval.runs.provenance import environment
from latecomer.eval.scoring.scores_from_rows import Scores, scores_of
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.declaration import read_yaml
from latecomer.eval.studies.settings import Study

__all__ = ["LATE", "MARK", "Reissued", "declared_entries", "reissue"]

MARK = "reissued.json"
"""The file that says of a directory that its certificates were issued anew, and from what."""
LATE = (
    "declared after these scores existed: it holds at its delta only if the choice of the rule and "
    "of its settings owes nothing to them"
)
"""Why a certificate that was declared late is no proof."""
ROUTE = "r0:"
TABLE = Path("tables") / "reissued.csv"

Row = dict[str, Any]


@dataclass(frozen=True)
class Reissued:
    """What came out.

    Attributes
    ----------
    path : Path
        The new run directory.
    table : pandas.DataFrame
        ``label seed predictor shift severity bound delta n_clients pool mean_error before now
        others declared``: a row a certificate of a mean; ``before`` is what the old run says of
        the same bound, NaN where it has none, ``others`` what a pool's leaves for the clients that
        were not scored.
    n_late : int
        Entries that were declared after the scores existed.
    """

    path: Path
    table: pd.DataFrame
    n_late: int


@dataclass(frozen=True)
class _Source:
    """A finished run: its study, its rows as text, and which entries were late already."""

    path: Path
    study: dict[str, Any]
    rows: list[dict[str, str]]
    late: list[Any]


@dataclass(frozen=True)
class _Plan:
    """What is issued: the new study, and which of its held-out entries were declared late."""

    study: Study
    resolved: dict[str, Any]
    late: list[dict[str, Any]]

    @property
    def issued(self) -> Iterator[tuple[HeldOut, dict[str, Any]]]:
        """The held-out entries, each with what it says as plain data."""
        plain = self.resolved["certificates"]
        for entry, said in zip(self.study.certificates, plain, strict=True):
            if isinstance(entry, HeldOut):
                yield entry, said


def declared_entries(path: str | Path) -> list[dict[str, Any]]:
    """Read the certificates that a YAML file declares, a study or nothing but ``certificates``.

    Raises
    ------
    InputError
        The file cannot be read, or declares none.
    """
    try:
        raw = read_yaml(Path(path).read_text("utf-8"), str(path))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    entries = raw.get("certificates")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path} declares no certificates: a list under the key certificates")
    return [dict(entry) if isinstance(entry, dict) else entry for entry in entries]


def reissue(
    source: str | Path,
    entries: Sequence[Mapping[str, Any]],
    *,
    out: str | Path,
    note: str = "",
) -> Reissued:
    """Issue a finished run's held-out certificates anew, from the scores in its rows.

    Certificates of other routes, and all other rows, stay as they are.

    Parameters
    ----------
    source : str or Path
        Run directory with ``study.yaml`` and ``rows.csv``; it is only read.
    entries : sequence of mapping
        Entries of ``certificates``, of route ``r0`` (others are left out).
    out : str or Path
        The new directory, which must not exist or be empty.
    note : str
        Why these entries and no others, to stand beside them.

    Raises
    ------
    InputError
        When the run is not finished, its scores were made under other settings (folds, shifts,
        draws of a randomised predictor), or how its clients were drawn is not known.
    """
    there, folder = _read(Path(source)), Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already: certificates are re-issued to a new --out")
    plan = _planned(there, entries)
    models = _models(there)
    drawn = _drawn(there, plan, models)
    issued = {cell: _issued(plan, there, cell, scores, drawn) for cell, scores in models.items()}
    kept = [row for row in there.rows if not _held_out(row)]
    rows = [*kept, *(row for new, _, _ in issued.values() for row in new)]
    table = _compared(there, rows, plan)
    _write(folder, there, plan, rows, issued, note)
    write_atomic(folder / TABLE, table.to_csv(index=False, lineterminator="\n"))
    return Reissued(folder, table, len(plan.late))


def _read(path: Path) -> _Source:
    run_folder(path)
    if not (path / "rows.csv").is_file():
        raise InputError(f"{path} holds an unfinished run: its scores are not all there")
    try:
        study = yaml.safe_load((path / "study.yaml").read_text("utf-8"))
        mark = path / MARK
        late = json.loads(mark.read_text("utf-8"))["declared_late"] if mark.is_file() else []
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise InputError(f"{path} holds a damaged run: {' '.join(str(error).split())}") from None
    records = read_records(path / "rows.csv")
    rows = [dict(zip(COLUMNS, record, strict=True)) for record in records]
    return _Source(path, study, rows, late)


def _planned(there: _Source, entries: Sequence[Mapping[str, Any]]) -> _Plan:
    """Check the new entries against the old study, and say which of them are late."""
    asked = [dict(entry) for entry in entries if dict(entry).get("route", "r0") == "r0"]
    if not asked:
        raise InputError("only certificates of route r0 can be re-issued, and none is declared")
    old = there.study.get("certificates") or []
    others = [entry for entry in old if entry.get("route") != "r0"]
    before = [entry for entry in old if entry.get("route") == "r0"]
    study = parse_study({**there.study, "certificates": [*asked, *others]})
    plan = _Plan(study, study.resolved(), [])
    folds = {int(entry.get("folds", 1)) for entry in before} or {1}
    for index, (entry, _) in enumerate(plan.issued):
        if {entry.folds} != folds:
            raise InputError(
                f"certificates.{index}.folds must be {min(folds)}, with which these scores were "
                f"made, got {entry.folds}"
            )
    said = (said for _, said in plan.issued)
    late = [one for one in said if one not in before or one in there.late]
    return replace(plan, late=late)


def _models(there: _Source) -> dict[str, Scores]:
    """Return the scores of every cell that scored certification clients."""
    by_cell: dict[str, list[dict[str, str]]] = {}
    for row in there.rows:
        by_cell.setdefault(row["cell"], []).append(row)
    scored = {cell: scores_of(rows) for cell, rows in by_cell.items()}
    models = {cell: scores for cell, scores in scored.items() if scores}
    if not models:
        raise InputError(f"{there.path} holds no scores of certification clients")
    return models


def _drawn(there: _Source, plan: _Plan, models: Mapping[str, Scores]) -> Drawn:
    """Say how the clients were drawn, and refuse scores that the entries do not fit."""
    kind = str(there.study["split"]["kind"])
    if kind == "frozen":
        raise InputError(
            "a frozen split cannot be re-issued: no row says how its clients were dealt"
        )
    sizes = {_n_clients(scores) for scores in models.values()}
    if len(sizes) > 1:
        raise InputError(f"models have different numbers of certification clients: {sorted(sizes)}")
    names = {row["client"] for row in there.rows if row["group"] == "novel" and row["client"]}
    untrained = {row["client"] for row in there.rows if _unshifted_novel(row)}
    if names and not untrained:
        raise InputError(f"{there.path} holds no unshifted novel clients to count")
    predictors = {predictor for scores in models.values() for predictor in scores}
    for index, (entry, _) in enumerate(plan.issued):
        entry.check_predictors(f"certificates.{index}", kind, sorted(predictors))
        for shift in entry.certified_shifts:
            conditions = [one for own in models.values() for each in own.values() for one in each]
            if shift not in {one.shift for one in conditions}:
                raise InputError(f"certification clients were not scored under shift {shift}")
    sampling = sampling_of(kind)
    return Drawn(sampling, sizes.pop() + len(untrained), _left_out(there, kind))


def _n_clients(scores: Scores) -> int:
    return len(next(iter(next(iter(scores.values())).values())))


def _unshifted_novel(row: Mapping[str, str]) -> bool:
    named = row["group"] == "novel" and row["metric"] == "error" and bool(row["client"])
    return named and row["shift"] in ("", "none")


def _left_out(there: _Source, kind: str) -> int:
    """Return how many clients of the data the split left out, as the old certificates say."""
    told = [
        int(float(row["value"]))
        for row in there.rows
        if row["metric"] == "certificate_pool" and row["term"] == "left_out"
    ]
    known = any(row["metric"] == "certificate_pool" for row in there.rows)
    if kind == "natural" and there.study["split"].get("min_samples") and not known:
        raise InputError(
            "split.min_samples may have left natural clients out, and these rows do not say how "
            "many: run the study anew, with --adopt for what is finished"
        )
    return max(told, default=0)


def _held_out(row: Mapping[str, Any]) -> bool:
    return str(row["bound"]).startswith(ROUTE)


def _issued(
    plan: _Plan, there: _Source, cell: str, scores: Scores, drawn: Drawn
) -> tuple[list[Row], list[Row], dict[str, list[Row]]]:
    """Return rows, facts and curves of one trained model's certificates."""
    first = next(row for row in there.rows if row["cell"] == cell and row["group"])
    named = (
        *("study", "cell", "dataset", "split", "split_seed", "method", "label"),
        *("personalization", "seed", "round"),
    )
    about = {name: first[name] for name in named} | {"status": "done"}
    about["version"] = metadata.version("latecomer")
    classes, seeds = plan.study.evaluation.classes, len(plan.study.seeds)
    rows: list[Row] = []
    facts: list[Row] = []
    curves: dict[str, list[Row]] = {"error_curve": [], "population_curve": []}
    for entry, said in plan.issued:
        findings = issue_certificates(
            entry, scores, drawn=drawn, classes=classes, n_seeds=entry.sharing(seeds)
        )
        own, told = findings.rows, findings.facts
        if said in plan.late:
            own, told = unproven(own, told, LATE)
        rows += [make_row(**{**about, **row}) for row in own]
        facts += told
        for kind, table in findings.tables.items():
            curves[kind] += table
    return rows, facts, curves


def _compared(there: _Source, rows: Sequence[Row], plan: _Plan) -> pd.DataFrame:
    """Set every certificate of a mean beside what the old run says of the same bound."""
    keys = ("label", "seed", "predictor", "shift", "severity", "bound", "delta")

    def key(row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(f"{float(row[k]):.12g}" if k == "delta" else str(row[k]) for k in keys)

    def totals(given: Sequence[Mapping[str, Any]], metric: str, term: str) -> dict[Any, float]:
        return {
            key(row): float(row["value"])
            for row in given
            if _held_out(row) and row["metric"] == metric and row["term"] == term
        }

    old = totals(there.rows, "certificate", "")
    means, others, sizes = (
        totals(rows, *which)
        for which in (
            ("certificate", "empirical_risk"),
            ("certificate_pool", "others"),
            ("certificate_pool", "size"),
        )
    )
    late = {f"{ROUTE}{entry['rule']}" for entry in plan.late}
    nothing = float("nan")
    lines = [
        dict(zip(keys, key(row), strict=True))
        | {
            "n_clients": row["n_clients"],
            "pool": sizes.get(key(row), nothing),
            "mean_error": means[key(row)],
            "before": old.get(key(row), nothing),
            "now": float(row["value"]),
            "others": others.get(key(row), nothing),
            "declared": "after the scores" if row["bound"].split("@")[0] in late else "before",
        }
        for row in rows
        if _held_out(row) and row["metric"] == "certificate" and row["term"] == ""
        if key(row) in means
    ]
    return pd.DataFrame(lines).sort_values(["label", "seed", "predictor"], kind="stable")


def _write(
    folder: Path,
    there: _Source,
    plan: _Plan,
    rows: Sequence[Row],
    issued: Mapping[str, tuple[list[Row], list[Row], dict[str, list[Row]]]],
    note: str,
) -> None:
    """Write the new run directory; ``study.yaml``, which makes it one, comes last."""
    mark = {
        "from": there.path.resolve().name,
        "rows_sha256": sha256((there.path / "rows.csv").read_bytes()).hexdigest(),
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
    text = yaml.safe_dump(plan.resolved, sort_keys=False, allow_unicode=True)
    write_atomic(folder / "study.yaml", text)


def _copy_others(folder: Path, there: _Source, issued: list[str]) -> list[str]:
    """Copy the cells without such certificates as they are; return all, in the old order."""
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
    there: _Source,
    plan: _Plan,
    cell: str,
    rows: Sequence[Row],
    facts: Sequence[Row],
    curves: Mapping[str, Sequence[Row]],
) -> None:
    """Write what a report reads of one cell; its configuration is no cell's of any study."""
    place, old = folder / "cells" / cell, cells_of(there.path) / cell
    if (old / "artifacts").is_dir():
        shutil.copytree(old / "artifacts", place / "artifacts")
    if (old / "timing.json").is_file():
        write_atomic(place / "timing.json", (old / "timing.json").read_bytes())
    own = [row for row in rows if row["cell"] == cell]
    kept = [fact for fact in _facts(place) if not _held_out(fact)]
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
