"""Who holds a lock, identified among all processes of all machines."""

import json
import os
import secrets
import socket
import sys
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

# Linux's flag of a process that runs nothing any more and only releases its resources.
_EXITING = 0x4


@dataclass(frozen=True)
class Owner:
    """Who holds a lock.

    Attributes
    ----------
    host : str
        Name of the machine.
    machine : str
        Identifies this boot and process namespace; empty where nothing does.
    pid, started : int
        Process id, and when it started in ticks since boot, since process ids are reused.
    token : str
        Random; no two locks share it.
    beat : int
        Raised every few seconds.
    """

    host: str
    machine: str
    pid: int
    started: int
    token: str
    beat: int = 0

    @property
    def is_here(self) -> bool:
        """Whether its process is visible from this one."""
        return bool(self.machine) and (self.host, self.machine) == (_host(), _machine())

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
    return Owner(_host(), _machine(), pid, _start_of(pid), secrets.token_hex(8))


def parse_owner(text: str) -> Owner:
    """Read what a lock file holds; an owner without a name when it is torn."""
    try:
        about = json.loads(text)
        return Owner(**about | {"beat": int(about["beat"])})
    except (ValueError, TypeError, KeyError):
        return Owner("", "", 0, 0, text)


def _host() -> str:
    return socket.gethostname()


def _machine() -> str:
    """Return an id that is the same for exactly the processes that see each other."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{sys.platform} {uuid.getnode():x}"


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
