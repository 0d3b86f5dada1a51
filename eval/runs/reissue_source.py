"""The finished run whose certificates are issued anew, and what is asked of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from latecomer.certify.rule import RULE_WITHOUT_ORDERS, RULES
from latecomer.errors import InputError
from latecomer.eval.results.kept_cells import declared_study, rows_file, run_folder
from latecomer.eval.results.rows import COLUMNS, read_records
from latecomer.eval.routes.kinds.r0 import HeldOut
from latecomer.eval.routes.r0_held_out import Drawn
from latecomer.eval.scoring.scores_from_rows import Scores, scores_of
from latecomer.eval.splits.registry import sampling_of
from latecomer.eval.splits.split import novel_alike
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.declaration import read_yaml
from latecomer.eval.studies.settings import Study

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
    """Read the certificates that a YAML file declares, a study or nothing but ``certificates``.

    Raises
    ------
    InputError
        The file cannot be read, or declares none.
    """
    try:
        raw = read_yaml(Path(path).read_bytes(), str(path))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    entries = raw.get("certificates")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path} declares no certificates: a list under the key certificates")
    return [dict(entry) if isinstance(entry, dict) else entry for entry in entries]


def read_source(path: Path) -> Source:
    """Read a finished run.

    Raises
    ------
    InputError
        It is not finished, or damaged.
    """
    run_folder(path)
    if not rows_file(path).is_file():
        raise InputError(f"{path} holds an unfinished run: its scores are not all there")
    try:
        study = declared_study(path)
        mark = path / MARK
        late = json.loads(mark.read_text("utf-8"))["declared_late"] if mark.is_file() else []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds a damaged run: {' '.join(str(error).split())}") from None
    records = read_records(rows_file(path))
    rows = [dict(zip(COLUMNS, record, strict=True)) for record in records]
    return Source(path, study, rows, late)


def planned(there: Source, entries: Sequence[Mapping[str, Any]]) -> Plan:
    """Check the new entries against the old study, and say which of them are late."""
    asked = [dict(entry) for entry in entries if dict(entry).get("route", "r0") == "r0"]
    if there.study["split"]["kind"] == "natural":
        # Rows list natural clients by their ids, so that no order of theirs is random.
        asked = [_without_orders(entry) for entry in asked]
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


def _without_orders(entry: dict[str, Any]) -> dict[str, Any]:
    named = entry.keys() & {"rule", "best_of"}
    return entry if named else {**entry, "rule": RULE_WITHOUT_ORDERS}


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
    return Drawn(sampling, sizes.pop() + len(untrained), _left_out(there, kind))


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
