"""What an executor takes and what it tells."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from latecomer.eval.work import Ending, Job

__all__ = ["ONE_THREAD", "Executor", "Report", "Retries", "end", "one_thread"]

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""What a process that carries out cells must find in its environment before its first import."""


@dataclass(frozen=True)
class Report:
    """What became of a job.

    Attributes
    ----------
    kind : str
        ``start``, ``round``, ``note`` and ``retry`` on the way; one of ``done``, ``failed``,
        ``held`` (another runner has the cell) and ``halted`` (nothing can be written) at its end.
    job : int
        Number of the job among those handed over.
    round, loss : int, float
        Of the latest round.
    message, details : str
        A line for the user, and what a developer wants besides.
    """

    kind: Literal["start", "round", "note", "retry", "done", "failed", "held", "halted"]
    job: int
    round: int | None = None
    loss: float | None = None
    message: str = ""
    details: str = ""


class Executor(Protocol):
    """Carries out jobs.

    ``run`` returns when the end of every job has been reported; it reports in the caller's thread.
    Whatever ends it early ends all work in hand too.
    """

    def run(self, jobs: Sequence[Job], on_report: Callable[[Report], None]) -> None:
        """Carry out the jobs."""


def end(number: int, ending: Ending) -> Report:
    """Report how a job ended."""
    return Report(ending.kind, number, message=ending.message, details=ending.details)


class Retries:
    """Whether a cell that was lost is tried again: once, and again when it had got further since.

    A loss is a process that died, a machine that went away, a job that was preempted.  A cell that
    writes checkpoints and is preempted ten times on its way is no cell that kills its process.
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

    def lost_before(self, number: int) -> bool:
        """Whether a job was lost at all."""
        return number in self._stood


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let a process started inside read one thread a library, from its first import on."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
