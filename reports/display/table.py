"""One table in all its forms: cells for the page, CSV for programs, LaTeX for papers.

The CSV holds the frame's raw numbers; HTML and LaTeX show the same formatted cells.
"""

from dataclasses import dataclass

import pandas as pd

from latecomer.certify.page.blocks import keyed
from latecomer.certify.page.latex import escape
from latecomer.certify.words import DASH, PLUS_MINUS, points


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
