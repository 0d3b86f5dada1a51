"""Being asked to stop: Ctrl-C and SIGTERM end a run in order, and a worker with a checkpoint."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

GRACE_SECONDS = 10.0
"""How long workers may take for a last checkpoint."""


def stop_on_sigterm() -> None:
    """Let SIGTERM end this worker process with exit code 143, at any point.

    ``SystemExit`` is raised once; running work writes its last checkpoint as it ends.
    """
    asked = threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:
        if not asked.is_set():
            asked.set()
            raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)


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
