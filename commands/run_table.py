"""The live table of a run: a line per running cell, with its round, loss and time left."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from latecomer.commands.tables import duration
from latecomer.eval.runs.runner import Event

if TYPE_CHECKING:
    from rich.table import Table

_BAR = 20


@dataclass
class _Cell:
    label: str
    seed: int | None
    rounds: int | None
    began: float
    round: int = 0
    loss: float | None = None
    first: tuple[float, int] | None = None  # when the first round was reported, and its number


class CellsInWork:
    """What is known of the running cells.

    Parameters
    ----------
    clock : callable
        Monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._cells: dict[str, _Cell] = {}
        self._footer = ""

    def hear(self, event: Event) -> None:
        """Take note of an event."""
        self._footer = f"{event.done}/{event.total} cells"
        now = self._clock()
        if event.kind == "start":
            self._cells[event.cell] = _Cell(event.label, event.seed, event.rounds, now)
        elif event.kind == "round" and event.cell in self._cells:
            cell = self._cells[event.cell]
            cell.round, cell.loss = (event.round or 0) + 1, event.loss
            cell.first = cell.first or (now, cell.round)
        elif event.kind in ("done", "failed", "retry", "held"):
            self._cells.pop(event.cell, None)

    def table(self) -> "Table":
        """Return the current table."""
        from rich.table import Table

        table = Table(box=None, pad_edge=True, show_header=False)
        for justify in ("left", "left", "right", "right", "left", "right"):
            table.add_column(justify=justify, no_wrap=True)
        for cell in self._cells.values():
            table.add_row(*self._row(cell))
        table.add_row(self._footer)
        return table

    def _row(self, cell: _Cell) -> tuple[str, ...]:
        seed = "" if cell.seed is None else f"seed {cell.seed}"
        if not (cell.round and cell.rounds):
            return cell.label, seed, "", "", "", duration(self._clock() - cell.began)
        loss = "" if cell.loss is None else f"loss {cell.loss:.3f}"
        full = min(_BAR, round(_BAR * cell.round / cell.rounds))
        bar = "━" * full + "╌" * (_BAR - full)
        rounds = f"round {cell.round}/{cell.rounds}"
        return cell.label, seed, rounds, loss, bar, self._left(cell)

    def _left(self, cell: _Cell) -> str:
        since, begun = cell.first or (0.0, cell.round)
        if cell.rounds is None or cell.round == begun:
            return ""  # the first round after a checkpoint says nothing about speed
        pace = (self._clock() - since) / (cell.round - begun)
        left = cell.rounds - cell.round
        return f"{duration(pace * left)} left" if left > 0 else "serving"
