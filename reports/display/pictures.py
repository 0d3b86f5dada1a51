"""Figures and tables of a page, in all their forms, drawn and written, always to the same bytes.

The CSV holds the frame's raw numbers; HTML and LaTeX show the same formatted cells.
"""

import io
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, overload

import matplotlib as mpl
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from latecomer.certify.page.blocks import (
    Grid,
    Picture,
    download,
    escape,
    figure_latex,
    keyed,
    latex_download,
)
from latecomer.certify.page.svg import INK, NARROW, WIDE
from latecomer.certify.words import DASH, PLUS_MINUS, points
from latecomer.reports.display.drawing import lettering, settings


def over_seeds(frame: pd.DataFrame) -> str:
    """Say what the plus-minus sign shows, or why there is none.

    >>> over_seeds(pd.DataFrame({"n_seeds": [1, 1]}))
    'one seed, so no spread over seeds'
    """
    if (frame["n_seeds"] < 2).all():
        return "one seed, so no spread over seeds"
    return f"{PLUS_MINUS} is one standard deviation over seeds, in points"


def plus_minus(text: str, spread: float) -> str:
    """Write a number with its spread in points, where there is one.

    >>> plus_minus("21.7%", 0.0123), plus_minus("21.7%", float("nan"))
    ('21.7% \N{PLUS-MINUS SIGN} 1.2', '21.7%')
    """
    return text if pd.isna(spread) else f"{text} {PLUS_MINUS} {points(spread).lstrip('+')}"


def counted(heading: str, counts: pd.Series) -> str:
    """Write a column's heading with the number of its clients, or the least and the most.

    >>> counted("error", pd.Series([12, 10]))
    'error (10\N{EN DASH}12 clients)'
    """
    known = sorted({int(n) for n in counts.dropna()}) or [0]
    return f"{heading} ({DASH.join(str(n) for n in (known[0], known[-1])[: len(known)])} clients)"


@dataclass(frozen=True)
class Table:
    """One table in all its forms.

    Attributes
    ----------
    name : str
        Stem of its files.
    caption : str
        What it shows, which spread, what the marks mean.
    frame : pandas.DataFrame
        The numbers behind it.
    shown : pandas.DataFrame
        The cells as text; column names are the headings.
    words : tuple of str
        Headings of columns that hold words; the others hold numbers.
    bold : tuple of (int, str)
        Row and heading of the cells that are marked.
    label : str
        What it is called for readers who cannot see it; its name if empty.
    noun : str
        What its rows are called; if given, many rows are folded away under their count.
    """

    name: str
    caption: str
    frame: pd.DataFrame
    shown: pd.DataFrame
    words: tuple[str, ...]
    bold: tuple[tuple[int, str], ...] = ()
    label: str = ""
    noun: str = ""

    @property
    def headings(self) -> list[str]:
        """Headings of its columns."""
        return list(self.shown.columns)

    @property
    def rows(self) -> list[list[dict[str, object]]]:
        """Cells row by row for the page's template: text, what they sort by, whether marked."""
        lines = self.shown.itertuples(index=False, name=None)
        return keyed(self.headings, lines, self.words, self.bold)

    def csv(self) -> str:
        """Write the numbers, full precision."""
        return self.frame.to_csv(index=False, lineterminator="\n")

    def latex(self) -> str:
        """Write a booktabs table."""
        cells = pd.DataFrame(
            [
                [
                    f"\\textbf{{{escape(str(cell['text']))}}}"
                    if cell["bold"]
                    else escape(str(cell["text"]))
                    for cell in row
                ]
                for row in self.rows
            ],
            columns=[escape(heading) for heading in self.headings],
        )
        style = cells.style.hide(axis="index")
        text: str = style.to_latex(
            hrules=True,
            position_float="centering",
            caption=escape(self.caption),
            label=f"tab:{self.name}",
            column_format="".join("l" if h in self.words else "r" for h in self.headings),
        )
        return f"% needs \\usepackage{{booktabs}}\n{text}"


DPI = 200


def _save(figure: Figure, kind: str, *, ground: str) -> bytes:
    buffer = io.BytesIO()
    stamp = {
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
        "png": {"Software": None},
    }[kind]
    with mpl.rc_context(settings()), warnings.catch_warnings():
        # A label in a script the figure font lacks is shown by the reader's own fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        if (engine := figure.get_layout_engine()) is not None:
            # Laid out once here; with an engine, every save would draw twice.
            engine.execute(figure)
            figure.set_layout_engine(None)
        figure.savefig(buffer, format=kind, metadata=stamp, dpi=DPI, facecolor=ground)
    return buffer.getvalue()


PAPER = {"pdf": "none", "png": "white"}
"""Formats for papers, and their grounds: vectors with embedded TrueType fonts, and pixels."""


def paper_file(figure: Figure, kind: str) -> bytes:
    """Render a figure for a paper, in a format of `PAPER`."""
    return _save(figure, kind, ground=PAPER[kind])


def svg_of(figure: Figure) -> str:
    """Render an SVG without background and metadata; its text stays text."""
    text = _save(figure, "svg", ground="none").decode("utf-8")
    return re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)


def svg_file(svg: str) -> str:
    """Put the result of ``svg_of`` on white, for papers and for pages of any background."""
    # Few machines have DejaVu Sans; Verdana is as wide.
    svg = svg.replace("'DejaVu Sans',", "'DejaVu Sans', Verdana,")
    head, opening, body = svg.partition("<svg")
    tag, _, inside = body.partition(">")
    return f'{head}{opening}{tag}><rect width="100%" height="100%" fill="white"/>{inside}'


def svg_inline(svg: str, *, name: str) -> str:
    """Fit the result of ``svg_of`` into the page, in its own colour; ids begin with a name."""
    # A style element inside an inline SVG would style the whole page.
    body = re.sub(r"<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    head, _, body = body.partition(">")
    box = re.search(r'viewBox="[^"]*"', head)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = body.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'href="#{name}-')
    body = body.replace(INK, "currentColor").replace("'DejaVu Sans'", "system-ui, sans-serif")
    return f'<svg {box.group() if box else ""} aria-hidden="true" focusable="false">{body}'.strip()


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


@overload
def doubted(block: Plot, doubt: str) -> Plot: ...
@overload
def doubted(block: Table, doubt: str) -> Table: ...
def doubted(block: Plot | Table, doubt: str) -> Plot | Table:
    """Return a figure or table whose caption begins with what is to be doubted of it, if anything.

    Readers who cannot see a figure are told, too.
    """
    if not doubt:
        return block
    caption = f"{doubt} {block.caption}"
    if isinstance(block, Plot):
        return replace(block, caption=caption, alt=f"{doubt} {block.alt}")
    return replace(block, caption=caption)


@dataclass(frozen=True)
class Column:
    """How figures for a paper are set: the page's own way, or as its text is.

    Attributes
    ----------
    width : float, optional
        Of the paper's column in inches; as on the page if None.
    font : str
        A key of `drawing.FONTS`.
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
            return {f"figures/{plot.name}.{kind}": paper_file(wide, kind) for kind in self.formats}

    def table(self, table: Table) -> Grid:
        """Keep a table's files and give what the page shows."""
        csv, latex = table.csv(), table.latex()
        self.files[f"tables/{table.name}.csv"] = csv
        self.files[f"tables/{table.name}.tex"] = latex
        return Grid(table, download(table.name, csv), latex_download(table.name, latex))
