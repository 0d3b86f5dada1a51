"""Cells sent to other machines: the loop that watches them, and what a worker there does.

A worker elsewhere reads and writes the run directory, which must lie on a file system that it
shares with the process that runs the study.  A folder in it, the board, shows each that the other
is there: the study's process puts a token in it, a worker a sign that it has begun.
"""

import contextlib
import json
import os
import platform
import signal
import socket
import sys
import sysconfig
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from latecomer.errors import InputError
from latecomer.eval.devices import lacking
from latecomer.eval.runs.cell_directory import is_done, last_entry
from latecomer.eval.runs.executor import ONE_THREAD, Report, Retries, end, threads_of_a_cell
from latecomer.eval.runs.job import Ending, Job, attempt
from latecomer.eval.runs.stopping import STOPPING, stop_on_signals
from latecomer.files import own_folder

BOARDS = ".workers-"
"""How the names of boards begin."""
_LATE_FILE = 10.0  # seconds that a shared file system may take to show a new file
_PACKAGES = ("latecomer", "torch", "numpy")


@dataclass(frozen=True)
class Setting:
    """What a worker elsewhere must have in common with the process that runs the study."""

    folder: str  # working directory, to which paths in a study may be relative
    # Import paths besides installed packages; methods from outside may lie there.
    path: tuple[str, ...]
    variables: Mapping[str, str]  # environment variables whose names start with ``LATECOMER_``
    versions: Mapping[str, str]  # versions that rows depend on

    @classmethod
    def here(cls) -> "Setting":
        """Return the setting of this process."""
        installed = tuple(sysconfig.get_paths().values())
        own = [
            str(Path(entry).resolve())
            for entry in sys.path
            if "site-packages" not in entry and "dist-packages" not in entry
        ]
        ours = {name: value for name, value in os.environ.items() if name.startswith("LATECOMER_")}
        return cls(
            folder=str(Path.cwd()),
            path=tuple(entry for entry in own if not entry.startswith(installed)),
            variables=ours,
            versions={"Python": ".".join(platform.python_version_tuple()[:2])}
            | {name: metadata.version(name) for name in _PACKAGES},
        )

    def adopt(self) -> str:
        """Take over folder, paths and variables; say which version differs, if one does."""
        here = Setting.here()
        for name, version in self.versions.items():
            if here.versions[name] != version:
                return (
                    f"has {name} {here.versions[name]}, the study was started with {version}:"
                    " rows would not be comparable"
                )
        os.environ.update(self.variables)
        sys.path += [entry for entry in self.path if entry not in here.path]
        with contextlib.suppress(OSError):
            os.chdir(self.folder)
        return ""


@dataclass(frozen=True)
class Board:
    """The folder where the process of a study and its workers see each other."""

    folder: Path
    token: str  # content of the file of that name in it

    def is_seen(self) -> bool:
        """Whether the token can be read here; a file system may show it late."""
        deadline = time.monotonic() + _LATE_FILE
        while True:
            with contextlib.suppress(OSError):
                if (self.folder / "token").read_text("utf-8") == self.token:
                    return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.2)

    def sign(self, number: int, attempt: int, **about: object) -> None:
        """Add a line to the file of an attempt."""
        with contextlib.suppress(OSError), self._path(number, attempt).open("a") as file:
            file.write(json.dumps(about) + "\n")

    def signs(self, number: int, attempt: int) -> list[dict[str, str]]:
        """Return the lines that an attempt has written so far, except an incomplete last one."""
        try:
            lines = self._path(number, attempt).read_text("utf-8").split("\n")[:-1]
        except OSError:
            return []
        return [json.loads(line) for line in lines]

    def _path(self, number: int, attempt: int) -> Path:
        return self.folder / f"{number}-{attempt}.jsonl"


@contextlib.contextmanager
def board_in(run: Path) -> Iterator[Board]:
    """Make a board in a run directory, and remove it at the end."""
    with own_folder(run, BOARDS) as folder:
        board = Board(folder, uuid.uuid4().hex)
        (board.folder / "token").write_text(board.token, "utf-8")
        yield board


@dataclass(frozen=True)
class Errand:
    """A job for a worker elsewhere; all its paths are absolute."""

    number: int  # of the job
    attempt: int  # from 1; 2 is the first retry
    job: Job
    board: Board
    setting: Setting


@dataclass(frozen=True)
class Refusal:
    """Why the machine that a cell was sent to can carry out no cell of the study."""

    message: str


def carry_out_elsewhere(errand: Errand) -> Ending | Refusal:
    """Carry out a cell on the machine where this is called.

    The environment variables of `ONE_THREAD` must have been set when the process began.
    """
    where = socket.gethostname()
    run = errand.job.folder.parent.parent
    if not errand.board.is_seen():
        return Refusal(
            f"the worker on {where} does not see {run}: the run directory must lie on a file"
            " system that every worker shares, under the same path"
        )
    many = {name for name, value in ONE_THREAD.items() if os.environ.get(name) != value}
    if many:
        return Refusal(f"the worker on {where} was not started with {min(many)}=1")
    trouble = errand.setting.adopt()
    if trouble:
        return Refusal(f"the worker on {where} {trouble}")
    config = errand.job.cell.config
    reason = lacking((config.get("train") or {}).get("device"))
    if reason:
        return Refusal(
            f"the worker on {where} cannot compute with train.device=cuda: {reason}; cells get a"
            " GPU by --gpus-per-cell"
        )
    number, count = errand.number, errand.attempt
    errand.board.sign(number, count, kind="start", host=where, pid=str(os.getpid()))
    before = {each: signal.getsignal(each) for each in STOPPING}
    stop_on_signals()
    try:
        return attempt(
            errand.job,
            lambda _round, _loss: None,  # progress.jsonl has them
            lambda text: errand.board.sign(number, count, kind="note", message=text),
        )
    except SystemExit as stop:
        os._exit(stop.code if isinstance(stop.code, int) else 1)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


