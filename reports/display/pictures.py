"""Figures and tables of a page, drawn and written, and the files that go beside it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from latecomer.certify.page.blocks import Grid, Picture, download, latex_download
from latecomer.certify.page.latex import figure_latex
from latecomer.certify.page.svg import NARROW, WIDE
from latecomer.reports.display.rendering import PAPER, svg_file, svg_inline, svg_of
from latecomer.reports.display.style import lettering
from latecomer.reports.display.table import Table


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
        Whether one layout serves both page and phone.
    """

    name: str
    draw: Draw
    data: pd.DataFrame
    title: str
    alt: str
    caption: str = ""
    small: bool = False


@dataclass(frozen=True)
class Column:
    """How figures for a paper are set: the page's own way, or as its text is.

    Attributes
    ----------
    width : float, optional
        Of the paper's column in inches; as on the page if None.
    font : str
        A key of `style.FONTS`.
    """

    width: float | None = None
    font: str = "sans"


class Writer:
    """Draws figures and keeps the files that go beside the page.

    Parameters
    ----------
    formats : iterable of str
        Formats of `PAPER` that each figure is also given in, which takes longer than the SVG.
    column : Column
        How figures in these formats are set.
    """

    def __init__(self, formats: Iterable[str] = (), column: Column = Column()) -> None:
        self.formats = tuple(formats)
        self.column = column
        self.files: dict[str, bytes | str] = {}

    def picture(self, plot: Plot) -> Picture:
        """Draw a figure for page, paper and phone; a small one has one layout for all."""
        name, wide = plot.name, plot.draw(width=NARROW if plot.small else WIDE)
        svg = svg_of(wide)
        self.files[f"figures/{name}.svg"] = svg_file(svg)
        if self.formats:
            self.files |= self.printed(plot, wide)
        # The SVG is our own and its labels were escaped when it was drawn.
        inline, narrow = Markup(svg_inline(svg, name=name)), None
        if not plot.small:
            narrow = Markup(svg_inline(svg_of(plot.draw(width=NARROW)), name=f"{name}-narrow"))
        csv = plot.data.to_csv(index=False, lineterminator="\n")
        self.files[f"figures/{name}.csv"] = csv
        latex = latex_download(name, figure_latex(plot, "latecomer figures DIR"))
        return Picture(plot, inline, narrow, download(name, csv), latex)

    def printed(self, plot: Plot, wide: Figure) -> dict[str, bytes]:
        """Render a figure in the formats for papers; ``wide`` is how the page has it."""
        with lettering(self.column.font):
            if self.column != Column():
                drawn = wide.get_figwidth() if self.column.width is None else self.column.width
                wide = plot.draw(width=drawn)
            return {f"figures/{plot.name}.{kind}": PAPER[kind](wide) for kind in self.formats}

    def table(self, table: Table) -> Grid:
        """Keep a table's files and give what the page shows."""
        csv, latex = table.csv(), table.latex()
        self.files[f"tables/{table.name}.csv"] = csv
        self.files[f"tables/{table.name}.tex"] = latex
        return Grid(table, download(table.name, csv), latex_download(table.name, latex))
