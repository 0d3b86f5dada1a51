"""Locks of cells: one process works on a cell, whichever machine it runs on.

A lock is a file ``lock.<n>`` in the cell's directory that names its owner and holds a number that
the owner raises every few seconds.  It is made with ``link``, which is atomic on network file
systems too.  A process that finds the owner of ``lock.<n>`` dead makes ``lock.<n + 1>``, which only
one can, and removes ``lock.<n>``; an owner whose file is gone has lost the cell and stops.

Clocks are not compared, since those of two machines differ and any may be reset: an owner is dead
when its process is gone from this machine, or when its number has not moved for `STALE_AFTER`
seconds of an observer's own monotonic clock.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from latecomer.files import make_new, this_boot

# Linux's flag of a process that runs nothing any more and only releases its resources.
_EXITING = 0x4


@dataclass(frozen=True)
class Owner:
    """Who holds a lock."""

    host: str  # name of the machine
    machine: str  # identifies this boot and process namespace; empty where nothing does
    pid: int
    started: int  # in ticks since boot, since process ids are reused
    token: str  # random; no two locks share it
    beat: int = 0  # raised every few seconds

    @property
    def is_here(self) -> bool:
        """Whether its process is visible from this one."""
        return bool(self.machine) and (self.host, self.machine) == _here()

    @property
    def is_dead(self) -> bool:
        """Whether its process is known to be gone; False for one on another machine."""
        return self.is_here and not _runs(self.pid, self.started)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" if self.host else "an unknown process"

    def line(self) -> bytes:
        """Return the content of the lock file, of the same length for every beat."""
        return (json.dumps(asdict(self) | {"beat": f"{self.beat:012d}"}) + "\n").encode()


def this_process() -> Owner:
    """Return this process as the owner of a lock yet to be made."""
    pid = os.getpid()
    return Owner(*_here(), pid, _start_of(pid), secrets.token_hex(8))


def parse_owner(text: str) -> Owner:
    """Read what a lock file holds; an owner without a name when it is torn."""
    try:
        about = json.loads(text)
        return Owner(**about | {"beat": int(about["beat"])})
    except (ValueError, TypeError, KeyError):
        return Owner("", "", 0, 0, text)


def _here() -> tuple[str, str]:
    """Return this host, and an id that is the same for just the processes that see each other."""
    try:
        return socket.gethostname(), f"{this_boot()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname(), f"{sys.platform} {this_boot()}"


def _start_of(pid: int) -> int:
    """Return when a process started, in ticks since boot; 0 if unknown, -1 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    # Whoever waits for a process may hear of its end before it is a zombie.
    is_over = fields[0] in "ZX" or int(fields[6]) & _EXITING
    return -1 if is_over else int(fields[19])


def _runs(pid: int, started: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # another user's, and alive
    now = _start_of(pid)
    return not now or now == started


BEAT_EVERY = 5.0
STALE_AFTER = 60.0
LOCKS = "lock.*"
"""What the names of locks look like."""
_NAME = re.compile(re.escape(LOCKS).replace(r"\*", r"(\d+)"))
_TRIES = 20
_IN_TURN = 0.05  # seconds between looks at a lock that is held for moments


class HeldError(RuntimeError):
    """Another process holds the cell."""


def owner_of(folder: Path) -> Owner | None:
    """Return who holds a cell, dead or alive; None when nobody does."""
    number = max(_numbers(folder), default=None)
    return None if number is None else _read(folder / _named(number))


@contextlib.contextmanager
def held(folder: Path, *, overrules: str = "") -> Iterator["Lock"]:
    """Hold a cell, whose folder is made if need be, while the block runs.

    ``overrules`` is the token of an owner that `Watch` has found dead; any other owner raises
    `HeldError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = _acquire(folder, overrules)
    try:
        lock.start()
        yield lock
    finally:
        lock.release()


@contextlib.contextmanager
def held_in_turn(folder: Path) -> Iterator["Lock"]:
    """Hold a folder while the block runs, once whoever holds it has let go of it or is dead."""
    watch = Watch()
    with contextlib.ExitStack() as stack:
        while True:
            owner, is_free = watch.look(folder)
            token = owner.token if owner and is_free else ""
            try:
                lock = stack.enter_context(held(folder, overrules=token))
                break
            except HeldError:
                time.sleep(_IN_TURN)
        yield lock


def free(folder: Path) -> None:
    """Remove the lock of an owner that is known to be dead; any other lock stays."""
    owner = owner_of(folder)
    if owner is None or not owner.is_dead:
        return
    # A directory that cannot be written stays as it is; somebody else may be faster.
    with contextlib.suppress(HeldError, OSError), held(folder):
        pass


class Watch:
    """Watches locks of other processes and tells whose owners are dead.

    The clock is monotonic, unaffected by changes of the date.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, stale_after: float | None = None
    ) -> None:
        self._clock = clock
        self._stale_after = STALE_AFTER if stale_after is None else stale_after
        self._seen: dict[Path, tuple[Owner, float]] = {}

    def look(self, folder: Path) -> tuple[Owner | None, bool]:
        """Return who holds a cell, and whether it is free to take: unheld, or its owner dead."""
        owner = owner_of(folder)
        if owner is None or owner.is_dead:
            self._seen.pop(folder, None)
            return owner, True
        seen, since = self._seen.get(folder, (None, 0.0))
        now = self._clock()
        if seen != owner:
            self._seen[folder] = (owner, now)
            return owner, False
        return owner, now - since >= self._stale_after


