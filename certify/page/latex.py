"""Words and figures for a paper's source."""

from latecomer.certify.page.blocks import Captioned
from latecomer.certify.words import DASH, MINUS, PLUS_MINUS

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
