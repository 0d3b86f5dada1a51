"""Files of a run directory beside its cells: what is declared, the rows, cells taken over."""

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from latecomer.checks import dotted, named_files, output_files, output_folder
from latecomer.errors import InputError
from latecomer.eval.devices import device_name
from latecomer.eval.results.kept_cells import declared_study, listed_cells, packed_cells
from latecomer.eval.results.rows import COLUMNS, read_records, rows_to_text
from latecomer.eval.runs.cell_directory import failure_of, is_done, tidy
from latecomer.eval.runs.job import Job
from latecomer.eval.runs.lock import HeldError, held, held_in_turn
from latecomer.eval.studies.cells import Cell, content_id, without_folders
from latecomer.eval.studies.settings import Study
from latecomer.extras import version_of
from latecomer.files import make_new, write_atomic, write_changed
from latecomer.models.methods import METHODS, find_method
from latecomer.reading.yaml_text import write_yaml

_PACKAGES = ("latecomer", "torch", "numpy", "scipy", "pandas", "scikit-learn")


def environment(device: str | None = None) -> dict[str, Any]:
    """Describe the environment that numbers are made in; secrets of the environment stay out.

    ``git_commit`` is that of a source checkout, with ``+changes`` when it is not clean; ``device``
    that of the machine that starts the run, with the GPU's name; ``threads`` are per worker.
    """
    return {
        "versions": {name: version_of(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "git_commit": _commit(Path(__file__).resolve().parents[1]),
        "device": device_name(device),
        "threads": 1,
        "cpu_count": os.cpu_count(),
        "platform": platform.platform(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join([_program(), *sys.argv[1:]]),
    }


def _program() -> str:
    """Name what was called: a package, as by ``python -m latecomer``, or a script."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return (spec.parent if spec else "") or Path(sys.argv[0]).name


def _commit(folder: Path) -> str | None:
    """Ask git only about our own source tree: an installed package may lie inside another one."""
    if not (folder.parent / ".git").exists():
        return None
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+changes" if changed else commit


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


WRITTEN = (
    *("study.yaml", "cells.json", "env.json", "rows.csv", "certification.jsonl"),
    "finished.json",
)
"""What a run writes beside its cells and its report."""


def check_directory(folder: Path, study: Study, *, extend: bool = False) -> None:
    """Refuse a directory that holds another study, or that is no run directory.

    Files whose content ids hold may have moved: it decides which cells are done.  With ``extend``
    the study may have further methods, seeds and shifts; nothing may be taken away or changed.  A
    folder that does not exist will do; one whose files are links to data is refused too.
    """
    output_folder("--out", folder)
    if not folder.exists():
        return
    if (folder / "reissued.json").is_file():
        raise InputError(
            f"{folder} holds certificates re-issued from the scores of another run: nothing is "
            "trained there, use another --out"
        )
    output_files(folder, WRITTEN, named_files(study.resolved()))
    declared = folder / "study.yaml"
    if not declared.is_file():
        if any(not entry.name.endswith(".tmp") for entry in folder.iterdir()):
            raise InputError(
                f"{folder} holds other files and is no run directory: use another --out"
            )
        return
    advice = f"use another --out, with --adopt {folder} to keep what is finished"
    try:
        there = without_folders(declared_study(folder))
    except (InputError, UnicodeDecodeError):
        raise InputError(f"{declared} is damaged: {advice}") from None
    asked = without_folders(study.resolved())
    differing = _differing(there, asked)
    changed = _differing(there, _without_additions(there, asked))
    if differing and (changed or not extend):
        advice = "" if changed else ", or --extend to add to this one"
        refused = "--extend adds methods, seeds and shifts and changes nothing else"
        first = f"{folder} holds another study: use another --out{advice}"
        raise InputError("; ".join([f"{first} ({refused})" if extend else first, *differing]))


# Settings that a resolved study leaves out when they have their original value.
_UNSAID = {"train.device": '"cpu"', "train.precision": '"float32"'}
# Keys that describe a study and affect no number: they may be reworded between two starts.
_WORDS = ("question", "note", "scale", "paper")


def _differing(there: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    old, new = (
        _UNSAID | {key: json.dumps(value, default=str) for key, value in dotted(one).items()}
        for one in (there, asked)
    )
    return [
        f"{key}: {old.get(key, 'nothing')} there, {new.get(key, 'nothing')} asked for"
        for key in {**old, **new}
        if old.get(key) != new.get(key) and key not in _WORDS
    ]


def _without_additions(there: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the methods, seeds and shifts that the directory lacks; put the rest in its order."""
    labelled = {method["label"]: method for method in asked["methods"]}
    methods = [
        labelled[method["label"]]
        for method in there.get("methods") or ()
        if method["label"] in labelled
    ]
    seeds = [seed for seed in there.get("seeds") or () if seed in asked["seeds"]]
    shifts = {
        name: [entry for entry in (there.get("shifts") or {}).get(name) or () if entry in entries]
        for name, entries in asked["shifts"].items()
    }
    return {**asked, "methods": methods, "seeds": seeds, "shifts": shifts}


def declare(folder: Path, study: Study, cells: Sequence[Cell], *, extend: bool = False) -> None:
    """Write ``study.yaml`` and ``cells.json``, which make a folder this study's run directory.

    Another run may have begun there since `check_directory` looked: its study is compared again,
    and of two that begin at once one is the first.
    """
    resolved, declared = write_yaml(study.resolved()), folder / "study.yaml"
    about = {
        cell.id: {"label": cell.label, "seed": cell.seed, "rounds": cell.rounds} for cell in cells
    }
    index = json.dumps({"cells": [cell.id for cell in cells], "about": about}, indent=1) + "\n"
    listed = folder / "cells.json"
    folder.mkdir(parents=True, exist_ok=True)
    # Looked for first: where all is done already, nothing need be writable.
    if not declared.exists() and make_new(declared, resolved.encode("utf-8")):
        # Another run that extends this one may have listed its cells by now.
        make_new(listed, index.encode("utf-8"))
        return
    check_directory(folder, study, extend=extend)
    if not (_holds(declared, resolved) and _holds(listed, index)):
        with held_in_turn(folder):
            check_directory(folder, study, extend=extend)
            write_changed(declared, resolved)
            write_changed(listed, index)


def _holds(file: Path, text: str) -> bool:
    return file.is_file() and file.read_bytes() == text.encode("utf-8")


def write_environment(folder: Path, study: Study, found: Mapping[str, Any]) -> None:
    """Write ``env.json``: the machine, and what was ``found`` of the data and the network.

    That is ``copies``, counts of samples that several clients hold, and ``network``, what
    ``model.target: auto`` stands for.
    """
    about_here = environment(study.train.device) | _told_outside(study) | dict(found)
    write_atomic(folder / "env.json", json.dumps(about_here, indent=1) + "\n")


def _told_outside(study: Study) -> dict[str, Any]:
    """Return whom methods of other packages cite: a report may be made without those packages."""
    named = [method.name for method in study.methods if method.name not in METHODS]
    cited = {one.name: list(one.cites) for one in map(find_method, named) if one.cites}
    return {"cites": cited} if cited else {}


def merge(folder: Path) -> None:
    """Write ``rows.csv`` from the rows of every cell that has ended, failed ones included.

    These are the cells of the directory: another run may have added some to this one's, and be
    trying failed ones again.  Of runs that end at once, one reads after another has written.
    """
    if not _holds(folder / "rows.csv", _merged(folder)):
        with held_in_turn(folder):
            write_changed(folder / "rows.csv", _merged(folder))


def _merged(folder: Path) -> str:
    places = [folder / "cells" / name for name in listed_cells(folder)]
    ended = [place for place in places if is_done(place) or failure_of(place) is not None]
    records = [record for place in ended for record in read_records(place / "rows.csv")]
    return rows_to_text(dict(zip(COLUMNS, record, strict=True)) for record in records)


def count_scorings(
    folder: Path, jobs: Sequence[Job], split_hash: str, n_certification: int
) -> None:
    """List in ``certification.jsonl`` each model that was scored on the held-out clients.

    Rules and models chosen after looking at these scores would void the certificates, so the file
    only grows: of runs that end at once, one looks after another has written.
    """
    path = folder / "certification.jsonl"
    if len(_counted(path, jobs, split_hash, n_certification)) > len(_lines(path)):
        with held_in_turn(folder):
            lines = _counted(path, jobs, split_hash, n_certification)
            write_changed(path, "\n".join(lines) + "\n")


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.is_file() else []


def _counted(path: Path, jobs: Sequence[Job], split_hash: str, n_certification: int) -> list[str]:
    """Return the lines that are there, and those of models that none of them tells of."""
    before = _lines(path)
    try:
        entries = [json.loads(line) for line in before]
        known = {(entry["split"], entry["cell"]) for entry in entries}
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is damaged, and what it counted is lost: move it away, "
            "and say so beside the certificates"
        ) from None
    times = sum(entry["split"] == split_hash for entry in entries)
    for job in jobs:
        own = job.cell.config.get("certificates") or [{}]
        n_scored = n_certification if job.cell.kind == "method" else own[0].get("clients", 0)
        if not n_scored or not is_done(job.folder) or (split_hash, job.cell.id) in known:
            continue
        times += 1
        entry = {
            "split": split_hash,
            "cell": job.cell.id,
            "label": job.cell.label,
            "seed": job.cell.seed,
            "n_clients": n_scored,
            "systems": _systems(job),
            "times": times,
        }
        before.append(json.dumps(entry))
    return before


def _systems(job: Job) -> int:
    """Count the systems that a cell certified: its model, by each way of predicting."""
    metric, predictor = COLUMNS.index("metric"), COLUMNS.index("predictor")
    told = read_records(job.folder / "rows.csv")
    return len({row[predictor] for row in told if row[metric] == "certificate"}) or 1


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
    at all: ``done`` comes last and holds the hash of the rows.  The first source that has a cell is
    used; cells may be packed there.  ``note`` is told of those that cannot be used.  Returns the
    jobs that are done now.
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
