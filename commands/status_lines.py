"""What ``latecomer status`` shows, and what other commands say of a run that lacks cells."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from latecomer.commands.tables import duration
from latecomer.errors import InputError
from latecomer.eval.runs.status import CellStatus, RunStatus, run_status


def status_record(status: RunStatus) -> dict[str, Any]:
    """Return the status as plain data."""
    counts = {
        "done": status.count("done"),
        "running": status.count("running"),
        "failed": status.count("failed"),
        "to_do": status.count("to do", "stopped"),
    }
    return {
        "path": str(status.path),
        "study": status.study,
        **counts,
        "seconds_left": status.seconds_left,
        "cells": [asdict(cell) for cell in status.cells],
    }


def status_rows(status: RunStatus) -> list[dict[str, Any]]:
    """Return a record of text for each cell."""
    return [_row(cell) for cell in status.cells]


def summary_line(status: RunStatus) -> str:
    """Say in a line how far the run is."""
    waiting = status.count("to do", "stopped")
    parts = [
        f"{status.count('done')} done",
        f"{status.count('running')} running",
        f"{status.count('failed')} failed",
        f"{waiting} to do",
    ]
    left = status.seconds_left
    rest = waiting + status.count("running")
    about = f"; about {duration(left)} left" if rest and left is not None else ""
    return f"{status.study}: {len(status.cells)} cells: {', '.join(parts)}{about}"


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


def _row(cell: CellStatus) -> dict[str, Any]:
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
