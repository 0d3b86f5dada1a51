"""How far a run is, read from its directory while others may be at work in it; loads no torch."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from latecomer.errors import InputError
from latecomer.eval.results.kept_cells import (
    cells_of,
    declared_study,
    listed_cells,
    mapping_of_cell,
    rows_file,
    run_folder,
)
from latecomer.eval.runs.cell_directory import failure_of, is_done
from latecomer.eval.runs.lock import STALE_AFTER, owner_of
from latecomer.eval.runs.progress import last_entry

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
        newest = max(path.stat().st_mtime for path in place.glob("lock.*"))
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
    known = [mean for label, mean in _means(taken).items() if label not in _QUICK]
    known += own.values()
    usual = sum(known) / len(known) if known else None
    filled = []
    for cell in cells:
        if cell.seconds_left is None:
            total = _means(taken).get(cell.label, own.get(cell.id, usual))
            left = None if total is None else max(0.0, total - (cell.seconds or 0.0))
            cell = replace(cell, seconds_left=left)
        filled.append(cell)
    rest = [cell.seconds_left for cell in filled]
    workers = max(1, sum(cell.state == "running" for cell in filled))
    if any(seconds is None for seconds in rest):
        return tuple(filled), None
    return tuple(filled), sum(seconds or 0.0 for seconds in rest) / workers


def _means(taken: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {label: sum(values) / len(values) for label, values in taken.items()}


def _by_rounds(cell: CellStatus) -> float | None:
    """Return the time that a cell takes if it goes on as it began."""
    if cell.state not in ("running", "stopped") or not (cell.round and cell.rounds):
        return None
    return None if cell.seconds is None else cell.seconds / cell.round * cell.rounds
