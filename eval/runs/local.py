"""Cells in processes on this machine."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.spawn import get_preparation_data

from latecomer.checks import at_least
from latecomer.errors import InputError
from latecomer.eval.runs.executor import (
    Report,
    Retries,
    cores_here,
    end,
    threads_of_a_cell,
    worker_environment,
)
from latecomer.eval.runs.job import Job, attempt
from latecomer.eval.runs.lock import free
from latecomer.eval.runs.stopping import GRACE_SECONDS, STOPPING, stop_on_signals

_ENDS = ("done", "failed", "held", "halted")
_REPORT_EVERY = 0.1  # seconds between two round reports of a worker
# A worker that is asked to stop ends in order, with the code of a shell for what has asked.
_ASKED = {128 + number: -number for number in STOPPING}
_SHORT = "; the machine may be short of memory"
_UNGUARDED = 78  # of a worker in which its script would have started the run again


@dataclass(frozen=True)
class LocalExecutor:
    """Processes on this machine, every one working through cells.

    Cores go to cells first, then to the clients of cells: when fewer cells than cores are left,
    each has several threads for its clients.

    A process that dies costs only the cell it was working on, which is tried again from its last
    checkpoint as `Retries` decides.  If the process was killed, as by a machine that runs out of
    memory, the cell is tried alone, after all others.  Workers end when the process that started
    them ends.

    Workers import the script that called anew, so that it must start nothing as it is imported.
    """

    # Cores to use, all of them unless given; never more processes than there are jobs.
    workers: int | None = None
    # GiB that a cell needs: no more processes are started than free memory has room for.
    memory_per_cell: float | None = None
    # As ``CUDA_VISIBLE_DEVICES`` names them: each process sees the one that the fewest others use.
    gpus: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        at_least("workers", self.workers, 1)
        at_least("memory-per-cell", self.memory_per_cell, 0)

    def threads(self, at_once: int) -> int:
        """Return how many threads each of so many cells has; on a GPU one."""
        here = cores_here()
        return 1 if self.gpus else threads_of_a_cell(min(self.workers or here, here), at_once)

    def processes(self) -> int:
        """Return how many processes there will be at most; refuse to run without room for one."""
        wanted = self.workers or cores_here()
        if not self.memory_per_cell:
            return wanted
        return min(wanted, int(_free_memory(self.memory_per_cell) // self.memory_per_cell))

    def run(self, jobs: Sequence[Job], on_report: Callable[[Report], None]) -> None:
        """Carry out the jobs in their order, as many at a time as there are workers."""
        most = self.processes()
        waiting = deque(range(len(jobs)))
        alone: deque[int] = deque()
        retries = Retries(jobs)
        workers: list[_Worker] = []

        def hand_out() -> None:
            busy = [worker for worker in workers if worker.job is not None]
            idle = [worker for worker in workers if worker.job is None]
            if not waiting and not busy and alone:
                waiting.append(alone.popleft())
            while waiting and (idle or len(workers) < most):
                if not idle:
                    workers.append(_Worker(_least_used(self.gpus, workers)))
                    idle.append(workers[-1])
                worker, number = idle.pop(), waiting.popleft()
                left = len(waiting) + sum(one.job is not None for one in workers) + 1
                worker.job = number
                job = replace(jobs[number], threads=self.threads(min(most, left)))
                with contextlib.suppress(OSError):  # it died: handled below
                    worker.connection.send((number, job))

        def lost(worker: _Worker) -> None:
            workers.remove(worker)
            number, reason = worker.job, worker.bury()
            _check_began(worker)
            if number is None:
                return
            if retries.due(number):
                (alone if worker.killed() else waiting).appendleft(number)
                on_report(Report("retry", number, message=f"its process {reason}"))
            else:
                message = f"its process {reason}, twice{_SHORT if worker.killed() else ''}"
                on_report(Report("failed", number, message=message, details=message))

        try:
            while waiting or alone or any(worker.job is not None for worker in workers):
                hand_out()
                ready = set(wait([each for worker in workers for each in worker.ends()]))
                for worker in [worker for worker in workers if ready.intersection(worker.ends())]:
                    alive = worker.process.is_alive()  # asked first: no report is missed
                    for report in worker.reports():
                        on_report(report)
                    if not alive:
                        lost(worker)
            for worker in workers:
                worker.connection.close()
            for worker in workers:
                worker.process.join(timeout=5)
        except BaseException:
            _stop(workers)
            raise
        finally:
            for worker in workers:
                worker.bury()
                if worker.job is not None:  # it had no time or chance to unlock its cell
                    free(jobs[worker.job].folder)


def refuse_to_start_again() -> None:
    """End this process if it is a worker that imports the script which called `run`.

    The script has no main guard, then, and the process that started the worker says so: here it
    would be one more message a worker.
    """
    # The same mark by which multiprocessing refuses to start a process at this point.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(_UNGUARDED)


_GUARD = 'put what starts the run below `if __name__ == "__main__":`'


def _check_script() -> None:
    """Refuse a script that workers cannot import, as one that comes from standard input."""
    path = get_preparation_data("worker").get("init_main_from_path")
    if path is not None and not os.path.isfile(path):
        raise InputError(
            "cells run in processes of their own, which read the script again, and there is no"
            f" file {os.path.basename(path)}: put the script into a file, with {_GUARD[4:]}"
        )


def _check_began(worker: "_Worker") -> None:
    """Refuse to go on where a process ended, unasked, before it took a cell."""
    code = worker.process.exitcode or 0
    if worker.began or code <= 0 or code in _ASKED:
        return
    if code == _UNGUARDED:
        raise InputError(
            f"cells run in processes of their own, which read the script again: {_GUARD}"
        )
    raise InputError(
        f"a worker ended with exit code {code} before it took a cell: it reads the script again,"
        f" so {_GUARD}"
    )


def _free_memory(wanted: float) -> float:
    """Return the GiB that processes can use without pushing out others."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file)
        free = int(facts["MemAvailable"].split()[0]) / 2**20
    except (OSError, KeyError, ValueError):
        raise InputError("memory-per-cell: this system does not say what is free") from None
    if free < wanted:
        raise InputError(
            f"memory-per-cell must be at most the {free:.1f} GiB that are free on this machine,"
            f" got {wanted:g}"
        )
    return free


