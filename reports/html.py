"""One page from a run directory: ``report(directory)`` writes it, its figures and its tables.

The page holds everything: figures are inline SVG, data are links that carry their content.  It
asks the network for nothing and needs no other file.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from latecomer.eval.rows import RunRecord, load_run, write_atomic
from latecomer.reports import captions, guarantees, setup_facts, tables
from latecomer.reports.bound_figures import anatomy_figure, bound_figure, drawable_bounds
from latecomer.reports.figures import diagnostics_figure, gap_figure
from latecomer.reports.frames import (
    diagnostics_frame,
    failures_frame,
    gap_frame,
    in_order,
    labels_in,
    shift_frame,
)
from latecomer.reports.pictures import Writer
from latecomer.reports.shift_figures import shift_figure
from latecomer.reports.style import looks
from latecomer.reports.words import METRICS, bound_name, sentence_case


def report(directory: str | Path) -> Path:
    """Write ``report.html``, ``figures/`` and ``tables/`` of a run directory.

    Parameters
    ----------
    directory : str or Path
        A run directory with ``study.yaml`` and ``rows.csv``.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    InputError
        When the directory holds no readable run.
    """
    run, writer = load_run(directory), Writer()
    page = page_of(run, writer)
    for name, content in writer.files.items():
        write_atomic(run.path / name, content)
    write_atomic(run.path / "report.html", page)
    return run.path / "report.html"


def page_of(run: RunRecord, writer: Writer) -> str:
    """Render the page of a run; figures and tables for files end up in ``writer.files``."""
    environment = Environment(
        loader=PackageLoader("latecomer.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(content_of(run, writer))


def content_of(run: RunRecord, writer: Writer) -> dict[str, Any]:
    """Everything the template shows."""
    rows, study = run.rows, run.study
    labels = labels_in(rows, study.get("methods") or ())
    look = looks(labels)
    gaps = in_order(gap_frame(rows), labels)
    failures = failures_frame(rows)
    answers = captions.answers(rows, study)
    unfinished = [cell.id for cell in run.cells if cell.status == "unfinished"]
    return {
        "title": str(study.get("study", run.path.name)),
        "question": str(study.get("question") or ""),
        "ranking": captions.ranking(rows),
        "answers": answers,
        "shared": captions.shared_terms(answers),
        "colours": {label: look[label].colour for label in labels},
        "setup": setup_facts.setup_card(rows, study)
        + setup_facts.machine(run.env, [cell.timing for cell in run.cells]),
        "command": setup_facts.command(study, run.env),
        "protocols": setup_facts.protocols(rows, study, labels),
        "accuracy": writer.table(tables.accuracy_table(rows, labels)),
        "gap": writer.picture(
            "gap",
            partial(gap_figure, gaps, look),
            gaps,
            title="Generalization gap",
            alt=captions.describe_gap(gaps),
            caption="A mark per seed, a bar at the mean, a band for its 95% t-interval over seeds "
            "(in brackets). Left of 0: clients that join late are served worse. Seen and novel "
            "clients are different clients, the same ones for every method.",
        )
        if len(gaps)
        else None,
        "guarantees": _guarantees(run, writer, labels, look),
        "shift": _shift(rows, writer, labels, look),
        "clients": _clients(rows, writer, labels, look),
        "failures": failures.to_dict("records"),
        "unfinished": unfinished,
        "n_cells": len(run.cells),
        "versions": sorted(v for v in set(rows["version"]) if v),
    }


def _guarantees(
    run: RunRecord, writer: Writer, labels: Sequence[str], look: Any
) -> dict[str, Any] | None:
    bounds = in_order(guarantees.bound_frame(run.rows), labels)
    if bounds.empty:
        return None
    ledger = guarantees.ledger_frame(_ledgers(run))
    terms = in_order(guarantees.anatomy_frame(run.rows), labels)
    writer.files["tables/certificates.csv"] = bounds.to_csv(index=False, lineterminator="\n")
    writer.files["tables/bound-inputs.csv"] = ledger.to_csv(index=False, lineterminator="\n")
    proven = bounds.groupby("bound")["rigorous"].any()
    declared = [f"{c['route']}:{c['rule']}" for c in run.study.get("certificates") or ()]
    place = {name: i for i, name in enumerate([*declared, *(run.study.get("bounds") or ())])}
    names = sorted(
        proven.index, key=lambda name: (not proven[name], place.get(name, len(place)), name)
    )
    picture = None
    if len(drawable_bounds(bounds)):
        picture = writer.picture(
            "bounds",
            partial(bound_figure, bounds, look),
            drawable_bounds(bounds),
            title="Bounds beside measured errors",
            alt=captions.describe_bounds(bounds),
            caption="A mark per trained model and bound; its place to the right is the mean error "
            "of the novel clients, whomever the bound is about. Filled: a certificate. Hollow: "
            "a published formula without a proof for this model. Below the dashed line a bound "
            "would be below the measured error.",
        )
    return {
        "picture": picture,
        "bounds": [_bound(writer, bounds, terms, ledger, name) for name in names],
    }


def _ledgers(run: RunRecord) -> list[tuple[str, int, Any]]:
    cells = {cell.id: cell.config for cell in run.cells}
    found = []
    for artifact in run.artifacts:
        if artifact.kind == "certificates":
            config = cells[artifact.cell]
            found.append((config["method"]["label"], config["seed"], artifact.load().table or ()))
    return found


def _bound(
    writer: Writer, bounds: pd.DataFrame, terms: pd.DataFrame, ledger: pd.DataFrame, name: str
) -> dict[str, Any]:
    own = bounds[bounds["bound"] == name]
    stem = "bound-" + "".join(c if c.isalnum() else "-" for c in name)
    parts = terms[terms["bound"] == name]
    anatomy = None
    if len(parts):
        anatomy = writer.picture(
            f"{stem}-terms",
            partial(anatomy_figure, parts),
            parts,
            title=f"Terms of {bound_name(name)}",
            alt=captions.describe_anatomy(parts),
            caption=captions.anatomy_caption(parts),
        )
    return {
        "name": name,
        "title": sentence_case(bound_name(name)),
        "status": guarantees.status(own),
        "claims": guarantees.claims(own),
        "table": writer.table(tables.bound_table(bounds, stem, name)),
        "anatomy": anatomy,
        "ledger": guarantees.ledger_of(ledger, name),
    }


def _shift(
    rows: pd.DataFrame, writer: Writer, labels: Sequence[str], look: Any
) -> dict[str, Any] | None:
    frame = in_order(shift_frame(rows), labels)
    shifts = [name for name in dict.fromkeys(frame["shift"]) if name != "none"]
    if not shifts:
        return None
    bounds = guarantees.bound_frame(rows)
    ben_david = bounds[bounds["bound"] == "ben_david"]
    pictures = [
        writer.picture(
            "shift-" + "".join(c if c.isalnum() else "-" for c in shift),
            partial(
                shift_figure, frame, shift, look, heuristic=ben_david[ben_david["shift"] == shift]
            ),
            frame[frame["shift"].isin([shift, "none"])],
            title=sentence_case(shift),
            alt=captions.describe_shift(frame, shift),
            small=True,
        )
        for shift in sorted(shifts)
    ]
    return {
        "pictures": pictures,
        "table": writer.table(tables.shift_table(frame, labels)),
        "heuristic": bool(len(ben_david)),
    }


def _clients(
    rows: pd.DataFrame, writer: Writer, labels: Sequence[str], look: Any
) -> dict[str, Any] | None:
    frame = in_order(diagnostics_frame(rows), labels)
    if frame.empty:
        return None
    pictures = [
        writer.picture(
            f"distance-{metric.replace('_', '-')}",
            partial(diagnostics_figure, frame, metric, look),
            frame[frame["metric"] == metric],
            title=sentence_case(METRICS[metric].split(" to ")[0]),
            alt=captions.describe_diagnostics(frame, metric, labels),
            small=True,
        )
        for metric in METRICS
        if (frame["metric"] == metric).any()
    ]
    return {"pictures": pictures, "table": writer.table(tables.rank_table(frame, labels))}
