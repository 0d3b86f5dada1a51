"""What a page shows, as data, and how it is written: into HTML, and for a paper's source.

Nothing here needs pandas or matplotlib, which an install without extras leaves out.
"""

import base64
import csv
import gzip
import io
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from latecomer.certify.words import DASH, MINUS, PLUS_MINUS, sort_key

# Most bytes that a link carries uncompressed.
LONG = 100_000


@dataclass(frozen=True)
class Heading:
    """A heading within a chapter, with an anchor and a tag beside it where these are given."""

    title: str
    name: str = ""
    tag: str = ""
    style: str = ""
    level: int = 3
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Text:
    """A paragraph; with style ``code`` it is text to be copied as it is."""

    text: str
    style: str = ""
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Items:
    """A list of lines, each with a bar in its colour if colours are given."""

    lines: Sequence[str]
    style: str = ""
    colours: Sequence[str] = ()
    kind: ClassVar[str] = "items"


@dataclass(frozen=True)
class Listing:
    """A table of words without a file; a column's style is word, prose, code or "" (numbers)."""

    label: str
    columns: Mapping[str, str]
    rows: Sequence[Sequence[str]]
    sortable: bool = False
    kind: ClassVar[str] = "listing"


@dataclass(frozen=True)
class Facts:
    """Names, each with what is said of it."""

    pairs: Sequence[tuple[str, str]]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Download:
    """A link that contains its file."""

    name: str
    href: str
    title: str


class Captioned(Protocol):
    """What is written about a figure; `Caption` and `Plot` have it."""

    @property
    def name(self) -> str:
        """Stem of its files."""

    @property
    def title(self) -> str:
        """Heading."""

    @property
    def alt(self) -> str:
        """What it shows, for readers who cannot see it."""

    @property
    def caption(self) -> str:
        """How to read it."""


@dataclass(frozen=True)
class Caption:
    """What is written about a figure that is drawn already."""

    name: str
    title: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Picture:
    """A figure in the page: its layouts as inline SVG, its data as CSV, its lines in a paper.

    The page makes the file of its SVG from the layout that it shows.
    """

    plot: Captioned
    wide: Markup
    narrow: Markup | None
    data: Download
    latex: Download | None = None
    kind: ClassVar[str] = "picture"


class Tabled(Protocol):
    """What the page needs of a table; `Cells` and `Table` have it."""

    @property
    def name(self) -> str:
        """Stem of its files."""

    @property
    def caption(self) -> str:
        """What it shows."""

    @property
    def words(self) -> tuple[str, ...]:
        """Headings of columns that hold words; the others hold numbers."""

    @property
    def label(self) -> str:
        """What it is called for readers who cannot see it; its name if empty."""

    @property
    def noun(self) -> str:
        """What its rows are called; if given, many rows are folded away under their count."""

    @property
    def headings(self) -> list[str]:
        """Headings of its columns."""

    @property
    def rows(self) -> list[list[dict[str, object]]]:
        """Cells row by row."""


@dataclass(frozen=True)
class Cells:
    """A table that is text already."""

    name: str
    caption: str
    headings: list[str]
    lines: Sequence[Sequence[str]]
    words: tuple[str, ...]
    label: str = ""
    noun: str = ""

    @property
    def rows(self) -> list[list[dict[str, object]]]:
        """Cells row by row for the page's template."""
        return keyed(self.headings, self.lines, self.words)


@dataclass(frozen=True)
class Grid:
    """A table in the page, its data as CSV, and the table for a paper."""

    table: Tabled
    data: Download
    latex: Download | None = None
    kind: ClassVar[str] = "grid"


@dataclass(frozen=True)
class Fold:
    """Blocks side by side, or under a summary, as they are shown."""

    blocks: Sequence[tuple[Any, int]]
    summary: str
    kind: ClassVar[str] = "group"


def keyed(
    headings: Sequence[str],
    lines: Iterable[Sequence[object]],
    words: Collection[str],
    bold: Collection[tuple[int, str]] = (),
) -> list[list[dict[str, object]]]:
    """Give the cells of a table row by row: text, what they sort by, whether marked.

    >>> keyed(["what", "bound"], [("mean", "12%")], ["what"])[0][1]
    {'text': '12%', 'key': '0.12', 'bold': False}
    """
    return [
        [
            {
                "text": text,
                "key": text if heading in words else sort_key(str(text)),
                "bold": (number, heading) in bold,
            }
            for heading, text in zip(headings, row, strict=True)
        ]
        for number, row in enumerate(lines)
    ]


def csv_text(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""Write rows as CSV with all digits; unknown values are left empty.

    >>> csv_text(["group", "bound"], [("a", 0.1), ("b", math.nan)])
    'group,bound\na,0.1\nb,\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    for row in rows:
        writer.writerow("" if isinstance(one, float) and math.isnan(one) else one for one in row)
    return text.getvalue()


def download(name: str, csv: str) -> Download:
    """Put a CSV file into a link; a long one is compressed, so that the page stays small."""
    return _file(f"{name}.csv", csv, "text/csv", "CSV")


def latex_download(name: str, latex: str) -> Download:
    """Put what goes into a paper's source into a link."""
    return _file(f"{name}.tex", latex, "text/x-tex", "LaTeX")


def _file(name: str, text: str, kind: str, title: str) -> Download:
    content = text.encode("utf-8")
    if len(content) <= LONG:
        return Download(name, _link(kind, content), title)
    packed = gzip.compress(content, mtime=0)
    return Download(f"{name}.gz", _link("application/gzip", packed), f"{title} (gzip)")


def _link(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


_LATEX = {
    "\\": r"\textbackslash{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    MINUS: "$-$",
    PLUS_MINUS: r"$\pm$",
    DASH: "--",
    "\n": " ",
}


def escape(text: str) -> str:
    r"""Escape text for LaTeX.

    >>> print(escape("a_b & 5%"))
    a\_b \& 5\%
    """
    return "".join(_LATEX.get(char, char) for char in text)


def figure_latex(figure: Captioned, how: str) -> str:
    r"""Write the lines that set a figure in a paper, with its title and how to read it below.

    Parameters
    ----------
    figure : Captioned
    how : str
        What makes its PDF.

    Examples
    --------
    >>> from latecomer.certify.page.blocks import Caption
    >>> print(figure_latex(Caption("gap", "Gap", "A gap.", "In %."), "latecomer figures DIR"))
    % needs \usepackage{graphicx}, and gap.pdf from: latecomer figures DIR
    \begin{figure}
    \centering
    \includegraphics[width=\linewidth]{gap.pdf}
    \caption{Gap. In \%.}
    \label{fig:gap}
    \end{figure}
    <BLANKLINE>
    """
    told = " ".join(part for part in (f"{figure.title}.", figure.caption) if part)
    lines = (
        f"% needs \\usepackage{{graphicx}}, and {figure.name}.pdf from: {how}",
        "\\begin{figure}",
        "\\centering",
        f"\\includegraphics[width=\\linewidth]{{{figure.name}.pdf}}",
        f"\\caption{{{escape(told)}}}",
        f"\\label{{fig:{figure.name}}}",
        "\\end{figure}",
    )
    return "\n".join([*lines, ""])


def rendered(content: Mapping[str, Any]) -> str:
    """Put what a page shows into the template: title, question, chapters with their blocks."""
    environment = Environment(
        loader=PackageLoader("latecomer.certify.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(content)
