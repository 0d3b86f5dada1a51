"""What ``latecomer run`` shows: the plan, progress while it works, and what came out."""

import contextlib
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
import typer

from latecomer.commands.render import count, duration
from latecomer.commands.run_directories import asked, keep
from latecomer.eval.results.rows import load_run
from latecomer.eval.runs.runner import Event, RunResult, run
from latecomer.eval.runs.tracking import tracked
from latecomer.eval.studies.loading import leaves_gpu_idle, load_study
from latecomer.eval.studies.settings import Study
from latecomer.reports.checks import CHECKS, by_check, findings
from latecomer.reports.display.section import Material
from latecomer.reports.page.questions import Answer, answers, only_runs

if TYPE_CHECKING:
    from rich.table import Table

_WIDTH = 80
# Of a column in a table that is too wide: names and one more fit side by side, heads are readable.
_WIDEST, _SHORTEST = 36, 8


def summary_lines(directory: Path) -> list[str]:
    """Answer the study's question as its report does, in 80 columns: sentences, then a table."""
    run = load_run(directory)
    warned = _wrapped(only_runs(run.study))
    material = Material.of(run)
    told = [line for answer in answers(material) for line in _told(answer)]
    return [*(typer.style(line, fg="red") for line in warned), *told, *_checked(material)]


def _wrapped(text: str, first: str = " ", further: str = " ") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=further)


def _told(answer: Answer) -> Iterator[str]:
    yield from _wrapped(answer.sentence)
    for sentence in answer.more:
        yield from _wrapped(sentence, "   - ", "     ")
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
    yield from _wrapped(f"in all rows: {same}" if same else "", "   ", "     ")


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
        yield from _wrapped(f"{first.sentence}{more}", f" {first.check.code}   ", "         ")


_BAR = 20


@dataclass
class _Cell:
    label: str
    seed: int | None
    rounds: int | None
    began: float
    round: int = 0
    loss: float | None = None
    first: tuple[float, int] | None = None  # when the first round was reported, and its number


