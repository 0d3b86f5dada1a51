"""What the terminal says of run directories: how far each is, what it said, how two differ."""

import hashlib
import json
import math
import os
import platform
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from latecomer.certify.words import percent, points
from latecomer.checks import texts_in
from latecomer.commands.render import duration, show_json, show_table
from latecomer.errors import InputError
from latecomer.eval.runs.cell_directory import CellStatus, RunStatus, is_done, run_status
from latecomer.eval.runs.lock import LOCKS
from latecomer.extras import version_of
from latecomer.files import write_atomic

KEPT = "finished.json"
"""What was asked for, what the directory held in the end, and what the terminal said of it."""
_LAYERS = ("bounds", "certify", "models", "eval", "reports", "commands", "reading")
_PACKAGES = (
    *("latecomer", "torch", "numpy", "scipy", "pandas", "matplotlib", "scikit-learn", "jinja2"),
)
_PAGE, _OTHER_PAGES = "report.html", "report-*.html"
# Keys of a study that are prose.
_WORDS = ("question", "note", "paper")


def asked(
    folder: Path, name: str, overrides: Sequence[str], variants: Sequence[str], scale: str | None
) -> dict[str, str]:
    """Return what a study's numbers and page depend on, its data left out: words, files, versions.

    The package counts file by file, so that in a checkout an edit makes a run be looked at again.
    """
    file = Path(name)
    words = [str(folder), name, *overrides, "", *variants, "", str(scale), os.getcwd()]
    return {
        "command": _hash("\0".join([*words, os.environ.get("LATECOMER_DATA", "")]).encode()),
        "file": _hash(file.read_bytes()) if file.is_file() else "",
        **_made_with(),
    }


def _made_with() -> dict[str, str]:
    """Return the code and the versions that any result and any page are made with."""
    return {
        "code": _hash_of(_code()),
        "python": platform.python_version(),
        **{package: version_of(package) or "" for package in _PACKAGES},
    }


def keep(
    folder: Path, question: Mapping[str, str], opening: Sequence[str], answers: Sequence[str]
) -> None:
    """Write what a finished run said beside it, where all it depends on can be looked at again.

    That is not so of methods, networks and shifts in files of somebody's own, and of shifts to
    another data set.
    """
    from latecomer.eval.results.kept_cells import declared_study
    from latecomer.models.methods.registry import method_facts
    from latecomer.models.outside import TARGET_GROUP, offered

    study = declared_study(folder)
    foreign = {entry["name"] for entry in study["methods"]} - {*method_facts()}
    settings = {key: value for key, value in study.items() if key not in (*_WORDS, "data")}
    named = any(":" in text or os.path.isfile(text) for text in texts_in(settings))
    other_data = (study.get("shifts") or {}).get("dataset")
    if foreign or named or other_data or offered() or offered(TARGET_GROUP):
        (folder / KEPT).unlink(missing_ok=True)
        return
    cells = json.loads((folder / "cells.json").read_text("utf-8"))["cells"]
    config = json.loads((folder / "cells" / cells[0] / "config.json").read_text("utf-8"))
    kept = {
        "asked": dict(question),
        "data": study["data"],
        "data_hash": config["data_hash"],
        "opening": list(opening),
        "cells": cells,
        "answers": list(answers),
        "files": {place: _hash((folder / place).read_bytes()) for place in _files(folder)},
        "held_by_cells": _hash_of(_held_by_cells(folder)),
    }
    write_atomic(folder / KEPT, json.dumps(kept, indent=1) + "\n")


