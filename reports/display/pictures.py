"""Pictures and tables of a page, and the files that go beside it."""

import base64
import gzip
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from latecomer.reports.display.rendering import pdf_file, png_file, svg_file, svg_inline, svg_of
from latecomer.reports.display.style import NARROW, WIDE
from latecomer.reports.display.table import Table

# Bytes of CSV that a link carries as they are.
LONG = 100_000


class Draw(Protocol):
    """A figure waiting for its width in inches."""

    def __call__(self, *, width: float) -> Figure:
        """Draw it."""


@dataclass(frozen=True)
class Download:
    """A link that carries its file."""

    name: str
    href: str
    title: str


@dataclass(frozen=True)
class Picture:
    """A figure in the page: its layouts as inline SVG, its words, its data as CSV."""

    name: str
    title: str
    alt: str
    caption: str
    wide: Markup
    narrow: Markup | None
    data: Download


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
        self.files[f"figures/{name}.pdf"] = pdf_file(wide)
        self.files[f"figures/{name}.png"] = png_file(wide)
        # The SVG is our own and its labels were escaped when it was drawn.
        inline, narrow = Markup(svg_inline(svg, name=name)), None
        if not small:
            narrow = Markup(svg_inline(svg_of(draw(width=NARROW)), name=f"{name}-narrow"))
        csv = data.to_csv(index=False, lineterminator="\n")
        self.files[f"figures/{name}.csv"] = csv
        return Picture(name, title, alt, caption, inline, narrow, download(name, csv))

    def table(self, table: Table | None) -> dict[str, Any] | None:
        """Keep a table's files and hand the template what it shows."""
        if table is None:
            return None
        csv = table.csv()
        self.files[f"tables/{table.name}.csv"] = csv
        self.files[f"tables/{table.name}.tex"] = table.latex()
        return {"table": table, "data": download(table.name, csv)}


def download(name: str, csv: str) -> Download:
    """Put a CSV file into a link; a long one packed, so that the page stays small."""
    content = csv.encode("utf-8")
    if len(content) <= LONG:
        return Download(f"{name}.csv", _link("text/csv", content), "Data (CSV)")
    packed = gzip.compress(content, mtime=0)
    return Download(f"{name}.csv.gz", _link("application/gzip", packed), "Data (CSV, gzip)")


def _link(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
