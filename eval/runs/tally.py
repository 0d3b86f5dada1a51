"""Keeping count of a run: what is done, what failed, and the events that say so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from latecomer.errors import CannotWriteError
from latecomer.eval.runs.cell_directory import failure_of, is_done, record_failure
from latecomer.eval.runs.directory import adopt
from latecomer.eval.runs.executor import Report
from latecomer.eval.runs.job import Job, sweep
from latecomer.eval.runs.lock import HeldError, held


@dataclass(frozen=True)
class Event:
    """What the runner reports while it works.

    Attributes
    ----------
    kind : str
        ``plan`` once at the start, then per cell ``start``, ``round`` (at most ten a second),
        ``note``, ``retry``, ``held`` (another run works on it), ``done`` or ``failed``.
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
    workers, threads : int
        Processes of the local executor, and the threads of each as it starts.
    failed : int
        Cells that failed in an earlier run and are not tried again.
    message : str
        Why a cell failed or is tried again, who holds it, or what is unusual; of a plan, the data
        that were read, in lines.
    """

    kind: Literal["plan", "start", "round", "note", "retry", "held", "done", "failed"]
    done: int
    total: int
    workers: int
    cell: str = ""
    label: str = ""
    seed: int | None = None
    round: int | None = None
    rounds: int | None = None
    loss: float | None = None
    failed: int = 0
    message: str = ""
    threads: int = 1


@dataclass(frozen=True)
class Failure:
    """A cell that failed, and why."""

    cell: str
    label: str
    seed: int | None
    message: str


class Tally:
    """Keeps count of the reports, records failures and passes events on."""

    def __init__(
        self, folder: Path, jobs: Sequence[Job], on_event: Callable[[Event], None] | None
    ) -> None:
        self.folder = folder
        self.jobs = jobs
        self.todo: list[Job] = []
        self.workers = 0
        self.n_done = self.n_skipped = self.n_adopted = 0
        self.failures: list[Failure] = []
        self._held: list[Job] = []
        self._on_event = on_event
        self._early: list[tuple[Job, str]] = []
        self.unheard: OSError | None = None  # what kept who listens from it

    def plan(self, sources: Sequence[Path], *, retry_failed: bool) -> None:
        """Find out what is done, what failed and what there is to do."""
        for job in self.jobs:
            if is_done(job.folder):
                sweep(job.folder)
            else:
                self.todo.append(job)
        self.n_skipped = len(self.jobs) - len(self.todo)
        self._early += [
            (job, "its rows are not those it finished with: it is run anew")
            for job in self.todo
            if (job.folder / "done").is_file()
        ]
        if sources:
            taken = adopt(self.todo, sources, lambda *about: self._early.append(about))
            self.n_adopted = len(taken)
            adopted = {job.cell.id for job in taken}
            self.todo = [job for job in self.todo if job.cell.id not in adopted]
        self.n_done = self.n_skipped + self.n_adopted
        failed = [(job, failure_of(job.folder)) for job in self.todo]
        self.todo = [job for job, message in failed if message is None or retry_failed]
        for job, message in failed:
            if message is None:
                continue
            if retry_failed:
                (job.folder / "failed.json").unlink(missing_ok=True)
            else:
                self._count_failure(job, message)

    def announce(self, workers: int, data: str = "", threads: int = 1) -> None:
        """Send the event that tells the plan and what the data are."""
        self.workers = workers
        self._tell("plan", failed=len(self.failures), message=data, threads=threads)
        for job, text in self._early:
            self._tell("note", **_about(job), message=text)

    def listener(self, batch: Sequence[Job]) -> Callable[[Report], None]:
        """Return the function that takes the reports about a batch of jobs."""
        return lambda report: self._hear(batch[report.job], report)

    def take_held(self) -> list[Job]:
        """Return the jobs that, since the last call, turned out to be held by another run."""
        held, self._held = self._held, []
        return held

    def settle(self, job: Job) -> None:
        """Count a cell that another run has finished."""
        message = failure_of(job.folder)
        if is_done(job.folder) or message is None:
            self.n_done += 1
            self._tell("done", **_about(job), message="by another run")
        else:
            self._count_failure(job, message)
            self._tell("failed", **_about(job), message=message)

    def cannot_write(self, cause: str) -> CannotWriteError:
        """Return the error for a disk that cannot be written."""
        done = sum(is_done(job.folder) for job in self.jobs)  # it may be so before they are counted
        safe = f"{done} of {len(self.jobs)} cells are done and safe"
        return CannotWriteError(
            f"{self.folder} cannot be written ({cause}); {safe}: "
            "put that right and the same command continues"
        )

    def _hear(self, job: Job, report: Report) -> None:
        if report.kind == "halted":
            raise self.cannot_write(report.message)
        if report.kind == "failed":
            try:  # its process could not record it itself, if it did not
                if failure_of(job.folder) is None:
                    with held(job.folder):
                        record_failure(job.cell, job.folder, report.message, report.details)
            except HeldError:
                self._held.append(job)
                return
            self._count_failure(job, report.message)
        if report.kind == "done":
            self.n_done += 1
        if report.kind == "held":
            self._held.append(job)
        self._tell(
            report.kind,
            **_about(job),
            round=report.round,
            loss=report.loss,
            message=report.message,
        )

    def _count_failure(self, job: Job, message: str) -> None:
        self.failures.append(Failure(job.cell.id, job.cell.label, job.cell.seed, message))

    def _tell(self, kind: Any, **about: Any) -> None:
        if self._on_event is not None:
            done = self.n_done + len(self.failures)
            told = Event(kind=kind, done=done, total=len(self.jobs), workers=self.workers, **about)
            try:
                self._on_event(told)
            except OSError as error:
                self.unheard = error
                raise


def _about(job: Job) -> dict[str, Any]:
    cell = job.cell
    return {"cell": cell.id, "label": cell.label, "seed": cell.seed, "rounds": cell.rounds}
