"""What an executor takes and what it tells."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from latecomer.eval.runs.job import Ending, Job

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Environment variables that a process running cells must have before its first import."""

# By default glibc returns memory that a round frees to the system, and the next round pays for the
# same pages again.  Allocations up to the first size are kept for reuse, the second bounds what a
# process may keep.  Other C libraries ignore these.
_KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),  # the most that every glibc accepts
    "MALLOC_TRIM_THRESHOLD_": str(512 * 2**20),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}
_LARGER_THAN_A_LAYER = {"MALLOC_MMAP_THRESHOLD_": str(128 * 2**20)}  # glibc 2.35 and newer


@dataclass(frozen=True)
class Report:
    """What became of a job."""

    # ``start``, ``round``, ``note`` and ``retry`` on the way; one of ``done``, ``failed``, ``held``
    # (another runner has the cell) and ``halted`` (nothing can be written) at its end.
    kind: Literal["start", "round", "note", "retry", "done", "failed", "held", "halted"]
    job: int  # index of the job in the list given to `Executor.run`
    round: int | None = None  # the latest
    loss: float | None = None
    message: str = ""  # a line for the user
    details: str = ""  # for a developer


def cores_here() -> int:
    """Return how many cores this process may use: those of its own job, under Slurm."""
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(free or 1, _number("SLURM_CPUS_PER_TASK") or free or 1)


def threads_of_a_cell(cores: float, at_once: int) -> int:
    """Return how many threads each of several cells has: cores go to cells first.

    ``OMP_NUM_THREADS`` is the most that a process may have, where it is set.

    >>> threads_of_a_cell(3, 2)
    1
    """
    shared = max(int(cores) // max(at_once, 1), 1)
    return min(shared, _number("OMP_NUM_THREADS") or shared)


def _number(variable: str) -> int:
    """Return the number above 0 that an environment variable holds; 0 without one."""
    value = os.environ.get(variable, "").strip()
    return int(value) if value.isdecimal() else 0


class Executor(Protocol):
    """Carries out jobs.

    ``run`` returns when the end of every job has been reported; it reports in the caller's thread.
    If it ends early, all running work is ended too.
    """

    def run(self, jobs: Sequence[Job], on_report: Callable[[Report], None]) -> None:
        """Carry out the jobs."""


def end(number: int, ending: Ending) -> Report:
    """Report how a job ended."""
    return Report(ending.kind, number, message=ending.message, details=ending.details)


class Retries:
    """Decides whether a cell that was lost is tried again.

    A loss is a process that died, a machine that went away or a job that was preempted.  A cell is
    tried again after its first loss, and after a later one only if it has written a checkpoint
    since the last.  So a cell may be preempted ten times; one that kills its process runs twice.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._stood: dict[int, list[str]] = {}

    def due(self, number: int) -> bool:
        """Note the loss of a job and say whether it is tried again."""
        saved = (self._jobs[number].folder / "checkpoints").glob("*.json")
        stands = sorted(path.name for path in saved)
        stood = self._stood.get(number)
        self._stood[number] = stands
        return stands != stood


def worker_variables(*, here: bool = False) -> dict[str, str]:
    """Return what to set in a worker's environment: `ONE_THREAD`, and how memory is kept.

    Memory settings already in this process's environment are left unchanged.  ``here``: the worker
    runs on this machine, with this C library.
    """
    if "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return dict(ONE_THREAD)
    wanted = _KEPT_MEMORY | (_LARGER_THAN_A_LAYER if here and _glibc() >= (2, 35) else {})
    kept = {name: value for name, value in wanted.items() if name not in os.environ}
    return ONE_THREAD | kept


def _glibc() -> tuple[int, ...]:
    """Return the version of glibc; empty if the C library is another one."""
    try:
        name, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
        return tuple(int(part) for part in version.split(".")) if name == "glibc" else ()
    except (ValueError, OSError):
        return ()


@contextlib.contextmanager
def worker_environment(gpu: str | None = None) -> Iterator[None]:
    """Give a process started inside a worker's environment, from its first import on.

    ``gpu`` is the only GPU that it will see.
    """
    variables = worker_variables(here=True)
    if gpu is not None:
        variables = {**variables, "CUDA_VISIBLE_DEVICES": gpu}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
