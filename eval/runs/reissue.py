"""Certificates of held-out clients issued anew from a finished run's scores, nothing trained.

A score is made once; what it proves changes when a proof is corrected or a better rule is found.
The old run stays as it is; the result is a new directory, in which every certificate whose entry
was not declared before the scores existed is marked as no proof: a rule that was chosen after
looking holds at its delta only if the choice does not depend on these scores, which no program can
know.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from latecomer.checks import output_folder
from latecomer.errors import InputError
from latecomer.eval.results.rows import make_row
from latecomer.eval.routes.caveats import unproven
from latecomer.eval.routes.r0_held_out import Drawn, issue_certificates
from latecomer.eval.runs.reissue_source import (
    MARK,
    ROUTE,
    Plan,
    Source,
    declared_entries,
    drawn_from,
    held_out,
    models_of,
    planned,
    read_source,
)
from latecomer.eval.runs.reissued_directory import LATE, Issued, write_reissued
from latecomer.eval.scoring.scores_from_rows import Scores
from latecomer.files import at_home, write_atomic

__all__ = ["LATE", "MARK", "Reissued", "declared_entries", "reissue"]

TABLE = Path("tables") / "reissued.csv"

Row = dict[str, Any]


@dataclass(frozen=True)
class Reissued:
    """The result of issuing certificates anew.

    Attributes
    ----------
    path : Path
        The new run directory.
    table : pandas.DataFrame
        ``label seed predictor shift severity bound delta n_clients pool mean_error before now
        others declared``: one row per certificate of a mean; ``before`` is the old run's value of
        the same bound, NaN where it has none, ``others`` what a pool's certificate leaves for the
        clients that were not scored.
    n_late : int
        Entries that were declared after the scores existed.
    """

    path: Path
    table: pd.DataFrame
    n_late: int


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
        The new directory, which must not exist or be empty, and lies outside of ``source``.
    note : str
        Why these entries and no others; it is stored with them.

    Raises
    ------
    InputError
        When the run is not finished, its scores were made under other settings (folds, shifts,
        draws of a randomised predictor), or it is not known how its clients were drawn.
    """
    there, folder = read_source(at_home(source)), at_home(out)
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is there already: certificates are re-issued to a new --out")
    output_folder("--out", folder, there.path)
    plan = planned(there, entries)
    models = models_of(there)
    drawn = drawn_from(there, plan, models)
    issued = {cell: _issued(plan, there, cell, scores, drawn) for cell, scores in models.items()}
    kept = [row for row in there.rows if not held_out(row)]
    rows = [*kept, *(row for new, _, _ in issued.values() for row in new)]
    table = _compared(there, rows, plan)
    write_reissued(folder, there, plan, rows, issued, note)
    write_atomic(folder / TABLE, table.to_csv(index=False, lineterminator="\n"))
    return Reissued(folder, table, len(plan.late))


def _issued(plan: Plan, there: Source, cell: str, scores: Scores, drawn: Drawn) -> Issued:
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
        if held_out(row) and row["metric"] == "certificate" and row["term"] == ""
        if key(row) in means
    ]
    return pd.DataFrame(lines).sort_values(["label", "seed", "predictor"], kind="stable")