class CellsInWork:
    """What is known of the running cells."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._cells: dict[str, _Cell] = {}
        self._footer = ""

    def hear(self, event: Event) -> None:
        """Take note of an event."""
        self._footer = f"{event.done}/{event.total} cells"
        now = self._clock()
        if event.kind == "start":
            self._cells[event.cell] = _Cell(event.label, event.seed, event.rounds, now)
        elif event.kind == "round" and event.cell in self._cells:
            cell = self._cells[event.cell]
            cell.round, cell.loss = (event.round or 0) + 1, event.loss
            cell.first = cell.first or (now, cell.round)
        elif event.kind in ("done", "failed", "retry", "held"):
            self._cells.pop(event.cell, None)

    def table(self) -> "Table":
        """Return the current table."""
        from rich.table import Table

        table = Table(box=None, pad_edge=True, show_header=False)
        for justify in ("left", "left", "right", "right", "left", "right"):
            table.add_column(justify=justify, no_wrap=True)
        for cell in self._cells.values():
            table.add_row(*self._row(cell))
        table.add_row(self._footer)
        return table

    def _row(self, cell: _Cell) -> tuple[str, ...]:
        seed = "" if cell.seed is None else f"seed {cell.seed}"
        if not (cell.round and cell.rounds):
            return cell.label, seed, "", "", "", duration(self._clock() - cell.began)
        loss = "" if cell.loss is None else f"loss {cell.loss:.3f}"
        full = min(_BAR, round(_BAR * cell.round / cell.rounds))
        bar = "━" * full + "╌" * (_BAR - full)
        rounds = f"round {cell.round}/{cell.rounds}"
        return cell.label, seed, rounds, loss, bar, self._left(cell)

    def _left(self, cell: _Cell) -> str:
        since, begun = cell.first or (0.0, cell.round)
        if cell.rounds is None or cell.round == begun:
            return ""  # the first round after a checkpoint says nothing about speed
        pace = (self._clock() - since) / (cell.round - begun)
        left = cell.rounds - cell.round
        return f"{duration(pace * left)} left" if left > 0 else "serving"


_ROUND_LINE_EVERY = 30.0  # seconds between two plain lines about rounds


def run_and_report(
    name: str,
    overrides: Iterable[str],
    *,
    out: Path | None,
    where: str = "",
    scale: str | None = None,
    variants: Sequence[str] = (),
    track: Sequence[str] = (),
    **options: Any,
) -> bool:
    """Run a study, write its report and print what came out; False when a cell failed.

    ``options`` are those of `latecomer.eval.runs.runner.run`; ``where`` names the place where the
    executor runs cells if that is not this machine. With ``scale`` and without ``out`` the run gets
    a directory named after study and scale. ``track`` names trackers of rounds and results.
    """
    overrides = tuple(overrides)
    study = load_study(name, overrides, variants=variants, scale=scale)
    if out is None and scale is not None:
        out = Path("runs") / f"{study.study}-{scale}"
    display = TableDisplay if sys.stdout.isatty() else LineDisplay
    show: LineDisplay | TableDisplay = display(study, where)
    out = out or Path("runs") / study.study
    question, told = asked(out, name, overrides, variants, scale), list[str]()

    def warn(line: str) -> None:
        typer.echo(f" {line}", err=True)

    with tracked(tuple(track), study.study, out, warn) as tell, show:

        def hear(event: Event) -> None:
            show(event)
            tell(event)
            told.extend([event.message] if event.kind == "plan" else [])

        finished = run(study, out=out, on_event=hear, **options)
    from latecomer.reports.page.page import report

    page = report(finished.path)
    answers = [*summary_lines(finished.path), f" report       {page}"]
    for line in [*_closing(finished), *answers]:
        typer.echo(line)
    here = not where and study.train.device in (None, "cpu")
    if here and finished.n_done == finished.n_cells and (finished.path / "cells").is_dir():
        n = finished.n_cells
        done = Event(kind="plan", done=n, total=n, workers=1, message="\n".join(told))
        keep(finished.path, question, opening(study, done), answers)
    return finished.n_failed == 0


def plan_line(study: Study, event: Event, where: str = "") -> str:
    """Say what there is to do, before it starts, and where if not on this machine."""
    trained = f"{count(len(study.methods), 'method')} x {count(len(study.seeds), 'seed')}"
    routed = sum(hasattr(entry, "kind") for entry in study.certificates)
    certified = f", {count(routed, 'certificate')} each that trains for itself" if routed else ""
    simulated = ", 1 simulation" if study.denoising else ""
    left = event.total - event.done
    failed = f", {event.failed} failed before" if event.failed else ""
    threads = f" of {event.threads} threads" if event.threads > 1 else ""
    place = where or count(event.workers, "worker") + threads
    work = f"{left} to run on {place}" if left else "nothing to run"
    return (
        f"{study.study}: {count(event.total, 'cell')} ({trained}{certified}, 1 split{simulated}),"
        f" {event.done - event.failed} done{failed}, {work}"
    )


def opening(study: Study, event: Event, where: str = "") -> list[str]:
    """Return the lines a run begins with: plan, data, and a hint when a GPU stands idle."""
    lines = [plan_line(study, event, where), *(f" {line}" for line in event.message.splitlines())]
    if event.done < event.total and not where and leaves_gpu_idle(study):
        lines.append(" on the CPU: the study names no device, --device auto uses the GPU here")
    return lines


class LineDisplay:
    """Plain lines for pipes and log files: one per finished cell, few about rounds."""

    def __init__(
        self, study: Study, where: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._study = study
        self._where = where
        self._clock = clock
        self._last = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, event: Event) -> None:
        """Print a line for every event except starts and frequent rounds."""
        now = self._clock()
        if event.kind == "plan":
            for line in opening(self._study, event, self._where):
                typer.echo(line)
        elif event.kind == "round" and now - self._last < _ROUND_LINE_EVERY:
            return
        elif event.kind == "round":
            typer.echo(f" {event.done}/{event.total}  {_name(event)}  {_round(event)}")
        elif event.kind != "start":
            typer.echo(_outcome(event))
        self._last = now
        sys.stdout.flush()


class TableDisplay:
    """A live table of the running cells on a terminal, and lines for what goes wrong."""

    def __init__(self, study: Study, where: str = "") -> None:
        from rich.console import Console
        from rich.live import Live

        self._study = study
        self._where = where
        self._console = Console(markup=False, emoji=False, highlight=False)
        self._cells = CellsInWork()
        self._live = Live(
            console=self._console,
            get_renderable=self._cells.table,
            refresh_per_second=4,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # a terminal that hung up
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Update the table; what it cannot show becomes a line above it."""
        self._cells.hear(event)
        if event.kind == "plan":
            for line in opening(self._study, event, self._where):
                self._console.print(line)
        elif event.kind in ("note", "retry", "held", "failed"):
            # Unbroken: such a line may hold a path that is to be copied.
            self._console.print(_outcome(event), soft_wrap=True)


def _closing(result: RunResult) -> list[str]:
    finished = f"{result.n_done}/{count(result.n_cells, 'cell')}"
    adopted = f", {result.n_adopted} adopted" if result.n_adopted else ""
    took = duration(result.seconds)
    lines = [f" {finished}, {result.n_failed} failed{adopted}, {took}"]
    if result.n_failed:
        lines.append(" failed cells stay failed; add --retry-failed to try them again")
    return lines


def _outcome(event: Event) -> str:
    words = {
        "done": "done",
        "failed": "FAILED",
        "retry": "tried again",
        "held": "left to another run",
        "note": "note",
    }[event.kind]
    cause = f": {event.message}" if event.message else ""
    return f" {event.done}/{event.total}  {_name(event)}  {words}{cause}"


def _name(event: Event) -> str:
    return event.label if event.seed is None else f"{event.label} seed {event.seed}"


def _round(event: Event) -> str:
    loss = "" if event.loss is None else f"  loss {event.loss:.3f}"
    # The engine numbers rounds from 0 and reports each at its end.
    return f"round {0 if event.round is None else event.round + 1}/{event.rounds}{loss}"
