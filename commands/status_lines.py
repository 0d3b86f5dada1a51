"""What ``latecomer status`` shows."""

from dataclasses import asdict
from typing import Any

from latecomer.commands.tables import duration
from latecomer.eval.runs.status import CellStatus, RunStatus


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
