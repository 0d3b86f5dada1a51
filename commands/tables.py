"""Lists on the terminal: a rich table when a person reads, aligned plain lines in a pipe.

Also words durations, which several of them show.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer


def show_table(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print one line per record; the last column may wrap on a terminal, never in a pipe."""
    rows = [[_cell(record.get(column, "")) for column in columns] for record in records]
    if sys.stdout.isatty():
        # Imported here: scripts that read a pipe need not wait for it.
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column.replace("_", " "), no_wrap=column == columns[0])
        for row in rows:
            table.add_row(*row)
        Console(markup=False, emoji=False, highlight=False).print(table)
        return
    lines = [[column.replace("_", " ") for column in columns], *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        typer.echo("  ".join(padded).rstrip())


def show_json(value: Any) -> None:
    """Print JSON that every parser accepts: no NaN or infinity."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def duration(seconds: float) -> str:
    """Format a duration.

    >>> duration(7.4), duration(112), duration(3 * 3600 + 125)
    ('7 s', '1 m 52 s', '3 h 2 m')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} m"
    return f"{minutes} m {rest} s" if minutes else f"{rest} s"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
