"""Markdown extension: LaTeX becomes MathML while the site is built, so no page loads a script.

Formulas are written ``$...$``, ``$$...$$`` on lines of their own, and, in docstrings, ``:math:``
and ``.. math::``.  The roles of other references (``:func:`` and so on) become code.
"""

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

BLOCK = re.compile(
    r"^(?P<indent>[ ]*)(?:\$\$\s*(?P<dollars>.+?)\s*\$\$[ ]*$"
    r"|\.\. math::\s*(?P<directive>.+?)(?=\n\s*\n|\Z))",
    flags=re.MULTILINE | re.DOTALL,
)
BEFORE_BACKTICKS, BEFORE_ESCAPES, AFTER_FENCES = 195, 185, 22


def mathml(latex: str, *, display: str = "inline") -> str:
    r"""Return a formula as MathML; ValueError for a command that MathML lacks.

    Examples
    --------
    >>> "<msqrt>" in mathml(r"\sqrt{n}")
    True
    """
    latex = re.sub(r"(?<![A-Za-z\\{])kl(?![A-Za-z])", r"\\operatorname{kl}", latex)
    latex = re.sub(r"frac(\d)(\d|\\[A-Za-z]+)", r"frac{\1}{\2}", latex)  # the short form
    latex = latex.replace(r"\Bigl\{", r"\left\{").replace(r"\Bigr\}", r"\right\}")
    latex = _flat_roots(latex)
    made = convert(" ".join(latex.split()), display=display)
    if "\\" in made:
        raise ValueError(f"a formula has a command that MathML cannot say: {latex}")
    return made


def _group(latex: str, start: int) -> tuple[str, int]:
    """Return the text in the braces that open at ``start``, and the position after them."""
    depth = 0
    for place in range(start, len(latex)):
        bare = latex[place - 1] != "\\"
        depth += (latex[place] == "{" and bare) - (latex[place] == "}" and bare)
        if depth == 0:
            return latex[start + 1 : place], place + 1
    raise ValueError(f"a formula has braces that do not close: {latex}")


def _flat_roots(latex: str) -> str:
    """Write fractions under a root with a slash: without a math font, root signs do not grow."""
    head = r"\sqrt{\frac"
    start = latex.find(head)
    while start >= 0:
        above, place = _group(latex, start + len(head))
        below, place = _group(latex, place)
        flat = "/".join(f"({part})" if len(part) > 1 else part for part in (above, below))
        latex = f"{latex[:start]}\\sqrt{{{flat}{latex[place:]}"
        start = latex.find(head, start + 1)
    return latex


class _Inline(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> Any:
        return self.md.htmlStash.store(mathml(m.group(1))), m.start(0), m.end(0)


class _Role(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> Any:
        name = m.group(1)
        shown = name.removeprefix("~").rpartition(".")[2] if name.startswith("~") else name
        return self.md.htmlStash.store(f"<code>{shown}</code>"), m.start(0), m.end(0)


class _Blocks(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        def stored(formula: re.Match[str]) -> str:
            latex = formula["dollars"] or formula["directive"]
            html = f'<div class="formula">{mathml(latex, display="block")}</div>'
            return f"\n{formula['indent']}{self.md.htmlStash.store(html)}\n"

        return BLOCK.sub(stored, "\n".join(lines)).split("\n")


class Mathematics(Extension):
    """Formulas and roles of docstrings, for Python-Markdown."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register the patterns around those of code and escapes."""
        md.preprocessors.register(_Blocks(md), "formulas", AFTER_FENCES)
        roles = ((_Inline, "math"), (_Role, "(?:func|class|data|meth|mod|attr)"))
        for made, role in roles:
            pattern = rf":{role}:`([^`]+)`"
            md.inlinePatterns.register(made(pattern, md), f"role {role}", BEFORE_BACKTICKS)
        dollars = r"(?<![\\$\w])\$(?![\s$])([^$\n]+?)(?<!\s)\$(?![\w$])"
        md.inlinePatterns.register(_Inline(dollars, md), "formula", BEFORE_ESCAPES)
