"""Keeping count of a run: what is done, what failed, and who else is told.

A tracker is called with a `Scalar` for every reported round (at most ten a second) and, when a cell
is done, for each of its numbers over clients.  It only listens: if it raises, its error is reported
once and the run goes on without it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol

from latecomer.errors import CannotWriteError, InputError
from latecomer.eval.results.rows import read_rows
from latecomer.eval.runs.cell_directory import failure_of, is_done, record_failure
from latecomer.eval.runs.directory import adopt
from latecomer.eval.runs.executor import Report
from latecomer.eval.runs.job import Job, sweep
from latecomer.eval.runs.lock import HeldError, held
from latecomer.eval.shifts.populations import function_at


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
            try:
                self._record(job, report)
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

    def _record(self, job: Job, report: Report) -> None:
        """Record a failure that the cell's process could not record itself."""
        if failure_of(job.folder) is None:
            with held(job.folder):
                record_failure(job.cell, job.folder, report.message, report.details)

    def _count_failure(self, job: Job, message: str) -> None:
        self.failures.append(Failure(job.cell.id, job.cell.label, job.cell.seed, message))

    def _tell(self, kind: Any, **about: Any) -> None:
        if self._on_event is not None:
            done = self.n_done + len(self.failures)
            self._on_event(
                Event(kind=kind, done=done, total=len(self.jobs), workers=self.workers, **about)
            )


def _about(job: Job) -> dict[str, Any]:
    cell = job.cell
    return {"cell": cell.id, "label": cell.label, "seed": cell.seed, "rounds": cell.rounds}


@dataclass(frozen=True)
class Scalar:
    """One number of a run.

    Attributes
    ----------
    series : str
        Label of the method and training seed: ``"pefll seed 0"``.
    name : str
        What it is: ``train/loss``, ``novel/error``, ``novel/error@blur 1``,
        ``certificate/r0:product``.
    value : float
    step : int
        Rounds trained by then.
    """

    series: str
    name: str
    value: float
    step: int


Tracker = Callable[[Scalar], None]


class _Open(Protocol):
    """A tracker that is opened for a run and closed after it."""

    def __init__(self, study: str, out: Path) -> None: ...

    def __call__(self, scalar: Scalar) -> None: ...

    def close(self) -> None: ...


class _TensorBoard:
    """Event files in ``tensorboard`` of the run directory, a folder per series."""

    def __init__(self, study: str, out: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise _lacks("tensorboard") from error
        self._make, self._folder = SummaryWriter, out / "tensorboard"
        self._writers: dict[str, Any] = {}

    def __call__(self, scalar: Scalar) -> None:
        if scalar.series not in self._writers:
            self._writers[scalar.series] = self._make(str(self._folder / scalar.series))
        self._writers[scalar.series].add_scalar(scalar.name, scalar.value, scalar.step)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class _Mlflow:
    """An experiment named after the study, a run per series, stored as MLflow's settings say."""

    def __init__(self, study: str, out: Path) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise _lacks("mlflow") from error
        self._client = MlflowClient()
        known = self._client.get_experiment_by_name(study)
        self._experiment = known.experiment_id if known else self._client.create_experiment(study)
        self._runs: dict[str, str] = {}

    def __call__(self, scalar: Scalar) -> None:
        if scalar.series not in self._runs:
            made = self._client.create_run(self._experiment, run_name=scalar.series)
            self._runs[scalar.series] = made.info.run_id
        # MLflow's names have letters, digits and "_-. :/".
        name = "".join(c if c.isalnum() or c in "_-. :/" else " at " for c in scalar.name)
        self._client.log_metric(self._runs[scalar.series], name, scalar.value, step=scalar.step)

    def close(self) -> None:
        for run in self._runs.values():
            self._client.set_terminated(run)


TRACKERS: Mapping[str, type[_Open]] = MappingProxyType(
    {"tensorboard": _TensorBoard, "mlflow": _Mlflow}
)
"""Trackers by name; anything else is the import path of a function that takes a `Scalar`."""


def _lacks(name: str) -> InputError:
    return InputError(f'track: {name} is not installed; pip install "latecomer[{name}]"')


class _Own:
    """A function of the user's own."""

    def __init__(self, path: str) -> None:
        legal = f"track must be {', '.join(TRACKERS)} or module:function"
        self._function: Tracker = function_at(path, "track", legal)

    def __call__(self, scalar: Scalar) -> None:
        self._function(scalar)

    def close(self) -> None:
        """Do nothing: a function needs no closing."""


class _Listener:
    """Turns the events of a run into scalars, and is silent after the first error."""

    def __init__(self, tracker: _Open | _Own, out: Path, say: Callable[[str], None]) -> None:
        self._tracker, self._out, self._say = tracker, out, say
        self._broken = False

    def close(self) -> None:
        self._try(self._tracker.close)

    def __call__(self, event: Event) -> None:
        if not self._broken:
            self._try(lambda: self._tell(event))

    def _tell(self, event: Event) -> None:
        series = event.label if event.seed is None else f"{event.label} seed {event.seed}"
        if event.kind == "round" and event.loss is not None and event.round is not None:
            self._tracker(Scalar(series, "train/loss", event.loss, event.round + 1))
        elif event.kind == "done":
            folder = self._out / "cells" / event.cell
            for name, value in results_of(folder / "rows.csv"):
                self._tracker(Scalar(series, name, value, event.rounds or 0))

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever a server or a user's function raises
            self._broken = True
            said = " ".join(f"{type(error).__name__}: {error}".split())
            self._say(f"tracking stopped, the run goes on: {said}")


@contextmanager
def tracked(
    names: tuple[str, ...], study: str, out: Path, say: Callable[[str], None]
) -> Iterator[Callable[[Event], None]]:
    """Open trackers for a run and yield the function that passes its events to them.

    Parameters
    ----------
    names : tuple of str
        Names in `TRACKERS`, or import paths ``module:function`` and ``file.py:function``.
    study : str
        Name of the study.
    out : Path
        The run directory.
    say : callable
        Called with a line about a tracker that stopped.

    Raises
    ------
    InputError
        When a tracker is unknown or not installed, before any work.
    """
    made = [TRACKERS[name](study, out) if name in TRACKERS else _Own(name) for name in names]
    listeners = [_Listener(tracker, out, say) for tracker in made]

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    try:
        yield tell
    finally:
        for listener in listeners:
            listener.close()


def results_of(rows: Path) -> Iterator[tuple[str, float]]:
    """Yield name and value of every number over clients in a cell's rows.

    Means over clients are ``group/metric``, with the shift after an ``@``; certificates are
    ``certificate/bound``; ``novel/gap`` is the error of new minus that of seen clients.
    """
    frame = read_rows(rows)
    certified = frame["metric"] == "certificate"
    means = (frame["aggregation"] == "per-client") & (frame["client"] == "") & ~certified
    for row in frame[means & frame["value"].notna()].to_dict("records"):
        moved = row["shift"] not in ("", "none")
        severity = f" {row['severity']:g}" if moved and row["severity"] == row["severity"] else ""
        shift = f"@{row['shift']}{severity}" if moved else ""
        # A row holds the gap of accuracies, people read that of errors: positive is worse.
        value = -row["value"] if row["metric"] == "gap" else row["value"]
        yield f"{row['group']}/{row['metric']}{shift}", float(value)
    for row in frame[certified & frame["value"].notna()].to_dict("records"):
        yield f"certificate/{row['bound']}", float(row["value"])
