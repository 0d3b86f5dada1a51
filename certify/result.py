"""How a result is displayed in Python: as a table, a sentence, JSON, and in a notebook."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from latecomer.extras import needed

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Stated:
    """One statement, whose ``str()`` is what the terminal prints about it.

    Attributes
    ----------
    words : tuple of str
        Its lines.
    """

    words: tuple[str, ...] = field(default=(), kw_only=True, repr=False)

    def __str__(self) -> str:
        return "\n".join(self.words)


class Shown(ABC):
    """A result that displays what the terminal prints."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Return one record per statement."""

    def table(self) -> "pd.DataFrame":
        """Return a frame with one row per statement; needs pandas."""
        frame: pd.DataFrame = needed("pandas", "a table").DataFrame(self.rows())
        return frame

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What it says in one sentence."""

    @property
    def closing(self) -> str:
        """What ends the output after all statements; maybe empty."""
        return ""

    def to_json(self) -> str:
        """Return JSON without NaN or infinity, as the terminal prints it with ``--json``."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def _repr_html_(self) -> str:
        rows = self.rows()
        lines = [_line(rows[0], "th"), *(_line(row.values(), "td") for row in rows)]
        end = f"\n<p>{escape(self.closing)}</p>" if self.closing else ""
        return f"<p>{escape(self.sentence)}</p>\n<table>{''.join(lines)}</table>{end}"


def _line(cells: Iterable[Any], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(_text(cell))}</{tag}>' for cell in cells)}</tr>"


def _text(cell: Any) -> str:
    if cell is None or cell != cell:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
