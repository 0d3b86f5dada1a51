"""The work of several clients in the threads of one process, with the results of one thread.

Within a round clients do not depend on each other, and torch lets other threads run while it
computes. Threads change no number: every client's operations are the same, on tensors of its own,
and results are gathered in the clients' order. So no setting of a study names them; whoever starts
a process says how many cores it has for its clients.

Work comes as generators, one a client, that yield where another thread may go on with it. Most
clients stay with one thread; the last few are passed on, so that five clients keep two threads
busy to the end. Nothing that belongs to a thread (torch's gradient mode, say) may be held across a
``yield``, and nothing may draw from torch's own generator, which all threads share.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from torch import device

    from latecomer.models.task.task import Task

T = TypeVar("T")
S = TypeVar("S")
Work = Generator[None, None, T]
"""One client's work; its return value is the result."""

_PARTS = 10
"""Pieces that a client's work is cut into where it may be passed on."""


class _Crew:
    """The threads that work beside the one that asks for results."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.helpers = ThreadPoolExecutor(count - 1, "clients") if count > 1 else None


_ALONE = _Crew(1)
_CREW: ContextVar[_Crew] = ContextVar("crew", default=_ALONE)


@contextmanager
def client_threads(count: int) -> Iterator[None]:
    """Let the clients of cohorts, and those that are served, work in ``count`` threads.

    It holds for the calling thread and for CPUs. Give each thread one core: with
    ``OMP_NUM_THREADS=1`` in the environment, or after ``torch.set_num_threads(1)``. ``count``, at
    least 1, includes the calling one.

    >>> with client_threads(2):
    ...     each(lambda client: client**2, [1, 2, 3])
    [1, 4, 9]
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"count must be a whole number of at least 1, got count={count!r}")
    crew = _Crew(count)
    token = _CREW.set(crew)
    try:
        yield
    finally:
        _CREW.reset(token)
        if crew.helpers is not None:
            crew.helpers.shutdown()


def thread_count() -> int:
    """Return how many threads clients work in here; 1 unless :func:`client_threads` says more."""
    return _CREW.get().count


def in_threads(task: "Task", device: "device", n_samples: int) -> bool:
    """Tell whether passes of clients over so many samples are to run in several threads."""
    return thread_count() > 1 and device.type == "cpu" and task.gains_from_threads(n_samples)


def piece(n_steps: int) -> int:
    """Return how many of ``n_steps`` steps are taken before another thread may go on.

    >>> piece(50), piece(3)
    (5, 1)
    """
    return max(n_steps // _PARTS, 1)


def alone(work: "Work[T]") -> T:
    """Do one client's work in the calling thread and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def finished(works: Sequence["Work[T]"], *, apart: bool = True) -> list[T]:
    """Do the work of clients, not begun yet, and return their results, in order.

    ``apart``: whether it may be done in several threads.
    """
    crew = _CREW.get()
    if not apart or crew.helpers is None or len(works) < 2:
        return [alone(work) for work in works]
    shift = _Shift(works, crew.count)
    mine = _CREW.set(_ALONE)
    beside = [crew.helpers.submit(shift.of_helper) for _ in range(shift.count - 1)]
    try:
        shift.work()
    except BaseException:
        shift.over = True
        raise
    finally:
        _CREW.reset(mine)
        for helper in beside:
            helper.result()
    return shift.results()


def each(act: Callable[[S], T], things: Sequence[S], *, apart: bool = True) -> list[T]:
    """Return ``act`` of each thing, in order; the things are clients that share nothing."""
    return finished([_whole(partial(act, one)) for one in things], apart=apart)


def _whole(act: Callable[[], T]) -> "Work[T]":
    return act()
    yield  # makes it a generator


class _Shift(Generic[T]):
    """Works in the hands of several threads."""

    def __init__(self, works: Sequence["Work[T]"], count: int) -> None:
        import torch

        self.count = min(count, len(works))
        self.over = False
        self._works = works
        self._waiting = deque(range(len(works)))
        uneven = len(works) % self.count
        # The last of them are passed on from hand to hand, or some threads would end early.
        self._passed_on = len(works) - (self.count + uneven if uneven else 0)
        self._ends: dict[int, T] = {}
        self._errors: dict[int, BaseException] = {}
        self._mode = torch.is_grad_enabled(), torch.get_num_threads()

    def of_helper(self) -> None:
        """Work in a thread that knows nothing of the one that asked."""
        import torch

        grad, n_threads = self._mode
        if torch.get_num_threads() != n_threads:  # which also lets torch see to the others' count
            torch.set_num_threads(n_threads)
        with torch.set_grad_enabled(grad):
            self.work()

    def work(self) -> None:
        """Take up waiting works until there are none."""
        while not self.over:
            try:
                place = self._waiting.popleft()
            except IndexError:
                return
            work = self._works[place]
            try:
                while not self.over:
                    next(work)
                    if place >= self._passed_on:
                        self._waiting.append(place)
                        break
            except StopIteration as end:
                self._ends[place] = end.value
            except Exception as error:
                self._errors[place] = error
                self.over = True

    def results(self) -> list[T]:
        """Return the results in order, or raise the error of the first client that had one."""
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._ends[place] for place in range(len(self._works))]
