"""Figures and tables of a page, drawn and written, and the files that go beside it."""

import base64
import gzip
from dataclasses import dataclass
from typing import ClassVar, Protocol

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
class Plot:
    """A figure waiting to be drawn, and its words.

    Attributes
    ----------
    name : str
        Stem of its files.
    draw : callable
        Draws it at a width in inches.
    data : pandas.DataFrame
        What it is drawn from, which goes beside it as CSV.
    title, alt, caption : str
        Heading; what it shows, for readers who cannot see it; how to read it.
    small : bool
        Whether one layout does for page and phone.
    """

    name: str
    draw: Draw
    data: pd.DataFrame
    title: str
    alt: str
    caption: str = ""
    small: bool = False


@dataclass(frozen=True)
class Download:
    """A link that carries its file."""

    name: str
    href: str
    title: str


@dataclass(frozen=True)
class Picture:
    """A figure in the page: its layouts as inline SVG and its data as CSV."""

    plot: Plot
    wide: Markup
    narrow: Markup | None
    data: Download
    kind: ClassVar[str] = "picture"


@dataclass(frozen=True)
class Grid:
    """A table in the page, and its data as CSV."""

    table: Table
    data: Download
    kind: ClassVar[str] = "grid"


class Writer:
    """Draws figures and keeps the files that go beside the page."""

    def __init__(self) -> None:
        self.files: dict[str, bytes | str] = {}

    def picture(self, plot: Plot) -> Picture:
        """Draw a figure for page, paper and phone; a small one has one layout for all."""
        name, wide = plot.name, plot.draw(width=NARROW if plot.small else WIDE)
        svg = svg_of(wide)
        self.files[f"figures/{name}.svg"] = svg_file(svg)
        self.files[f"figures/{name}.pdf"] = pdf_file(wide)
        self.files[f"figures/{name}.png"] = png_file(wide)
        # The SVG is our own and its labels were escaped when it was drawn.
        inline, narrow = Markup(svg_inline(svg, name=name)), None
        if not plot.small:
            narrow = Markup(svg_inline(svg_of(plot.draw(width=NARROW)), name=f"{name}-narrow"))
        csv = plot.data.to_csv(index=False, lineterminator="\n")
        self.files[f"figures/{name}.csv"] = csv
        return Picture(plot, inline, narrow, download(name, csv))

    def table(self, table: Table) -> Grid:
        """Keep a table's files and give what the page shows."""
        csv = table.csv()
        self.files[f"tables/{table.name}.csv"] = csv
        self.files[f"tables/{table.name}.tex"] = table.latex()
        return Grid(table, download(table.name, csv))


def download(name: str, csv: str) -> Download:
    """Put a CSV file into a link; a long one packed, so that the page stays small."""
    content = csv.encode("utf-8")
    if len(content) <= LONG:
        return Download(f"{name}.csv", _link("text/csv", content), "Data (CSV)")
    packed = gzip.compress(content, mtime=0)
    return Download(f"{name}.csv.gz", _link("application/gzip", packed), "Data (CSV, gzip)")


def _link(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
