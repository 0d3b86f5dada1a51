"""Taking over finished cells of other run directories."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from latecomer.errors import InputError
from latecomer.eval.results.kept_cells import packed_cells
from latecomer.eval.runs.cell_directory import is_done, tidy
from latecomer.eval.runs.job import Job
from latecomer.eval.runs.lock import HeldError, held
from latecomer.eval.studies.cells import content_id
from latecomer.files import write_atomic

_FILES = ("config.json", "progress.jsonl", "rows.csv", "timing.json")


def check_sources(sources: Sequence[Path]) -> None:
    """Refuse a source that is no run directory, or whose archive of cells is not fully readable."""
    for source in sources:
        if not (source / "study.yaml").is_file():
            raise InputError(f"cannot adopt {source}: it is no run directory (no study.yaml)")
        packed_cells(source)


def adopt(
    jobs: Sequence[Job], sources: Sequence[Path], note: Callable[[Job, str], None]
) -> list[Job]:
    """Copy finished cells of other directories that have the ids of unfinished cells here.

    A cell's id stands for all that its numbers depend on.  A cell is copied as it finished or not
    at all: ``done`` comes last and holds the hash of the rows.

    Parameters
    ----------
    jobs : sequence of Job
        Cells that are not done.
    sources : sequence of Path
        Run directories, of which the first that has a cell is used; their cells may be packed.
    note : callable
        Called with a job and a line when a cell there cannot be used.

    Returns
    -------
    list of Job
        The jobs that are done now.
    """
    if not jobs:
        return []
    stocks = [
        (source, cells)
        for source in sources
        for cells in (source / "cells", packed_cells(source))
        if cells is not None
    ]
    return [job for job in jobs if _adopted(job, stocks, note)]


def _adopted(
    job: Job, stocks: Sequence[tuple[Path, Path]], note: Callable[[Job, str], None]
) -> bool:
    for source, cells in stocks:
        place = cells / job.cell.id
        if not (place / "done").is_file():
            continue
        if not is_done(place) or _id_of(place) != job.cell.id:
            note(job, f"{source / 'cells' / job.cell.id} is damaged and not adopted")
            continue
        try:
            _copy(place, job, source)
        except HeldError:
            return False  # another process is computing it now
        return True
    return False


def _id_of(place: Path) -> str:
    try:
        return content_id(json.loads((place / "config.json").read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return ""


def _copy(place: Path, job: Job, source: Path) -> None:
    with held(job.folder) as lock:
        if is_done(job.folder):
            return
        tidy(job.folder, keep=lock.path.name)
        files = [place / name for name in _FILES if (place / name).is_file()]
        files += sorted(path for path in (place / "artifacts").glob("[!.]*") if path.is_file())
        for path in files:
            write_atomic(job.folder / path.relative_to(place), path.read_bytes())
        origin = {"from": str(source.resolve()), "env": _environment(source)}
        write_atomic(job.folder / "adopted.json", json.dumps(origin, indent=1) + "\n")
        lock.check()
        write_atomic(job.folder / "done", (place / "done").read_bytes())


def _environment(source: Path) -> Any:
    """Return what the other directory says about the machine that made its numbers."""
    try:
        return json.loads((source / "env.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
