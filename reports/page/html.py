"""One page from a run directory: ``report(directory)`` writes it, its figures and its tables.

The page holds everything: figures are inline SVG, data are links that carry their content.  It
asks the network for nothing and needs no other file.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from latecomer.eval.results.rows import RunRecord, load_run, write_atomic
from latecomer.reports.display.pictures import Writer
from latecomer.reports.display.style import looks
from latecomer.reports.frames.errors import failures_frame, labels_in
from latecomer.reports.frames.remembering import remembering
from latecomer.reports.measures.convergence import convergence_section
from latecomer.reports.measures.denoising import denoising_section
from latecomer.reports.page import citations
from latecomer.reports.page import setup as setup_facts
from latecomer.reports.page.cards import cards
from latecomer.reports.page.shown_names import under_shown_names
from latecomer.reports.sections import captions
from latecomer.reports.sections import errors as sections
from latecomer.reports.sections import measures as measure_sections
from latecomer.reports.sections.guarantees import guarantee_section, ledger_of_run

# Objects that come to be between two searches for cycles: a figure is a web of tens of thousands,
# and to search it again and again is a sixteenth of a page's making.
SELDOM = 200_000
# More answers than these are folded away: the first screen is for the best.
MOST_ANSWERS = 6


def report(directory: str | Path) -> Path:
    """Write ``report.html``, ``figures/``, ``tables/`` and ``cards/`` of a run directory.

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
    with _seldom_searching():
        run, writer = under_shown_names(load_run(directory)), Writer()
        page = page_of(run, writer)
    for name, content in writer.files.items():
        write_atomic(run.path / name, content)
    write_atomic(run.path / "report.html", page)
    return run.path / "report.html"


@contextmanager
def _seldom_searching() -> Iterator[None]:
    """Let Python search for cycles of garbage seldom."""
    given = gc.get_threshold()
    gc.set_threshold(max(SELDOM, given[0]) if given[0] else 0, *given[1:])
    try:
        yield
    finally:
        gc.set_threshold(*given)


def page_of(run: RunRecord, writer: Writer) -> str:
    """Render the page of a run; files that go beside it end up in ``writer.files``."""
    environment = Environment(
        loader=PackageLoader("latecomer.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    with remembering():
        content = content_of(run, writer)
    return environment.get_template("report.html").render(content)


def content_of(run: RunRecord, writer: Writer) -> dict[str, Any]:
    """Everything the template shows."""
    everything, study = run.rows, run.study
    # What holding clients out costs is no method of its own: it stands beside certificates alone.
    configs = [cell.config for cell in run.cells]
    whole = [one["method"]["label"] for one in configs if one.get("kind") == "whole"]
    # The same object where nothing is left out, so that frames made of it are remembered.
    rows = everything[~everything["label"].isin(whole)] if whole else everything
    run = replace(run, rows=rows)
    labels = labels_in(rows, study.get("methods") or ())
    look = looks(labels)
    ledger = ledger_of_run(run)
    answers = captions.answers(rows, study)
    failures = failures_frame(everything)
    writer.files |= cards(rows, study, run.env, ledger)
    sources = list(dict.fromkeys(ledger.loc[ledger["kind"] == "source", "text"]))
    methods = sorted(set(rows.loc[rows["method"] != "", "method"]))
    descriptors = measure_sections.descriptors(run, writer, labels, look)
    tests: tuple[str, ...] = citations.TESTS if len(labels) > 1 else ()
    if descriptors:
        tests += citations.MAPS if descriptors["pictures"] else ()
        tests += citations.CORRELATIONS if descriptors["table"] else ()
    bibtex = citations.citations(methods, sources, tests, run.env.get("cites"))
    writer.files["references.bib"] = bibtex + "\n"
    return {
        "title": str(study.get("study", run.path.name)),
        "question": str(study.get("question") or ""),
        "scale": str(study.get("scale") or ""),
        "ranking": captions.ranking(rows),
        "reduced": bool(study.get("paper")) and study.get("scale") != "paper",
        "shifted": captions.shift_answers(rows),
        "answers": answers[:MOST_ANSWERS],
        "more_answers": answers[MOST_ANSWERS:],
        "shared": captions.shared_terms(answers),
        "colours": {label: look[label].colour for label in labels},
        "setup": setup_facts.setup_card(rows, study)
        + setup_facts.machine(run.env, [cell.timing for cell in run.cells]),
        "command": setup_facts.command(study, run.env),
        "accuracy": sections.accuracy(run, writer, labels, look),
        "convergence": convergence_section(rows, writer, labels, look),
        "denoising": denoising_section(run, writer),
        "guarantees": guarantee_section(run, writer, labels, look, ledger, everything),
        "shift": sections.shift(rows, writer, labels, look, study),
        "clients": sections.clients(run, writer, labels, look),
        "descriptors": descriptors,
        "mixed": measure_sections.mix_and_match(run, writer, labels),
        "serving": measure_sections.serving(run, writer, labels, look),
        "statement": setup_facts.statement(rows, study, run.scorings),
        "protocols": setup_facts.protocols(rows, study, labels),
        "commands": setup_facts.commands(rows, study, writer.files),
        "failures": failures.to_dict("records"),
        "unfinished": [cell.id for cell in run.cells if cell.status == "unfinished"],
        "n_cells": len(run.cells),
        "versions": sorted(v for v in set(rows["version"]) if v),
        "bibtex": bibtex,
    }
