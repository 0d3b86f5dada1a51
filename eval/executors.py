"""Executors: where the cells of a study are carried out.

An executor takes jobs and reports what becomes of them; it decides nothing about what a cell is.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Literal, Protocol

from latecomer.eval.stopping import GRACE_SECONDS, stop_on_sigterm
from latecomer.eval.work import Job, attempt

__all__ = ["Executor", "LocalExecutor", "Report"]

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_ENDS = ("done", "failed", "held", "halted")
_REPORT_EVERY = 0.1  # seconds between two round reports of a worker


@dataclass(frozen=True)
class Report:
    """What became of a job.

    ``start``, ``round``, ``note`` and ``retry`` are on the way; ``done``, ``failed``, ``held`` and
    ``halted`` are its end (`latecomer.eval.work.Ending`).
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
    Whatever ends it early ends all work in hand too, which gets some seconds for a checkpoint.
    """

    def run(self, jobs: Sequence[Job], on_report: Callable[[Report], None]) -> None:
        """Carry out the jobs."""


@dataclass(frozen=True)
class LocalExecutor:
    """Processes on this machine, one thread each, every one working through cells.

    A process that dies (out of memory, SIGKILL) costs only the cell it was working on, and that
    cell gets one more try.  Workers end when the process that started them ends.

    Attributes
    ----------
    workers : int
        How many processes; never more than there are jobs.
    """

    workers: int

    def run(self, jobs: Sequence[Job], on_report: Callable[[Report], None]) -> None:
        """Carry out the jobs in their order, as many at a time as there are workers."""
        waiting = deque(range(len(jobs)))
        retried: set[int] = set()
        workers: list[_Worker] = []

        def lost(worker: _Worker) -> None:
            workers.remove(worker)
            number, reason = worker.job, worker.bury()
            if number is None:
                return
            if number in retried:
                message = f"its process {reason}, twice; the machine may be short of memory"
                on_report(Report("failed", number, message=message, details=message))
            else:
                retried.add(number)
                waiting.appendleft(number)
                on_report(Report("retry", number, message=f"its process {reason}"))

        try:
            while waiting or any(worker.job is not None for worker in workers):
                idle = [worker for worker in workers if worker.job is None]
                while waiting and (idle or len(workers) < self.workers):
                    if not idle:
                        workers.append(_Worker())
                        idle.append(workers[-1])
                    worker, number = idle.pop(), waiting.popleft()
                    worker.job = number
                    on_report(Report("start", number))
                    with contextlib.suppress(OSError):  # it died: seen below
                        worker.connection.send((number, jobs[number]))
                ready = set(wait([end for worker in workers for end in worker.ends()]))
                for worker in [worker for worker in workers if ready.intersection(worker.ends())]:
                    alive = worker.process.is_alive()  # asked first: what it said last counts
                    for report in worker.reports():
                        on_report(report)
                    if not alive:
                        lost(worker)
            for worker in workers:
                worker.connection.close()
            for worker in workers:
                worker.process.join(timeout=5)
        finally:
            _dismiss(workers)


def _dismiss(workers: Sequence["_Worker"]) -> None:
    """End workers: with a request and some seconds for a checkpoint, then without."""
    try:
        for worker in workers:
            worker.process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        for worker in workers:
            worker.process.join(timeout=max(0.0, deadline - time.monotonic()))
    finally:
        for worker in workers:
            worker.bury()


class _Worker:
    """A process and the job it has in hand."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(other,), daemon=True)
        self.job: int | None = None
        with _one_thread(), _no_interrupt():
            self.process.start()
        other.close()

    def ends(self) -> tuple[Connection, int]:
        return self.connection, self.process.sentinel

    def reports(self) -> Iterator[Report]:
        """Yield what has arrived; a message cut short by the end of the process is dropped."""
        while True:
            try:
                if not self.connection.poll():
                    return
                report: Report = self.connection.recv()
            except (EOFError, OSError):
                return
            if report.kind in _ENDS:
                self.job = None
            yield report

    def bury(self) -> str:
        """End the process if it has not ended, and say how it ended."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.connection.close()
        code = self.process.exitcode or 0
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let a process started inside read one thread a library, from its first import on."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Let a process started inside never see Ctrl-C, which is for its parent to answer."""
    resource_tracker.ensure_running()  # starting it unblocks the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection) -> None:
    """Carry out jobs until the parent closes the connection."""
    stop_on_sigterm()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            number, job = connection.recv()
        except EOFError:
            return
        connection.send(_attempt(number, job, connection))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _attempt(number: int, job: Job, connection: Connection) -> Report:
    last = 0.0

    def on_round(count: int, loss: float) -> None:
        nonlocal last
        if time.monotonic() - last >= _REPORT_EVERY:
            last = time.monotonic()
            connection.send(Report("round", number, round=count, loss=loss))

    def on_note(text: str) -> None:
        connection.send(Report("note", number, message=text))

    ending = attempt(job, on_round, on_note)
    return Report(ending.kind, number, message=ending.message, details=ending.details)
