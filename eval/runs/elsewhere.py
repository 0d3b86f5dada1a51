"""The loop that sends cells to other machines, watches them and reports how they ended."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from latecomer.errors import InputError
from latecomer.eval.runs.cell_directory import is_done
from latecomer.eval.runs.executor import Report, Retries, end
from latecomer.eval.runs.job import Ending, Job
from latecomer.eval.runs.progress import last_entry
from latecomer.eval.runs.remote_worker import Board, Errand, Refusal, Setting, board_in

_LATE = 60.0  # seconds that a shared file system may take to show a finished cell

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
) -> None:
    """Carry out jobs on a cluster, ``at_most`` at a time (all if None).

    Raises
    ------
    InputError
        When a worker cannot work on this study: it does not see the run directory, or has other
        versions.
    """
    if not jobs:
        return
    setting = Setting.here()
    waiting = deque(range(len(jobs)))
    retries = Retries(jobs)
    attempts = [0] * len(jobs)
    out: dict[int, _Sent[Handle]] = {}
    with board_in(jobs[0].folder.resolve().parent.parent) as board:
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
        attempts[number] += 1
        errand = Errand.of(number, attempts[number], jobs[number], board, setting)
        try:
            handle = cluster.send(errand)
        except NoRoom as full:
            if not out:
                raise InputError(str(full)) from full
            attempts[number] -= 1
            return
        waiting.popleft()
        out[number] = _Sent(errand, handle)


def _check_seen(job: Job, ending: Ending) -> None:
    """Wait until the files of a cell that a worker finished can be seen from here."""
    deadline = time.monotonic() + _LATE
    while ending.kind == "done" and not is_done(job.folder):
        if time.monotonic() >= deadline:
            raise InputError(
                f"a worker finished {job.folder}, but its rows do not show up here: the run"
                " directory must lie on a file system that every worker shares"
            )
        time.sleep(0.2)
