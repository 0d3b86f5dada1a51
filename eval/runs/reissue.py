"""Certificates of held-out clients issued anew from a finished run's scores, nothing trained.

A score is made once; what it proves changes when a proof is corrected or a better rule is found.
The old run stays as it is; the result is a new directory, in which every certificate whose entry
was not declared before the scores existed is marked as no proof: a rule that was chosen after
looking holds at its delta only if the choice does not depend on these scores, which no program can
know.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from latecomer.certify.rule import RULE_WITHOUT_ORDERS, RULES
from latecomer.checks import as_path, output_folder, short
from latecomer.errors import InputError
from latecomer.eval.results.kept_cells import (
    cells_of,
    declared_study,
    rows_content,
    rows_file,
    run_folder,
)
from latecomer.eval.results.rows import (
    COLUMNS,
    Artifact,
    load_run,
    make_row,
    read_artifact,
    read_records,
    rows_to_text,
    write_artifact,
)
from latecomer.eval.routes.contract import assumed, unproven, vouched_for
from latecomer.eval.routes.kinds.r0 import HeldOut
from latecomer.eval.routes.r0_held_out import Drawn, issue_certificates
from latecomer.eval.runs.cell_directory import seal, tidy
from latecomer.eval.runs.directory import environment
from latecomer.eval.runs.lock import LOCKS, held_in_turn
from latecomer.eval.scoring.scores import Scores, scores_of
from latecomer.eval.splits.registry import sampling_of
from latecomer.eval.splits.split import novel_alike
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.settings import Study
from latecomer.eval.studies.shipped import read_yaml
from latecomer.files import content_of, write_atomic
from latecomer.reading.yaml_text import write_yaml

__all__ = ["LATE", "MARK", "Reissued", "declared_entries", "reissue"]

MARK = "reissued.json"
"""The file that says that a directory's certificates were issued anew, and from what."""
ROUTE = "r0:"
"""Prefix of the names of their bounds."""


@dataclass(frozen=True)
class Source:
    """A finished run: its study, its rows as text, and which entries were late already."""

    path: Path
    study: dict[str, Any]
    rows: list[dict[str, str]]
    late: list[Any]


@dataclass(frozen=True)
class Plan:
    """What is issued: the new study, and which of its held-out entries were declared late."""

    study: Study
    resolved: dict[str, Any]
    late: list[dict[str, Any]]

    @property
    def issued(self) -> Iterator[tuple[HeldOut, dict[str, Any]]]:
        """The held-out entries, each with its settings as plain data."""
        plain = self.resolved["certificates"]
        for entry, said in zip(self.study.certificates, plain, strict=True):
            if isinstance(entry, HeldOut):
                yield entry, said


def declared_entries(path: str | Path) -> list[dict[str, Any]]:
    """Read the certificates that a YAML file declares, a study or nothing but ``certificates``."""
    try:
        raw = read_yaml(content_of(path), str(path))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    entries = raw.get("certificates")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path} declares no certificates: a list under the key certificates")
    return [dict(entry) if isinstance(entry, dict) else entry for entry in entries]


def read_source(path: Path) -> Source:
    """Read a finished run."""
    run_folder(path)
    if not rows_file(path).is_file():
        raise InputError(f"{path} holds an unfinished run: its scores are not all there")
    try:
        study = declared_study(path)
        mark = path / MARK
        late = json.loads(mark.read_text("utf-8"))["declared_late"] if mark.is_file() else []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds a damaged run: {' '.join(str(error).split())}") from None
    load_run(path)  # refuses rows that are not those of the cells
    records = read_records(rows_file(path))
    rows = [dict(zip(COLUMNS, record, strict=True)) for record in records]
    return Source(path, study, rows, late)


def planned(there: Source, entries: Sequence[Mapping[str, Any]]) -> Plan:
    """Check the new entries against the old study, and say which of them are late."""
    for index, declared in enumerate(entries):
        if not isinstance(declared, Mapping):
            told = f"a mapping of keys to values, got {short(declared)}"
            raise InputError(f"certificates.{index} must be {told}")
    asked = [dict(entry) for entry in entries if dict(entry).get("route", "r0") == "r0"]
    if there.study["split"]["kind"] == "natural":
        # Rows list natural clients by their ids, so that no order of theirs is random.
        by_default = {"rule": RULE_WITHOUT_ORDERS}
        asked = [one if one.keys() & {"rule", "best_of"} else one | by_default for one in asked]
    if not asked:
        raise InputError("only certificates of route r0 can be re-issued, and none is declared")
    old = there.study.get("certificates") or []
    others = [entry for entry in old if entry.get("route") != "r0"]
    before = [entry for entry in old if entry.get("route") == "r0"]
    study = parse_study({**there.study, "certificates": [*asked, *others]})
    plan = Plan(study, study.resolved(), [])
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


