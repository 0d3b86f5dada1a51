"""The last lines of ``latecomer run``: the answer to what the study asked, and its table."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import typer

from latecomer.eval.results.rows import load_run
from latecomer.reports.checks import CHECKS, findings
from latecomer.reports.display.section import Material
from latecomer.reports.page.questions import Answer, answers, only_runs

_WIDTH = 100


def summary_lines(directory: Path) -> list[str]:
    """Answer the study's question as its report does: sentences, then a table.

    Parameters
    ----------
    directory : Path
        A run directory.

    Returns
    -------
    list of str
        Lines of at most 100 characters, except wider tables; empty if nothing was measured.
    """
    run = load_run(directory)
    warned = textwrap.wrap(only_runs(run.study), _WIDTH, initial_indent=" ", subsequent_indent=" ")
    material = Material.of(run)
    told = [line for answer in answers(material) for line in _told(answer)]
    return [*(typer.style(line, fg="red") for line in warned), *told, *_checked(material)]


def _told(answer: Answer) -> Iterator[str]:
    yield from textwrap.wrap(answer.sentence, _WIDTH, initial_indent=" ", subsequent_indent=" ")
    for sentence in answer.more:
        yield from textwrap.wrap(
            sentence, _WIDTH, initial_indent="   - ", subsequent_indent="     "
        )
    yield from _table(answer.table.shown)


def _table(table: pd.DataFrame) -> Iterator[str]:
    lines = [list(map(str, table.columns)), *table.astype(str).to_numpy().tolist()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines if len(table) else ():
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield f"   {'   '.join(cells)}".rstrip()


def _checked(material: Material) -> Iterator[str]:
    """Name what the checks found, each with its code; the report says what to do about it."""
    found = findings(material, CHECKS.values())
    for code in dict.fromkeys(one.check.code for one in found):
        first, *others = [one.sentence for one in found if one.check.code == code]
        more = f" ({len(others)} more in the report)" if others else ""
        yield from textwrap.wrap(
            f"{first}{more}", _WIDTH, initial_indent=f" {code}   ", subsequent_indent="         "
        )
