"""What a cell reports while it trains: ``progress.jsonl``, a line per round."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class RoundLog(Protocol):
    """What a training loop reports after a round."""

    @property
    def round(self) -> int:
        """Number of the round."""

    @property
    def loss(self) -> float:
        """Training loss of the round."""

    @property
    def reason(self) -> str:
        """Why clients did not train in the way requested; empty if they did."""


@dataclass(frozen=True)
class Place:
    """A position in the file, and the work up to it.

    Attributes
    ----------
    size : int
        Bytes before it.
    seconds : float
        Time worked on the cell until then, earlier attempts included.
    """

    size: int = 0
    seconds: float = 0.0


class Progress:
    """Writes the file; what an earlier attempt wrote after its last checkpoint is removed.

    Parameters
    ----------
    path : Path
        The file; what it holds stays until the first line is written or `close` is called.
    clock : callable
        Monotonic clock, in seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._kept = Place()
        self._began = clock()
        self._file: Any = None

    def keep(self, place: Place) -> None:
        """Keep what was written up to a place, and continue from there."""
        if place.size >= self._kept.size:
            self._kept = place
            self._began = self._clock()

    def seconds(self) -> float:
        """Return the time worked on the cell, without lost work."""
        return round(self._kept.seconds + self._clock() - self._began, 3)

    def log(self, entry: RoundLog) -> None:
        """Write a line about a round."""
        line: dict[str, Any] = {"round": int(entry.round), "loss": float(entry.loss)}
        if entry.reason:
            line["reason"] = entry.reason
        self._write({**line, "seconds": self.seconds()})

    def note(self, message: str) -> None:
        """Write a line about something unusual."""
        self._write({"note": message, "seconds": self.seconds()})

    def place(self) -> Place:
        """Return the current position in the file."""
        return Place(self._open().tell(), self.seconds())

    def sync(self) -> None:
        """Wait until all of the file is on the disk."""
        os.fsync(self._open().fileno())

    def finish(self) -> None:
        """Remove what is not kept even if no line was written since."""
        self._open()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        file = self._open()
        file.write((json.dumps(line) + "\n").encode())
        file.flush()

    def _open(self) -> Any:
        if self._file is None:
            self._path.touch()
            self._file = self._path.open("r+b")
            whole = self._file.read(self._kept.size)
            # A machine that crashed may have lost the end and cut the line before it.
            self._file.truncate(whole.rfind(b"\n") + 1)
            self._file.seek(0, os.SEEK_END)
        return self._file


def last_entry(path: Path) -> dict[str, Any]:
    """Return the last whole line about a round, ``{}`` where there is none.

    An incomplete last line is skipped: the file may be read while it is written.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().split(b"\n")
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "round" in entry:
            return entry
    return {}