def models_of(there: Source) -> dict[str, Scores]:
    """Return the scores of every cell that scored held-out clients."""
    by_cell: dict[str, list[dict[str, str]]] = {}
    for row in there.rows:
        by_cell.setdefault(row["cell"], []).append(row)
    scored = {cell: scores_of(rows) for cell, rows in by_cell.items()}
    models = {cell: scores for cell, scores in scored.items() if scores}
    if not models:
        raise InputError(f"{there.path} holds no scores of held-out clients")
    return models


def drawn_from(there: Source, plan: Plan, models: Mapping[str, Scores]) -> Drawn:
    """Say how the clients were drawn, and refuse scores that the entries do not fit."""
    kind = str(there.study["split"]["kind"])
    if kind == "frozen":
        raise InputError(
            "a frozen split cannot be re-issued: no row says how its clients were dealt"
        )
    if not novel_alike(there.study["split"]):
        raise InputError(
            "new clients of held-back groups are of another population than the certified clients: "
            "give split.novel, and run the study anew"
        )
    for index, (entry, _) in enumerate(plan.issued):
        rules = [RULES[name] for name in entry.best_of or (str(entry.rule),) if name in RULES]
        if kind == "natural" and any(rule.ordered or rule.orders for rule in rules):
            raise InputError(
                f"certificates.{index}: rules that bet along an order need that of the split, and "
                "rows list natural clients by their ids: use a rule without an order, or run anew"
            )
    sizes = {_n_clients(scores) for scores in models.values()}
    if len(sizes) > 1:
        raise InputError(f"models have different numbers of held-out clients: {sorted(sizes)}")
    names = {row["client"] for row in there.rows if row["group"] == "novel" and row["client"]}
    untrained = {row["client"] for row in there.rows if _unshifted_novel(row)}
    if names and not untrained:
        raise InputError(f"{there.path} holds no unshifted new clients to count")
    predictors = {predictor for scores in models.values() for predictor in scores}
    for index, (entry, _) in enumerate(plan.issued):
        entry.check_predictors(f"certificates.{index}", kind, sorted(predictors))
        for shift in entry.certified_shifts:
            conditions = [one for own in models.values() for each in own.values() for one in each]
            if shift not in {one.shift for one in conditions}:
                raise InputError(f"held-out clients were not scored under shift {shift}")
    sampling = sampling_of(kind)
    left_out = _left_out(there, kind)
    return Drawn(sampling, sizes.pop() + len(untrained), left_out, in_order=kind != "natural")


def _n_clients(scores: Scores) -> int:
    return len(next(iter(next(iter(scores.values())).values())))


def _unshifted_novel(row: Mapping[str, str]) -> bool:
    named = row["group"] == "novel" and row["metric"] == "error" and bool(row["client"])
    return named and row["shift"] in ("", "none")


def _left_out(there: Source, kind: str) -> int:
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


def held_out(row: Mapping[str, Any]) -> bool:
    """Whether a row or a fact is about a certificate of held-out clients."""
    return str(row["bound"]).startswith(ROUTE)


LATE = (
    "declared after these scores existed: it holds at its delta only if the choice of the rule and "
    "of its settings owes nothing to them"
)
"""Why a certificate that was declared late is no proof."""
TABLE = Path("tables") / "reissued.csv"
Row = dict[str, Any]
Issued = tuple[list[Row], list[Row], dict[str, list[Row]]]
"""Rows, facts and curves of one trained model's certificates."""


def write_reissued(
    folder: Path,
    there: Source,
    plan: Plan,
    rows: Sequence[Row],
    issued: Mapping[str, Issued],
    table: pd.DataFrame,
    note: str,
) -> None:
    """Write the new run directory; ``study.yaml``, which makes it a run directory, comes last.

    The mark comes first: with it and no study, a directory is one that was never finished.
    """
    mark = {
        "from": there.path.resolve().name,
        "rows_sha256": sha256(rows_content(rows_file(there.path))).hexdigest(),
        "declared_late": plan.late,
        "late": LATE if plan.late else "",
        "note": note,
        "made_with": environment(),
    }
    write_atomic(folder / MARK, json.dumps(mark, indent=1) + "\n")
    for cell, (_, facts, curves) in issued.items():
        _write_cell(folder, there, plan, cell, rows, facts, curves)
    for name in ("env.json", "certification.jsonl"):
        if (there.path / name).is_file():
            write_atomic(folder / name, (there.path / name).read_bytes())
    names = _copy_others(folder, there, list(issued))
    write_atomic(folder / "cells.json", json.dumps({"cells": names, "about": {}}, indent=1) + "\n")
    write_atomic(folder / "rows.csv", rows_to_text(rows))
    write_atomic(folder / TABLE, table.to_csv(index=False, lineterminator="\n"))
    write_atomic(folder / "study.yaml", write_yaml(plan.resolved))


def _copy_others(folder: Path, there: Source, issued: list[str]) -> list[str]:
    """Copy cells without new certificates unchanged; return all cells' names, in the old order."""
    added = []
    for place in sorted(cells_of(there.path).glob("*/done")):
        name = place.parent.name
        if name not in issued:
            passing = shutil.ignore_patterns("checkpoints", LOCKS)
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


