"""Being asked to stop: Ctrl-C and SIGTERM end a run in order, and a worker with a checkpoint."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

GRACE_SECONDS = 10.0
"""How long workers may take for a last checkpoint."""


@dataclass
class _Stop:
    """What this process was asked, and whether it must wait."""

    code: int | None = None
    put_off: bool = False
    raised: bool = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        if self.code is None:
            self.code = 128 + number
            self.leave()

    def leave(self) -> None:
        if self.waits() and not self.put_off:
            self.raised = True
            raise SystemExit(self.code)

    def waits(self) -> bool:
        return self.code is not None and not self.raised


_stop = _Stop()


def stop_on_sigterm() -> None:
    """Let SIGTERM end this worker process with exit code 143, at any point unless put off.

    ``SystemExit`` is raised once; running work writes its last checkpoint as it ends.
    """
    _stop.code, _stop.put_off, _stop.raised = None, False, False
    signal.signal(signal.SIGTERM, _stop.ask)


def put_off_stop() -> None:
    """Let a stop that is asked for from now on wait for :func:`allow_stop`."""
    _stop.put_off = True


def allow_stop() -> None:
    """Stop here if that was asked for meanwhile, and from now on at any point."""
    _stop.put_off = False
    _stop.leave()


def stop_waits() -> bool:
    """Return whether this process was asked to stop and has not begun to."""
    return _stop.waits()


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM raise ``KeyboardInterrupt`` while the block runs, as Ctrl-C does.

    Only in the main thread, and only if nothing else handles SIGTERM.
    """
    first = threading.current_thread() is threading.main_thread()
    if not first or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
