"""Cells as jobs of a Slurm cluster, through submitit."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latecomer.checks import at_least, one_of
from latecomer.errors import InputError
from latecomer.eval.runs.elsewhere import (
    Errand,
    Lost,
    NoRoom,
    Refusal,
    carry_out_elsewhere,
    dispatch,
)
from latecomer.eval.runs.executor import Report, worker_environment, worker_variables
from latecomer.eval.runs.job import Ending, Job
from latecomer.eval.runs.stopping import GRACE_SECONDS, stop_on_signals


@dataclass(frozen=True)
class _Pace:
    """How often a cluster is asked, in seconds."""

    poll: float  # between two looks for results
    ask: float  # between two questions to Slurm about a job that has left no result
    late: float  # how long a result may take to show up once the job is over
    requeue: float  # how long a preempted job may take to be queued again


_PACES = {"slurm": _Pace(2.0, 60.0, 30.0, 120.0), "local": _Pace(0.1, 0.0, 1.0, 0.0)}


@dataclass(frozen=True, kw_only=True)
class SlurmExecutor:
    """Slurm jobs, one a cell.

    The run directory must lie on a file system that all nodes share; the jobs' output goes to its
    folder ``slurm`` and is kept for jobs that did not end well.  A job that is preempted, runs out
    of time or memory, or whose node fails, is submitted once more, and further times as long as it
    writes new checkpoints.
    """

    # Jobs at a time, waiting ones included; as many as Slurm takes unless given.
    workers: int | None = None
    # As for ``sbatch``.
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    exclude: str | None = None
    time: int = 240  # limit of a job, in minutes
    cpus_per_cell: int = 1  # several are for the clients of its trainings
    gpus_per_cell: int = 0
    memory_per_cell: float | None = None  # memory of a job, in GiB
    setup: str | None = None  # a shell command that a job runs first, such as ``module load cuda``
    # ``slurm``, or ``local``: processes on this machine in place of jobs, to try things out.
    cluster: str = "slurm"

    def __post_init__(self) -> None:
        at_least("workers", self.workers, 1)
        at_least("time", self.time, 1)
        at_least("cpus-per-cell", self.cpus_per_cell, 1)
        at_least("gpus-per-cell", self.gpus_per_cell, 0)
        at_least("memory-per-cell", self.memory_per_cell, 0)
        one_of("cluster", self.cluster, tuple(_PACES))

    @property
    def where(self) -> str:
        """Where cells are carried out, in words."""
        if self.cluster == "local":
            return "this machine, as Slurm jobs would"
        return f"Slurm, partition {self.partition}" if self.partition else "Slurm"

    def check(self) -> None:
        """Refuse a machine that cannot submit jobs."""
        from shutil import which

        absent = [tool for tool in ("sbatch", "srun", "sacct", "scancel") if which(tool) is None]
        if self.cluster == "slurm" and absent:
            raise InputError(
                f"the executor 'slurm' needs Slurm's {absent[0]}, which is not on this machine:"
                " start the study on a login node"
            )

    def run(self, jobs: Sequence[Job], on_report: Callable[[Report], None]) -> None:
        """Carry out the jobs, as many at a time as Slurm gives room to."""
        self.check()
        if jobs:
            logs = jobs[0].folder.resolve().parent.parent / "slurm"
            cpus = self.cpus_per_cell
            dispatch(_Jobs(self, logs), jobs, on_report, at_most=self.workers, cpus_per_cell=cpus)
            with contextlib.suppress(OSError):
                logs.rmdir()  # stays if it holds anything

    def parameters(self) -> dict[str, Any]:
        """Return the parameters for submitit."""
        given: dict[str, Any] = {
            "name": "latecomer",
            "timeout_min": self.time,
            "cpus_per_task": self.cpus_per_cell,
            "gpus_per_node": self.gpus_per_cell or None,
            "mem_gb": self.memory_per_cell,
            "slurm_setup": [
                *(f"export {name}={value}" for name, value in worker_variables().items()),
                *([self.setup] if self.setup else []),
            ],
        }
        given |= {
            f"slurm_{name}": getattr(self, name)
            for name in ("partition", "account", "qos", "constraint", "exclude")
        }
        return {name: value for name, value in given.items() if value is not None}


def carry_out_in_job(errand: Errand) -> Ending | Refusal:
    """Carry out a cell in a Slurm job, whose time limit and preemption come as signals.

    By itself submitit ends a job that cannot checkpoint itself with an error on these signals; here
    a cell writes its last checkpoint and exits without a result, which counts as lost.
    """
    stop_on_signals()
    warned_by = getattr(signal, "SIG" + os.environ.get("SUBMITIT_PREEMPT_SIGNAL", "USR2"))
    signal.signal(warned_by, signal.getsignal(signal.SIGTERM))
    return carry_out_elsewhere(errand)


class _Jobs:
    """The jobs of a run."""

    def __init__(self, wanted: SlurmExecutor, logs: Path) -> None:
        import submitit

        self._executor = submitit.AutoExecutor(logs, cluster=wanted.cluster)
        self._executor.update_parameters(**wanted.parameters())
        self._pace = _PACES[wanted.cluster]
        self._asked: dict[str, float] = {}
        self._since: dict[str, float] = {}

    def send(self, errand: Errand) -> Any:
        import submitit

        try:
            with worker_environment():
                job = self._executor.submit(carry_out_in_job, errand)
        except (submitit.core.utils.FailedJobError, OSError) as error:
            said = " ".join(str(error).split())
            raise NoRoom(f"Slurm takes no job: {said}") from error
        self._asked[job.job_id] = time.monotonic()
        return job

    def wait(self, handles: Sequence[Any]) -> None:
        time.sleep(self._pace.poll)

    def outcome(self, handle: Any) -> Ending | Refusal | Lost | None:
        """Return what became of a job: its result, or what Slurm says if it left none."""
        import submitit

        if handle.paths.result_pickle.exists():
            try:
                ending: Ending | Refusal = handle.result()
            except submitit.core.utils.UncompletedJobError as error:
                cause = [line for line in str(error).splitlines() if "Error" in line]
                said = cause[-1].strip() if cause else "its job left an error"
                return Refusal(f"a job could not begin: {said}; see {handle.paths.stderr}")
            if isinstance(ending, Ending) and ending.kind == "done":
                _tidy(handle)
            return ending
        now = time.monotonic()
        ask = now - self._asked[handle.job_id] >= self._pace.ask
        if ask:
            self._asked[handle.job_id] = now
        over = handle.done(force_check=ask)
        state = str(handle.state)
        preempted = state.startswith("PREEMPTED")
        if not (over or preempted):
            self._since.pop(handle.job_id, None)
            return None
        since = self._since.setdefault(handle.job_id, now)
        if now - since < (self._pace.late if over else self._pace.requeue):
            return None
        if preempted:
            handle.cancel(check=False)  # in case it was requeued after all
        return Lost(f"its job {handle.job_id} left no result, its state is {state}")

    def cancel(self, handles: Sequence[Any]) -> None:
        for handle in handles:
            handle.cancel(check=False)
        deadline = time.monotonic() + 2 * GRACE_SECONDS
        while any(handle.state == "RUNNING" for handle in handles):
            if time.monotonic() >= deadline:
                return  # Slurm ends the rest
            time.sleep(self._pace.poll)


def _tidy(job: Any) -> None:
    """Remove the files of a job that ended well."""
    paths = job.paths
    pickles = paths.submitted_pickle, paths.result_pickle
    for path in (*pickles, paths.submission_file, paths.stdout, paths.stderr):
        with contextlib.suppress(OSError):
            path.unlink()
