"""What ``latecomer run`` shows: the plan, progress while it works, and what came out."""

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import typer

from latecomer.eval.runner import Event, RunResult, run
from latecomer.eval.study import Study, load_study
from latecomer.executor_options import Choice
from latecomer.run_summary import summary_lines

if TYPE_CHECKING:
    from rich.progress import TaskID

__all__ = ["BarDisplay", "Display", "LineDisplay", "run_and_report"]

_ROUND_LINE_EVERY = 30.0  # seconds between two plain lines about rounds


class Display(Protocol):
    """Shows the events of a run."""

    def __enter__(self) -> Self:
        """Start showing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop showing."""

    def __call__(self, event: Event) -> None:
        """Show one event."""


def run_and_report(
    name: str,
    overrides: Iterable[str],
    *,
    out: Path | None,
    choice: Choice,
) -> bool:
    """Run a study, write its report and print what came out; False when a cell failed."""
    study = load_study(name, overrides)
    display = BarDisplay if sys.stdout.isatty() else LineDisplay
    show: Display = display(study, choice.where)
    with show:
        result = run(
            study, out=out, workers=choice.workers, executor=choice.executor, on_event=show
        )
    from latecomer.reports.html import report

    page = report(result.path)
    labels = [method.label or method.name for method in study.methods]
    for line in [_closing(result), *summary_lines(result.path, labels=labels)]:
        typer.echo(line)
    typer.echo(f" report       {page}")
    return result.n_failed == 0


def plan_line(study: Study, event: Event, where: str = "") -> str:
    """Say what there is to do, before it starts, and where if not on this machine."""
    trained = f"{_count(len(study.methods), 'method')} x {_count(len(study.seeds), 'seed')}"
    left = event.total - event.done
    place = where or _count(event.workers, "worker")
    work = f"{left} to run on {place}" if left else "nothing to run"
    return (
        f"{study.study}: {_count(event.total, 'cell')} ({trained}, 1 split),"
        f" {event.done} done, {work}"
    )


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
        """Print a line for every event but the quick ones."""
        now = self._clock()
        if event.kind == "plan":
            typer.echo(plan_line(self._study, event, self._where))
        elif event.kind == "round" and now - self._last < _ROUND_LINE_EVERY:
            return
        elif event.kind == "round":
            typer.echo(f" {event.done}/{event.total}  {_name(event)}  {_round(event)}")
        elif event.kind != "start":
            typer.echo(_outcome(event))
        self._last = now
        sys.stdout.flush()


class BarDisplay:
    """A bar per cell in work on a terminal, and a line for every cell that failed."""

    def __init__(self, study: Study, where: str = "") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._study = study
        self._where = where
        self._console = Console(markup=False, emoji=False, highlight=False)
        self._bars = Progress(
            TextColumn(" {task.description}", markup=False),
            TextColumn("{task.fields[state]}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        self._all = self._bars.add_task("cells", total=None, state="", visible=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, event: Event) -> None:
        """Move the bars."""
        self._bars.update(
            self._all,
            total=event.total,
            completed=event.done,
            state=f"{event.done}/{event.total}",
            visible=True,
        )
        if event.kind == "plan":
            self._say(plan_line(self._study, event, self._where))
        elif event.kind == "start":
            self._tasks[event.cell] = self._bars.add_task(
                _name(event), total=event.rounds, state=""
            )
        elif event.kind == "round":
            self._bars.update(
                self._tasks[event.cell], completed=_trained(event), state=_round(event)
            )
        else:
            self._bars.remove_task(self._tasks.pop(event.cell))
            if event.kind != "done":
                self._say(_outcome(event))

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)


def _closing(result: RunResult) -> str:
    minutes, seconds = divmod(round(result.seconds), 60)
    hours, minutes = divmod(minutes, 60)
    took = f"{hours} h {minutes} m" if hours else f"{minutes} m {seconds} s"
    finished = f"{result.n_done}/{_count(result.n_cells, 'cell')}"
    return f" {finished}, {result.n_failed} failed, {took}"


def _outcome(event: Event) -> str:
    words = {"done": "done", "failed": "FAILED", "retry": "tried again"}[event.kind]
    cause = f": {event.message}" if event.message else ""
    return f" {event.done}/{event.total}  {_name(event)}  {words}{cause}"


def _name(event: Event) -> str:
    return event.label if event.seed is None else f"{event.label} seed {event.seed}"


def _round(event: Event) -> str:
    loss = "" if event.loss is None else f"  loss {event.loss:.3f}"
    return f"round {_trained(event)}/{event.rounds}{loss}"


def _trained(event: Event) -> int:
    """Count the rounds that are over: the engine numbers from 0 and tells of each at its end."""
    return 0 if event.round is None else event.round + 1


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
