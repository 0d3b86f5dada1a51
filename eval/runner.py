"""The runner: a study and a directory to rows, once per cell, however often it is interrupted."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from latecomer.eval.errors import InputError
from latecomer.eval.executors import Executor, LocalExecutor, Report
from latecomer.eval.run_directory import check_directory, count_scorings, declare, merge
from latecomer.eval.study import Study
from latecomer.eval.work import Job, is_done, record_failure

__all__ = ["Event", "Failure", "RunResult", "run"]

EVALUATE = "latecomer.eval.protocol:evaluate_cell"


@dataclass(frozen=True)
class Event:
    """What the runner tells while it works.

    Attributes
    ----------
    kind : str
        ``plan`` once at the start, then per cell ``start``, ``round`` (at most ten a second),
        ``retry``, ``done`` or ``failed``.
    cell, label : str
        Id of the cell and label of its method (``split`` for the split's own cell).
    seed : int or None
        Training seed.
    round, rounds : int or None
        Number of the round just finished, from 0, and rounds to train.
    loss : float or None
        Training loss of the round.
    done, total : int
        Cells that are finished (failed ones included) and cells of the study.
    workers : int
        Processes of the local executor.
    message : str
        Why a cell failed or is tried again.
    """

    kind: Literal["plan", "start", "round", "retry", "done", "failed"]
    done: int
    total: int
    workers: int
    cell: str = ""
    label: str = ""
    seed: int | None = None
    round: int | None = None
    rounds: int | None = None
    loss: float | None = None
    message: str = ""


@dataclass(frozen=True)
class Failure:
    """A cell that failed, and why."""

    cell: str
    label: str
    seed: int | None
    message: str


@dataclass(frozen=True)
class RunResult:
    """What a run came to.

    Attributes
    ----------
    path : Path
        The run directory; ``path / "rows.csv"`` holds all rows.
    n_cells, n_done, n_failed : int
        Cells of the study; finished, earlier runs included; failed.
    n_skipped : int
        Cells that an earlier run had finished.
    failures : tuple of Failure
    seconds : float
        Wall time of this call.
    """

    path: Path
    n_cells: int
    n_done: int
    n_failed: int
    n_skipped: int
    failures: tuple[Failure, ...]
    seconds: float


def run(
    study: Study,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    on_event: Callable[[Event], None] | None = None,
    executor: Executor | None = None,
    evaluate: str = EVALUATE,
) -> RunResult:
    """Run the cells of a study that are not done yet and merge the rows of all.

    Data and split are made once before anything is written, so that what cannot work leaves no
    trace.  A cell that fails becomes a row with its error; the others go on.  A run that was killed
    continues when it is called again and ends with the same rows.  Cells run in processes started
    afresh: a script that calls this needs ``if __name__ == "__main__":``.

    Parameters
    ----------
    study : Study
        What `load_study` gives.
    out : str or Path, optional
        The run directory; ``runs/<study>`` unless given.
    workers : int, optional
        Processes; as many as cores (or as cells to run) unless given.
    on_event : callable, optional
        Called with an `Event` in this process and thread.
    executor : Executor, optional
        Where cells are carried out; processes on this machine unless given.
    evaluate : str
        ``"module:function"`` that does the work of a cell.

    Returns
    -------
    RunResult

    Raises
    ------
    InputError
        For data that cannot be read, a split that cannot exist, and a directory that holds another
        study or something else.
    KeyboardInterrupt
        After the workers have been stopped; its message says how to continue.
    """
    began = time.monotonic()
    if workers is not None and (isinstance(workers, bool) or workers < 1):
        raise InputError(f"workers must be an integer of at least 1, got {workers!r}")
    folder = Path(out) if out is not None else Path("runs") / study.study
    check_directory(folder, study)
    prepared = _prepare(study)
    cells = study.cells(prepared.data_hash)
    jobs = [Job(cell, folder / "cells" / cell.id, evaluate) for cell in cells]
    todo = [job for job in jobs if not is_done(job.folder)]
    declare(folder, study, cells, fresh=bool(todo))

    n_workers = min(workers or os.cpu_count() or 1, max(len(todo), 1))
    tally = _Tally(todo, len(jobs), n_workers, on_event)
    try:
        if todo:
            (executor or LocalExecutor(n_workers)).run(todo, tally.hear)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped with {tally.n_skipped + tally.n_done} of {len(jobs)} cells done; "
            f"the same command continues in {folder}"
        ) from None
    merge(folder, jobs)
    count_scorings(folder, jobs, prepared.split_hash, prepared.n_certification)
    return RunResult(
        path=folder,
        n_cells=len(jobs),
        n_done=tally.n_skipped + tally.n_done,
        n_failed=len(tally.failures),
        n_skipped=tally.n_skipped,
        failures=tuple(tally.failures),
        seconds=time.monotonic() - began,
    )


class _Tally:
    """Keeps count of the reports, records failures and passes events on."""

    def __init__(
        self,
        todo: Sequence[Job],
        total: int,
        workers: int,
        on_event: Callable[[Event], None] | None,
    ) -> None:
        self.todo = todo
        self.total = total
        self.workers = workers
        self.on_event = on_event
        self.n_skipped = total - len(todo)
        self.n_done = 0
        self.failures: list[Failure] = []
        self._tell("plan")

    def hear(self, report: Report) -> None:
        job = self.todo[report.job]
        cell = job.cell
        if report.kind == "failed":
            record_failure(job, report.message, report.details)
            self.failures.append(Failure(cell.id, cell.label, cell.seed, report.message))
        if report.kind == "done":
            self.n_done += 1
        self._tell(
            report.kind,
            cell=cell.id,
            label=cell.label,
            seed=cell.seed,
            round=report.round,
            rounds=cell.rounds,
            loss=report.loss,
            message=report.message,
        )

    def _tell(self, kind: Any, **about: Any) -> None:
        if self.on_event is not None:
            done = self.n_skipped + self.n_done + len(self.failures)
            self.on_event(
                Event(kind=kind, done=done, total=self.total, workers=self.workers, **about)
            )


@dataclass(frozen=True)
class _Prepared:
    data_hash: str
    split_hash: str
    n_certification: int


def _prepare(study: Study) -> _Prepared:
    """Make data, split and shifts once: what cannot be made is found here."""
    from latecomer.eval.federation import build_federation, federation_settings

    resolved = study.resolved()
    federation = build_federation(federation_settings(resolved))
    split = federation.split
    if study.train.cohort > len(split.seen):
        raise InputError(
            f"train.cohort must be at most the number of seen clients, {len(split.seen)}, "
            f"got {study.train.cohort}"
        )
    for index, wanted in enumerate(study.certificates):
        wanted.check_split(f"certificates.{index}", split)
    return _Prepared(federation.data_hash, split.content_hash, len(split.certification))