class Lock:
    """A lock that this process holds."""

    def __init__(self, path: Path, owner: Owner) -> None:
        self.path = path
        self.owner = owner
        self.lost = False  # whether another process was seen to have taken over
        self._over = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="lock", daemon=True)

    def start(self) -> None:
        """Begin to show that the owner is alive."""
        self._beats.start()

    def check(self) -> None:
        """Raise `HeldError` if another process has taken over; called before any write."""
        if self.lost or not self._is_mine():
            self.lost = True
            raise HeldError("another process has taken over the cell")

    def release(self) -> None:
        """Release the lock."""
        self._over.set()
        if self._beats.is_alive():
            self._beats.join()
        with contextlib.suppress(OSError):
            if self._is_mine():
                self.path.unlink()

    def _is_mine(self) -> bool:
        holder = _read(self.path)
        return holder is not None and holder.token == self.owner.token

    def _beat(self) -> None:
        count = 0
        while not self._over.wait(BEAT_EVERY):
            count += 1
            try:
                if not self._is_mine():
                    self.lost = True
                    return
                # In place: a file renamed over it could replace that of a new owner.
                with self.path.open("r+b") as file:
                    file.write(replace(self.owner, beat=count).line())
                    file.flush()
                    os.fsync(file.fileno())
            except OSError:
                continue  # full disk or lost network: others wait for longer than that


def _acquire(folder: Path, overrules: str) -> Lock:
    owner = this_process()
    for attempt in range(_TRIES):
        numbers = _numbers(folder)
        top = max(numbers, default=0)
        before = _read(folder / _named(top)) if top else None
        if top and before is None:
            continue  # released just now
        if before is not None and not (before.is_dead or before.token == overrules):
            raise HeldError(f"{before} is working on it")
        path = folder / _named(top + 1)
        if not make_new(path, owner.line()):
            continue  # somebody else was faster: look who
        # Is only the dead owner's lock there besides?  If not, others have acted since the check.
        after = _read(folder / _named(top)) if top else None
        expected = {*numbers, top + 1}
        if set(_numbers(folder)) == expected and (after and after.token) == (
            before and before.token
        ):
            for number in numbers:
                (folder / _named(number)).unlink(missing_ok=True)
            return Lock(path, owner)
        path.unlink(missing_ok=True)
        time.sleep(0.01 * attempt * (1 + secrets.randbelow(4)))
    raise HeldError("several processes want it at once")


def _named(number: int) -> str:
    return LOCKS.replace("*", str(number))


def _numbers(folder: Path) -> list[int]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [int(match[1]) for match in map(_NAME.fullmatch, names) if match]


def _read(path: Path) -> Owner | None:
    """Read a lock; an owner without a name when it is torn, None when there is no such file."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return None
        raise
    return parse_owner(text)