_LATE_CELL = 60.0  # seconds that a shared file system may take to show a finished cell

Handle = TypeVar("Handle")


@dataclass(frozen=True)
class Lost:
    """An errand that will bring no result, and why."""

    reason: str


class NoRoom(Exception):
    """The cluster accepts no further errand now."""


class Cluster(Protocol[Handle]):
    """Machines that errands are sent to."""

    def send(self, errand: Errand) -> Handle:
        """Send an errand; raise `NoRoom` when no more are taken."""

    def wait(self, handles: Sequence[Handle]) -> None:
        """Return when there may be news, in a few seconds at the latest."""

    def outcome(self, handle: Handle) -> Ending | Refusal | Lost | None:
        """Return what became of an errand, None while it has not ended."""

    def cancel(self, handles: Sequence[Handle]) -> None:
        """Cancel errands, waiting or running."""


@dataclass
class _Sent(Generic[Handle]):
    """An errand that has been sent."""

    errand: Errand
    handle: Handle
    signs: int = 0
    round: int | None = None
    begun: bool = False

    def news(self) -> list[Report]:
        """Return the worker's reports since the last call."""
        number, job = self.errand.number, self.errand.job
        signs = self.errand.board.signs(number, self.errand.attempt)[self.signs :]
        self.signs += len(signs)
        reports = []
        for sign in signs:
            if sign["kind"] == "start":
                self.begun = True
                reports.append(Report("start", number))
            else:
                reports.append(Report("note", number, message=sign["message"]))
        entry = last_entry(job.folder / "progress.jsonl") if self.begun else {}
        if entry and entry["round"] != self.round:
            self.round = entry["round"]
            reports.append(Report("round", number, round=entry["round"], loss=entry["loss"]))
        return reports


def dispatch(
    cluster: Cluster[Handle],
    jobs: Sequence[Job],
    on_report: Callable[[Report], None],
    *,
    at_most: int | None,
    cpus_per_cell: float,
) -> None:
    """Carry out jobs on a cluster, ``at_most`` at a time (all if None).

    It ends where a worker cannot work on this study: it does not see the run directory, or has
    other versions.
    """
    if not jobs:
        return
    threads = threads_of_a_cell(cpus_per_cell, 1)
    jobs = [replace(job, folder=job.folder.resolve(), threads=threads) for job in jobs]
    setting = Setting.here()
    waiting = deque(range(len(jobs)))
    retries = Retries(jobs)
    attempts = [0] * len(jobs)
    out: dict[int, _Sent[Handle]] = {}
    with board_in(jobs[0].folder.parent.parent) as board:
        try:
            while waiting or out:
                _send(cluster, jobs, waiting, attempts, out, board, setting, at_most)
                cluster.wait([sent.handle for sent in out.values()])
                for number, sent in list(out.items()):
                    outcome = cluster.outcome(sent.handle)  # asked first: no news is missed
                    for report in sent.news():
                        on_report(report)
                    if outcome is None:
                        continue
                    del out[number]
                    if isinstance(outcome, Refusal):
                        raise InputError(outcome.message)
                    if not sent.begun:
                        on_report(Report("start", number))
                    if not isinstance(outcome, Lost):
                        _check_seen(sent.errand.job, outcome)
                        on_report(end(number, outcome))
                    elif retries.due(number):
                        waiting.append(number)
                        on_report(Report("retry", number, message=outcome.reason))
                    else:
                        message = f"{outcome.reason}; so was its first try"
                        on_report(Report("failed", number, message=message, details=message))
        finally:
            cluster.cancel([sent.handle for sent in out.values()])


def _send(
    cluster: Cluster[Handle],
    jobs: Sequence[Job],
    waiting: deque[int],
    attempts: list[int],
    out: dict[int, _Sent[Handle]],
    board: Board,
    setting: Setting,
    at_most: int | None,
) -> None:
    """Send waiting jobs while there is room."""
    while waiting and (at_most is None or len(out) < at_most):
        number = waiting[0]
        errand = Errand(number, attempts[number] + 1, jobs[number], board, setting)
        try:
            handle = cluster.send(errand)
        except NoRoom as full:
            if not out:
                raise InputError(str(full)) from full
            return
        attempts[number] += 1
        out[waiting.popleft()] = _Sent(errand, handle)


def _check_seen(job: Job, ending: Ending) -> None:
    """Wait until the files of a cell that a worker finished can be seen from here."""
    deadline = time.monotonic() + _LATE_CELL
    while ending.kind == "done" and not is_done(job.folder):
        if time.monotonic() >= deadline:
            raise InputError(
                f"a worker finished {job.folder}, but its rows do not show up here: the run"
                " directory must lie on a file system that every worker shares"
            )
        time.sleep(0.2)