def said_again(
    out: Path | None,
    name: str,
    overrides: Sequence[str],
    variants: Sequence[str],
    scale: str | None,
) -> list[str] | None:
    """Return what a finished run said, or None where anything is to be done or looked at.

    Nothing may have changed: the command, the study file, the code, the cells, the files beside
    them and the data, which are read.
    """
    began = time.monotonic()
    try:
        folder = out or _likely_folder(name, scale)
        kept = json.loads((folder / KEPT).read_text("utf-8"))
        same = kept["asked"] == asked(folder, name, overrides, variants, scale)
        if not same or not _as_kept(folder, kept["files"]):
            return None
        if not all(is_done(folder / "cells" / cell) for cell in kept["cells"]):
            return None
        from latecomer.eval.datasets import load_dataset

        if load_dataset(kept["data"]).content_hash != kept["data_hash"]:
            return None
        opening, answers, n = kept["opening"], kept["answers"], len(kept["cells"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # whoever looks at the run says what is wrong
    took = duration(time.monotonic() - began)
    return [*opening, f" {n}/{n} cell{'s' * (n > 1)}, 0 failed, {took}", *answers]


def page_as_it_is(folder: Path) -> Path | None:
    """Return the page of a finished run, or None where it would come out otherwise or is not known.

    It is known where the same code with the same packages made it, of the cells and files that lie
    there, and no file but another page was added: reports make a figure as PDF again.
    """
    try:
        kept = json.loads((folder / KEPT).read_text("utf-8"))
        same = (
            _PAGE in kept["files"]
            and all(fnmatch(new, _OTHER_PAGES) for new in {*_files(folder)} - {*kept["files"]})
            and not any((folder / place).is_symlink() for place in kept["files"])
            and _made_with().items() <= kept["asked"].items()
            and _as_kept(folder, kept["files"])
            and kept["held_by_cells"] == _hash_of(_held_by_cells(folder))
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # whoever makes the page says what is wrong
    return folder / _PAGE if same else None


def _as_kept(folder: Path, files: Mapping[str, str]) -> bool:
    return all(_hash((folder / place).read_bytes()) == held for place, held in files.items())


def _likely_folder(name: str, scale: str | None) -> Path:
    """Return the directory of a study that names none, going by the study's file."""
    file = Path(name)
    text = file.read_text("utf-8", errors="replace") if file.is_file() else ""
    named = re.search(r"^study:[ ]*(\S+)", text, re.MULTILINE)
    study = named.group(1) if named else name
    return Path("runs") / (study if scale is None else f"{study}-{scale}")


def _files(folder: Path) -> Iterator[str]:
    """Name what lies in a run's directory beside its cells."""
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if place.parts[0] not in ("cells", KEPT) and not _passing(place) and path.is_file():
            yield str(place)


def _held_by_cells(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every file of the cells."""
    for path in sorted((folder / "cells").rglob("*")):
        place = path.relative_to(folder)
        if not _passing(place) and path.is_file():
            yield str(place), path.read_bytes()


def _passing(place: Path) -> bool:
    """Whether a file comes and goes with a process: draft, lock, checkpoint, board of workers.

    It is another run's, and may be gone when it is to be read, or left by one that was killed.
    """
    passing = ("checkpoints", ".*", LOCKS)
    return any(fnmatch(part, pattern) for part in place.parts for pattern in passing)


def _code() -> Iterator[tuple[str, bytes]]:
    """Yield every file of the package, which may lie in several folders."""
    for layer in ("", *(f".{name}" for name in _LAYERS)):
        spec = find_spec(f"latecomer{layer}")
        for home in (spec.submodule_search_locations if spec else None) or ():
            for path in sorted(Path(home).glob("**/*" if layer else "*")):
                if path.is_file() and path.suffix not in (".pyc", ".tmp"):
                    yield f"{layer}/{path.relative_to(home)}", path.read_bytes()


def _hash_of(files: Iterable[tuple[str, bytes]]) -> str:
    return _hash("".join(f"{place}:{_hash(held)}" for place, held in files).encode())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def status_record(status: RunStatus) -> dict[str, Any]:
    """Return the status as plain data."""
    return {
        "path": str(status.path),
        "study": status.study,
        **{state: status.count(state) for state in ("done", "running", "failed")},
        "to_do": status.count("to do", "stopped"),
        "seconds_left": status.seconds_left,
        "cells": [asdict(cell) for cell in status.cells],
    }


def summary_line(status: RunStatus) -> str:
    """Say in a line how far the run is."""
    waiting = status.count("to do", "stopped")
    parts = [f"{status.count(state)} {state}" for state in ("done", "running", "failed")]
    left = status.seconds_left
    rest = waiting + status.count("running")
    about = f"; about {duration(left)} left" if rest and left is not None else ""
    return f"{status.study}: {len(status.cells)} cells: {', '.join(parts)}, {waiting} to do{about}"


def tell_missing(directory: Path) -> None:
    """Say on standard error which part of a run is missing from what is made of it, if any is."""
    try:
        status = run_status(directory)
    except InputError:
        return  # its rows could be read; 'latecomer status' says what is wrong with the rest
    failed = status.count("failed")
    unfinished = len(status.cells) - status.count("done") - failed
    said = [f"{failed} failed"] if failed else []
    said += [f"{unfinished} unfinished"] if unfinished else []
    if said:
        cells = f"{len(status.cells)} cells: {' and '.join(said)}"
        typer.echo(f"{directory}, of {cells}; 'latecomer status' lists them", err=True)


def status_row(cell: CellStatus) -> dict[str, Any]:
    """Return a cell's status as text, by column."""
    going = cell.state in ("running", "stopped")
    left = cell.seconds_left if cell.state not in ("done", "failed") else None
    return {
        "cell": cell.id,
        "label": cell.label,
        "seed": "" if cell.seed is None else cell.seed,
        "state": cell.state,
        "round": f"{cell.round or 0}/{cell.rounds}" if going and cell.rounds else "",
        "loss": "" if cell.loss is None else f"{cell.loss:.3f}",
        "time": "" if cell.seconds is None else duration(cell.seconds),
        "left": "" if left is None else duration(left),
        "about": cell.message,
    }


_COLUMNS = ("method", "seed", "first", "second", "difference", "interval", "clients")


def show_comparison(first: Path, second: Path, *, as_json: bool) -> None:
    """Print a comparison of two run directories; JSON has every group and condition."""
    from latecomer.reports.two_runs import compare_runs

    compared = compare_runs(first, second)
    settings, differences = compared["settings"], compared["differences"]
    if as_json:
        plain = [
            {str(k): None if _missing(v) else v for k, v in row.items()}
            for row in differences.to_dict("records")
        ]
        told = settings.to_dict("records")
        show_json({"settings": told, "paired": compared["paired"], "differences": plain})
        return
    typer.echo(f"first   {first}\nsecond  {second}\n")
    if settings.empty:
        typer.echo("Settings, versions and machines are the same.")
    else:
        show_table(settings.to_dict("records"), ("setting", "first", "second"))
    novel = differences[(differences["group"] == "novel") & (differences["shift"] == "none")]
    if novel.empty:
        typer.echo("\nNo method, seed and group of new clients is in both.")
        return
    typer.echo(
        "\nError of new clients; the difference, in points, is the second's minus the first's: "
        "plus is worse."
    )
    order = {label: i for i, label in enumerate(dict.fromkeys(novel["label"]))}
    novel = novel.sort_values(
        ["label", "predictor", "seed"],
        # The mean of all seeds has seed -1 and stands last.
        key=lambda c: c.map(
            order if c.name == "label" else lambda one: math.inf if one == -1 else one
        ),
    )
    show_table([_line(row) for row in novel.to_dict("records")], _COLUMNS)
    typer.echo(
        "Intervals are 95% t-intervals over clients, who are the same in both runs."
        if compared["paired"]
        else "Data or split differ, so that clients are not paired and there is no interval."
    )


def _line(row: dict[Any, Any]) -> dict[str, str]:
    plain = row["predictor"] == "deterministic"
    model = row["label"] if plain else f"{row['label']} ({row['predictor']})"
    span = f"{points(row['lower'])} to {points(row['upper'])}"
    return {
        "method": model,
        "seed": f"all {row['n_seeds']}" if row["seed"] == -1 else str(row["seed"]),
        "first": percent(row["first"]),
        "second": percent(row["second"]),
        "difference": points(row["difference"]),
        "interval": "-" if _missing(row["lower"]) else span,
        "clients": str(row["n_clients"]),
    }


def _missing(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