@dataclass(frozen=True)
class Reissued:
    """The result of issuing certificates anew."""

    path: Path  # the new run directory
    # ``label seed predictor shift severity bound delta n_clients pool mean_error before now others
    # declared``: one row per certificate of a mean; ``before`` is the old run's value of the same
    # bound, NaN where it has none, ``others`` what a pool's certificate leaves for the clients that
    # were not scored.
    table: pd.DataFrame
    n_late: int  # entries that were declared after the scores existed


def reissue(
    source: str | Path,
    entries: Sequence[Mapping[str, Any]],
    *,
    out: str | Path,
    note: str = "",
) -> Reissued:
    """Issue a finished run's held-out certificates anew, from the scores in its rows.

    Entries of other routes are left out; their certificates, and all other rows, stay as they are.
    ``source`` is only read; ``out`` lies outside of it and must not exist, be empty, or have been
    left by such a call that did not come to its end.  ``note`` says why these entries and no
    others; it is stored with them.

    Refused is a run that is not finished, scores made under other settings (folds, shifts, draws of
    a randomised predictor), and clients of whom it is not known how they were drawn.
    """
    there, folder = read_source(as_path("source", source)), as_path("out", out)
    _refuse_taken(folder)
    output_folder("--out", folder, there.path)
    plan = planned(there, entries)
    models = models_of(there)
    drawn = drawn_from(there, plan, models)
    issued = {cell: _issued(plan, there, cell, scores, drawn) for cell, scores in models.items()}
    kept = [row for row in there.rows if not held_out(row)]
    rows = [*kept, *(row for new, _, _ in issued.values() for row in new)]
    table = _compared(there, rows, plan)
    with held_in_turn(folder) as lock:
        _refuse_taken(folder)  # another process may have been faster
        tidy(folder, keep=lock.path.name)
        write_reissued(folder, there, plan, rows, issued, table, note)
    return Reissued(folder, table, len(plan.late))


def _refuse_taken(folder: Path) -> None:
    """Refuse a directory that holds anything but what such a call left that was ended early."""
    there = os.listdir(folder) if folder.is_dir() else []
    held = [name for name in there if not fnmatch(name, LOCKS) and not name.endswith(".tmp")]
    if held and (MARK not in held or "study.yaml" in held):
        raise InputError(f"{folder} is there already: certificates are re-issued to a new --out")


def _issued(plan: Plan, there: Source, cell: str, scores: Scores, drawn: Drawn) -> Issued:
    """Return rows, facts and curves of one trained model's certificates."""
    first = next(row for row in there.rows if row["cell"] == cell and row["group"])
    named = ("study", "cell", "dataset", "split", "split_seed", "method", "label")
    about = {name: first[name] for name in (*named, "personalization", "seed", "round")}
    about |= {"status": "done"}
    about["version"] = metadata.version("latecomer")
    classes, seeds = plan.study.evaluation.classes, len(plan.study.seeds)
    # A system trained elsewhere has no rounds.
    vouched = vouched_for(0 if first["round"] == "0" else 1, plan.study.model)
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
        facts += assumed(told, vouched)
        for kind, table in findings.tables.items():
            curves[kind] += table
    return rows, facts, curves


def _compared(there: Source, rows: Sequence[Row], plan: Plan) -> pd.DataFrame:
    """Compare every certificate of a mean with the old run's value of the same bound."""
    keys = ("label", "seed", "predictor", "shift", "severity", "bound", "delta")

    def key(row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(f"{float(row[k]):.12g}" if k == "delta" else str(row[k]) for k in keys)

    def totals(given: Sequence[Mapping[str, Any]], metric: str, term: str) -> dict[Any, float]:
        return {
            key(row): float(row["value"])
            for row in given
            if held_out(row) and row["metric"] == metric and row["term"] == term
        }

    old = totals(there.rows, "certificate", "")
    means = totals(rows, "certificate", "empirical_risk")
    others = totals(rows, "certificate_pool", "others")
    sizes = totals(rows, "certificate_pool", "size")
    late = {f"{ROUTE}{entry['rule']}" for entry in plan.late}
    nothing = float("nan")
    lines = [
        {name: row[name] for name in keys}
        | {
            "seed": int(row["seed"]),
            "delta": float(row["delta"]),
            "n_clients": row["n_clients"],
            "pool": sizes.get(key(row), nothing),
            "mean_error": means[key(row)],
            "before": old.get(key(row), nothing),
            "now": float(row["value"]),
            "others": others.get(key(row), nothing),
            "declared": "after the scores" if row["bound"].split("@")[0] in late else "before",
        }
        for row in rows
        if held_out(row) and row["metric"] == "certificate" and row["term"] == ""
        if key(row) in means
    ]
    named = (*keys, "n_clients", "pool", "mean_error", "before", "now", "others", "declared")
    # Named even where no entry bounds a mean: conformal quantiles, shares above a level, balls.
    frame = pd.DataFrame(lines, columns=list(named))
    return frame.sort_values(["label", "seed", "predictor"], kind="stable")
