"""Cells on a Ray cluster that is already there."""

import contextlib
import logging
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from latecomer.checks import at_least
from latecomer.errors import InputError
from latecomer.eval.runs.elsewhere import Errand, Lost, Refusal, carry_out_elsewhere, dispatch
from latecomer.eval.runs.executor import Report, worker_variables
from latecomer.eval.runs.job import Ending, Job
from latecomer.eval.runs.stopping import GRACE_SECONDS, STOPPING

_POLL = 0.5  # seconds between two looks at what has ended
_ANSWER = 10.0  # seconds that a cluster may take to answer
_GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class RayExecutor:
    """Tasks on an existing Ray cluster, one a cell.

    The run directory must lie on a file system that all nodes share, and all must have the same
    versions of Python, latecomer, torch and numpy; a node that differs ends the run with one
    line.  A cell whose worker or node is lost gets one more try, on any node that has room, and
    further tries as long as it writes new checkpoints.
    """

    # The cluster's ``host:port`` or ``ray://host:port``; ``auto`` looks at ``RAY_ADDRESS`` and for
    # a node on this machine.
    address: str = "auto"
    workers: int | None = None  # cells at a time; as many as the cluster has room for unless given
    # What a cell is declared to need; several CPUs are for the clients of its trainings.
    cpus_per_cell: float = 1
    gpus_per_cell: float = 0
    memory_per_cell: float | None = None  # GiB

    def __post_init__(self) -> None:
        at_least("workers", self.workers, 1)
        at_least("cpus-per-cell", self.cpus_per_cell, 0)
        at_least("gpus-per-cell", self.gpus_per_cell, 0)
        at_least("memory-per-cell", self.memory_per_cell, 0)

    @property
    def where(self) -> str:
        """Where cells are carried out, in words."""
        return "a Ray cluster" if self.address == "auto" else f"the Ray cluster at {self.address}"

    def check(self) -> None:
        """Refuse a cluster that does not answer."""
        with self._connection():
            pass

    def run(self, jobs: Sequence[Job], on_report: Callable[[Report], None]) -> None:
        """Carry out the jobs, as many at a time as there is room for."""
        with self._connection() as ray:
            if jobs and not self._has_room(ray):
                waits = "no node of the cluster has what a cell needs; cells wait until one joins"
                on_report(Report("note", 0, message=waits))
            task = ray.remote(carry_out_elsewhere).options(
                num_cpus=self.cpus_per_cell,
                num_gpus=self.gpus_per_cell,
                memory=self._memory() or None,
                max_retries=0,
                name="latecomer cell",
                runtime_env={"env_vars": worker_variables()},
            )
            cpus = self.cpus_per_cell
            dispatch(_Tasks(ray, task), jobs, on_report, at_most=self.workers, cpus_per_cell=cpus)

    def _memory(self) -> int:
        return math.ceil((self.memory_per_cell or 0) * _GIB)

    def _has_room(self, ray: Any) -> bool:
        """Whether some node could take a cell if it had nothing else to do."""
        needs = {"CPU": self.cpus_per_cell, "GPU": self.gpus_per_cell, "memory": self._memory()}
        return any(
            node["Alive"] and all(node["Resources"].get(what, 0) >= n for what, n in needs.items())
            for node in ray.nodes()
        )

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        """Connect to the cluster; the caller's connection, if any, is used and kept open."""
        _knock(os.environ.get("RAY_ADDRESS", "auto") if self.address == "auto" else self.address)
        import ray

        if ray.is_initialized():
            yield ray
            return
        handlers = {each: signal.getsignal(each) for each in (*STOPPING, signal.SIGINT)}
        try:
            ray.init(address=self.address, log_to_driver=False, logging_level=logging.CRITICAL)
        except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
            cause = " ".join(str(error).split()) or type(error).__name__
            raise InputError(f"address {self.address}: no Ray cluster answers: {cause}") from error
        finally:
            # Ray's handler exits at once on SIGTERM; a program that runs studies has a better one.
            for each, handler in handlers.items():
                signal.signal(each, handler)
        try:
            yield ray
        finally:
            ray.shutdown()


class _Tasks:
    """The tasks of a run on the cluster."""

    def __init__(self, ray: Any, task: Any) -> None:
        self._ray = ray
        self._task = task

    def send(self, errand: Errand) -> Any:
        return self._task.remote(errand)

    def wait(self, handles: Sequence[Any]) -> None:
        self._ray.wait(list(handles), num_returns=1, timeout=_POLL)

    def outcome(self, handle: Any) -> Ending | Refusal | Lost | None:
        if not self._ray.wait([handle], timeout=0)[0]:
            return None
        errors = self._ray.exceptions
        try:
            ending: Ending | Refusal = self._ray.get(handle)
        except (errors.RayTaskError, errors.RuntimeEnvSetupError) as error:
            return Refusal(f"a Ray worker could not begin: {_lines(error)[-1]}")
        except errors.RayError as error:
            return Lost(f"its Ray worker was lost: {_first_sentence(error)}")
        return ending

    def cancel(self, handles: Sequence[Any]) -> None:
        """Interrupt tasks, give them time for a last checkpoint, and kill what is left."""
        if not handles:
            return
        self._cancel(handles, force=False)
        deadline = time.monotonic() + GRACE_SECONDS
        left = list(handles)
        try:
            while left and time.monotonic() < deadline:
                left = self._ray.wait(left, num_returns=len(left), timeout=_POLL)[1]
        finally:
            self._cancel(left, force=True)

    def _cancel(self, handles: Sequence[Any], *, force: bool) -> None:
        for handle in handles:
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.cancel(handle, force=force)


def _knock(address: str) -> None:
    """Refuse an address where nothing listens; Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdecimal()):
        return  # "auto", or something that Ray itself reports
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"address {address}: no Ray cluster answers: {error}") from error


def _first_sentence(error: BaseException) -> str:
    """Return the first sentence of an error, without Ray's advice."""
    said = _lines(error)[0].split(". ")[0].rstrip(".")
    return f"{type(error).__name__}: {said}"


def _lines(error: BaseException) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()] or ["no word why"]
