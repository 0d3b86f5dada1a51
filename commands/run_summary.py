"""The last lines of ``latecomer run``: the answer to what the study asked, and its table."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import pandas as pd
import typer

from latecomer.eval.results.rows import load_run
from latecomer.reports.checks import CHECKS, by_check, findings
from latecomer.reports.display.section import Material
from latecomer.reports.page.questions import Answer, answers, only_runs

_WIDTH = 80
# Of a column in a table that is too wide: names and one more fit side by side, heads are readable.
_WIDEST, _SHORTEST = 36, 8


def summary_lines(directory: Path) -> list[str]:
    """Answer the study's question as its report does: sentences, then a table.

    Parameters
    ----------
    directory : Path
        A run directory.

    Returns
    -------
    list of str
        Lines of at most 80 characters; empty if nothing was measured.
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
    """Write a table; one that is too wide in blocks below one another, each with the names.

    What is the same in all rows of a wide one is said once, below it.
    """
    columns = [[str(head), *map(str, table.iloc[:, at])] for at, head in enumerate(table)]
    shared: list[list[str]] = []
    if len(table) > 1 and _taken(columns, 3) > _WIDTH:
        shared = [column for column in columns[1:] if len(set(column[1:])) == 1]
        columns = [column for column in columns if column not in shared]
    blocks, gap = [columns], 3
    if _taken(columns, gap) > _WIDTH:
        gap = 2
        names, *others = [_narrowed(column) for column in columns]
        blocks = [[names]]
        for column in others:
            if _taken([*blocks[-1], column], gap) > _WIDTH:
                blocks.append([names])
            blocks[-1].append(column)
    for block in blocks if len(table) else ():
        widths = [_width(column) for column in block]
        for row in zip(*block, strict=True):
            for line in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""):
                cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
                yield f"   {(' ' * gap).join(cells)}".rstrip()
    same = "; ".join(f"{head} {cell}" for head, cell, *_ in shared)
    yield from textwrap.wrap(
        f"in all rows: {same}" if same else "",
        _WIDTH,
        initial_indent="   ",
        subsequent_indent="     ",
    )


def _narrowed(column: Sequence[str]) -> list[str]:
    """Break a column's head at the width of its cells, and cells that leave no room for another."""
    head, *cells = [textwrap.fill(cell, _WIDEST) for cell in column]
    longest_word = max(map(len, head.split()))
    return [textwrap.fill(head, max(_width(cells), longest_word, _SHORTEST)), *cells]


def _width(column: Sequence[str]) -> int:
    return max(len(line) for cell in column for line in cell.split("\n"))


def _taken(columns: Sequence[Sequence[str]], gap: int) -> int:
    return 3 - gap + sum(gap + _width(column) for column in columns)


def _checked(material: Material) -> Iterator[str]:
    """Name what the checks found, each with its code; the report says what to do about it."""
    for first, *others in by_check(findings(material, CHECKS.values())):
        more = f" ({len(others)} more in the report)" if others else ""
        yield from textwrap.wrap(
            f"{first.sentence}{more}",
            _WIDTH,
            initial_indent=f" {first.check.code}   ",
            subsequent_indent="         ",
        )
