"""Pictures and tables of a page, and the files that go beside it."""

import base64
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from latecomer.reports.rendering import png_file, svg_file, svg_inline, svg_of
from latecomer.reports.style import NARROW, WIDE
from latecomer.reports.tables import Table


class Draw(Protocol):
    """A figure waiting for its width in inches."""

    def __call__(self, *, width: float) -> Figure:
        """Draw it."""


@dataclass(frozen=True)
class Picture:
    """A figure in the page: its layouts as inline SVG, its words, its data as CSV."""

    name: str
    title: str
    alt: str
    caption: str
    wide: Markup
    narrow: Markup | None
    data: str


class Writer:
    """Draws pictures and keeps the files that go beside the page."""

    def __init__(self) -> None:
        self.files: dict[str, bytes | str] = {}

    def picture(
        self,
        name: str,
        draw: Draw,
        data: pd.DataFrame,
        *,
        title: str,
        alt: str,
        caption: str = "",
        small: bool = False,
    ) -> Picture:
        """Draw a figure for page, paper and phone; a small one has one layout for all."""
        wide = draw(width=NARROW if small else WIDE)
        svg = svg_of(wide)
        self.files[f"figures/{name}.svg"] = svg_file(svg)
        self.files[f"figures/{name}.png"] = png_file(wide)
        # The SVG is our own and its labels were escaped when it was drawn.
        inline, narrow = Markup(svg_inline(svg, name=name)), None
        if not small:
            narrow = Markup(svg_inline(svg_of(draw(width=NARROW)), name=f"{name}-narrow"))
        csv = data.to_csv(index=False, lineterminator="\n")
        return Picture(name, title, alt, caption, inline, narrow, data_link(csv))

    def table(self, table: Table | None) -> dict[str, Any] | None:
        """Keep a table's files and hand the template what it shows."""
        if table is None:
            return None
        csv = table.csv()
        self.files[f"tables/{table.name}.csv"] = csv
        self.files[f"tables/{table.name}.tex"] = table.latex()
        return {"table": table, "data": data_link(csv)}


def data_link(text: str) -> str:
    """Put a text file into a link."""
    return "data:text/csv;base64," + base64.b64encode(text.encode("utf-8")).decode("ascii")
