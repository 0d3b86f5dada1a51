"""What the directory of a cell says, and how far a run is; loads no torch."""

import errno
import hashlib
import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from latecomer.errors import InputError
from latecomer.eval.results.kept_cells import (
    cells_of,
    declared_study,
    listed_cells,
    mapping_of_cell,
    rows_file,
    run_folder,
)
from latecomer.eval.runs.lock import LOCKS, STALE_AFTER, owner_of
from latecomer.files import write_atomic

if TYPE_CHECKING:
    from latecomer.eval.studies.cells import Cell
    from latecomer.models.engine.training import RoundLog

# What a cell's directory may hold when its work begins; all else is left from an earlier attempt.
_STAYS = ("checkpoints", "progress.jsonl")
_STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENODEV, errno.ESTALE)


def is_done(folder: Path) -> bool:
    """Whether a cell is finished and its rows are the ones it finished with."""
    try:
        return (folder / "done").read_text("utf-8") == seal((folder / "rows.csv").read_bytes())
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def seal(rows: bytes) -> str:
    """Return what ``done`` holds: the hash of the rows that the cell finished with."""
    return json.dumps({"rows_sha256": hashlib.sha256(rows).hexdigest()}) + "\n"


def failure_of(folder: Path) -> str | None:
    """Return why a cell failed, None when it has not; an incomplete record is ignored."""
    try:
        return str(json.loads((folder / "failed.json").read_text("utf-8"))["message"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def record_failure(cell: "Cell", folder: Path, message: str, details: str) -> None:
    """Write a row that says why a cell failed."""
    from latecomer.eval.results.rows import write_rows  # with pandas, which a status needs not

    folder.mkdir(parents=True, exist_ok=True)
    row = {**identity(cell), "status": "failed", "message": message}
    write_rows(folder / "rows.csv", [row])
    failure = {"message": message, "details": details}
    write_atomic(folder / "failed.json", json.dumps(failure, indent=1) + "\n")


def tidy(folder: Path, *, keep: str) -> None:
    """Remove what an earlier attempt left, drafts included; keep what the cell can resume from."""
    (folder / "done").unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.name in (*_STAYS, keep):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for path in folder.glob("checkpoints/.*"):
        path.unlink()


def says_storage(error: BaseException, folder: Path) -> bool:
    """Whether an error says that a directory cannot be written: full, read-only, gone, denied."""
    if not isinstance(error, OSError):
        return False
    denied = error.errno in (errno.EACCES, errno.EPERM)
    return error.errno in _STORAGE or (denied and str(folder) in str(error.filename))


def identity(cell: "Cell") -> dict[str, Any]:
    """Return the columns that name a cell, the same in all of its rows."""
    config = cell.config
    method = config["method"] or {"name": "", "label": ""}
    return {
        "study": config["study"],
        "cell": cell.id,
        "dataset": config["data"]["name"],
        "split": config["split"]["kind"],
        "split_seed": config["split"]["seed"],
        "method": method["name"],
        "label": method["label"],
        "seed": config["seed"],
        "version": metadata.version("latecomer"),
    }


@dataclass(frozen=True)
class Place:
    """A position in the file, and the work up to it."""

    size: int = 0  # bytes before it
    seconds: float = 0.0  # time worked on the cell until then, earlier attempts included


class Progress:
    """Writes the file; what an earlier attempt wrote after its last checkpoint is removed.

    That happens as the first line is written, or in `finish`.
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

    def log(self, entry: "RoundLog") -> None:
        """Write a line about a round."""
        reason = {"reason": entry.reason} if entry.reason else {}
        self._write({"round": int(entry.round), "loss": float(entry.loss), **reason})

    def note(self, message: str) -> None:
        """Write a line about something unusual."""
        self._write({"note": message})

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
        line["seconds"] = self.seconds()
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


State = Literal["done", "failed", "running", "stopped", "to do"]


@dataclass(frozen=True)
class CellStatus:
    """How far a cell is.

    Attributes
    ----------
    id, label : str
        Its id and the label of its method (``split`` for the split's own cell).
    seed : int or None
        Training seed.
    state : str
        ``done``, ``failed``, ``running``, ``stopped`` (begun, and nobody works on it) or ``to do``.
    round, rounds : int or None
        Finished rounds, and rounds to train.
    loss : float or None
        Training loss of the last round.
    seconds : float or None
        Time worked on it.
    seconds_left : float or None
        Estimate, on one worker; None where nothing is known.
    message : str
        Why it failed, or who works on it.
    """

    id: str
    label: str
    seed: int | None
    state: State
    round: int | None = None
    rounds: int | None = None
    loss: float | None = None
    seconds: float | None = None
    seconds_left: float | None = None
    message: str = ""


_QUICK = ("split", "denoising")  # cells that say nothing about how long a training takes


@dataclass(frozen=True)
class RunStatus:
    """How far a run is.

    Attributes
    ----------
    path : Path
        The run directory.
    study : str
        Name of the study.
    cells : tuple of CellStatus
        In the order of the study.
    seconds_left : float or None
        Estimate for as many workers as are at work now, or one; None where nothing is known.
    """

    path: Path
    study: str
    cells: tuple[CellStatus, ...]
    seconds_left: float | None

    def count(self, *states: State) -> int:
        """Count the cells in these states."""
        return sum(cell.state in states for cell in self.cells)


def run_status(path: str | Path) -> RunStatus:
    """Read how far a run is.

    Time left is estimated from finished cells of the same method (of any seed), from a cell's own
    rounds where there are none yet, and from all cells otherwise.

    Raises
    ------
    InputError
        When the directory holds no run.
    """
    folder = run_folder(path)
    places = cells_of(folder)
    try:
        study = declared_study(folder)
        if not (folder / "cells.json").is_file():
            raise ValueError("cells.json is missing")
        cells = [_cell(places / name, about) for name, about in listed_cells(folder).items()]
        if not places.is_dir():
            cells = _by_rows(folder, cells)
        name = str(study["study"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        cause = " ".join(str(error).split())
        raise InputError(f"{folder} holds a damaged run: {cause}") from None
    return RunStatus(folder, name, *_estimated(cells))


def _by_rows(folder: Path, cells: Sequence[CellStatus]) -> list[CellStatus]:
    """Call those cells done of which only rows are kept: their folders can be spared."""
    from latecomer.eval.results.rows import COLUMNS, read_records

    file = rows_file(folder)
    if not file.is_file():
        return list(cells)
    named, status = COLUMNS.index("cell"), COLUMNS.index("status")
    done = {row[named] for row in read_records(file) if row[status] == "done"}
    return [
        replace(cell, state="done", round=cell.rounds, seconds_left=0.0)
        if cell.id in done
        else cell
        for cell in cells
    ]


def _cell(place: Path, about: Mapping[str, Any]) -> CellStatus:
    status = CellStatus(
        id=place.name,
        label=str(about.get("label", "?")),
        seed=about.get("seed"),
        state="to do",
        rounds=about.get("rounds"),
    )
    if is_done(place):
        told = mapping_of_cell(place, "timing.json")  # a cell that was issued anew may have none
        seconds = float(told["seconds"]) if told else None
        return replace(status, state="done", round=status.rounds, seconds=seconds, seconds_left=0.0)
    message = failure_of(place)
    if message is not None:
        return replace(status, state="failed", seconds_left=0.0, message=message)
    entry = last_entry(place / "progress.jsonl")
    if entry:
        status = replace(
            status,
            state="stopped",
            round=int(entry["round"]) + 1,
            loss=entry.get("loss"),
            seconds=entry.get("seconds"),
        )
    owner = owner_of(place)
    if owner is None or owner.is_dead:
        return status
    silent = "" if owner.is_here else _silence(place)
    return replace(status, state="running", message=f"{owner}{silent}")


def _silence(place: Path) -> str:
    """Say for how long another machine has given no sign of life, going by the date of its lock.

    For the reader alone, since clocks may differ: a run watches whether the lock's number moves.
    """
    try:
        newest = max(path.stat().st_mtime for path in place.glob(LOCKS))
    except (OSError, ValueError):
        return ""
    seconds = time.time() - newest
    return f", silent for {seconds:.0f} s" if seconds > STALE_AFTER else ""


def _estimated(cells: Sequence[CellStatus]) -> tuple[tuple[CellStatus, ...], float | None]:
    """Fill in the time left for every cell, and return that for all."""
    taken: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        if cell.state == "done" and cell.seconds is not None:
            taken[cell.label].append(cell.seconds)
    own = {cell.id: guess for cell in cells if (guess := _by_rounds(cell)) is not None}
    means = {label: sum(values) / len(values) for label, values in taken.items()}
    known = [mean for label, mean in means.items() if label not in _QUICK]
    known += own.values()
    usual = sum(known) / len(known) if known else None
    filled = []
    for cell in cells:
        if cell.seconds_left is None:
            total = means.get(cell.label, own.get(cell.id, usual))
            left = None if total is None else max(0.0, total - (cell.seconds or 0.0))
            cell = replace(cell, seconds_left=left)
        filled.append(cell)
    rest = [cell.seconds_left for cell in filled]
    workers = max(1, sum(cell.state == "running" for cell in filled))
    if any(seconds is None for seconds in rest):
        return tuple(filled), None
    return tuple(filled), sum(seconds or 0.0 for seconds in rest) / workers


def _by_rounds(cell: CellStatus) -> float | None:
    """Return the time that a cell takes if it goes on as it began."""
    if cell.state not in ("running", "stopped") or not (cell.round and cell.rounds):
        return None
    return None if cell.seconds is None else cell.seconds / cell.round * cell.rounds