def _least_used(gpus: Sequence[str], workers: Sequence["_Worker"]) -> str | None:
    """Return the GPU that the fewest workers use; None if there is no GPU."""
    taken = Counter(worker.gpu for worker in workers)
    return min(gpus, key=lambda gpu: taken[gpu], default=None)


class _Worker:
    """A process and the job it is working on."""

    def __init__(self, gpu: str | None = None) -> None:
        self.gpu = gpu
        _check_script()
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(other,), daemon=True)
        self.job: int | None = None
        self.began = False
        with worker_environment(gpu), _no_interrupt():
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
            self.began = True
            if report.kind in _ENDS:
                self.job = None
            yield report

    def killed(self) -> bool:
        return self.process.exitcode == -signal.SIGKILL

    def bury(self) -> str:
        """End the process if it still runs, and say how it ended."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.connection.close()
        code = self.process.exitcode or 0
        code = _ASKED.get(code, code)
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"


def _stop(workers: Sequence[_Worker]) -> None:
    """Ask the processes to stop and give them time for a last checkpoint."""
    for worker in workers:
        worker.process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for worker in workers:
        worker.process.join(timeout=max(0.0, deadline - time.monotonic()))


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Hide Ctrl-C from a process started inside; its parent handles it."""
    resource_tracker.ensure_running()  # starting it unblocks the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection) -> None:
    """Carry out jobs until the parent closes the connection."""
    stop_on_signals()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            number, job = connection.recv()
        except EOFError:
            return
        connection.send(Report("start", number))
        connection.send(_carry_out(number, job, connection))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _carry_out(number: int, job: Job, connection: Connection) -> Report:
    last = 0.0

    def on_round(count: int, loss: float) -> None:
        nonlocal last
        if time.monotonic() - last >= _REPORT_EVERY:
            last = time.monotonic()
            connection.send(Report("round", number, round=count, loss=loss))

    def on_note(text: str) -> None:
        connection.send(Report("note", number, message=text))

    return end(number, attempt(job, on_round, on_note))
