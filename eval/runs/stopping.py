"""Being asked to stop: Ctrl-C, or a signal as `STOPPING` has them, ends a run in order.

A worker ends with a checkpoint.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

GRACE_SECONDS = 10.0
"""How long workers may take for a last checkpoint."""


STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""What schedulers, and terminals that close, send to a program before they end it."""


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


def stop_on_signals() -> None:
    """Let a signal of `STOPPING` end this worker process, with exit code 143 for SIGTERM.

    ``SystemExit`` is raised once, at any point unless put off; running work writes its last
    checkpoint as it ends.  What whoever started the process ignores, as ``nohup`` does, stays so.
    """
    _stop.code, _stop.put_off, _stop.raised = None, False, False
    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop.ask)


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
def signals_interrupt() -> Iterator[None]:
    """Let a signal of `STOPPING` raise ``KeyboardInterrupt`` in the block, as Ctrl-C does.

    Only in the main thread, and only if nothing else handles the signal or ignores it.
    """
    first = threading.current_thread() is threading.main_thread()
    free = [one for one in STOPPING if first and signal.getsignal(one) is signal.SIG_DFL]
    for number in free:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in free:
            signal.signal(number, signal.SIG_DFL)
