"""Figures to bytes: SVG in the page and beside it, PDF, PNG for papers; always the same bytes."""

import io
import re
import warnings

import matplotlib as mpl
from matplotlib.figure import Figure

from latecomer.certify.page.svg import INK
from latecomer.reports.display.style import settings

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


def png_file(figure: Figure) -> bytes:
    """Render a PNG on white."""
    return _save(figure, "png", ground="white")


def pdf_file(figure: Figure) -> bytes:
    """Render a PDF for papers: vectors, embedded TrueType fonts, no background."""
    return _save(figure, "pdf", ground="none")


PAPER = {"pdf": pdf_file, "png": png_file}
"""What renders a figure for a paper, by the ending of its file."""


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
    """Fit the result of ``svg_of`` into the page: ink in the page's own colour, ids of its own.

    Parameters
    ----------
    svg : str
    name : str
        Prefix of every id, so that one page can hold several figures.
    """
    # A style element inside an inline SVG would style the whole page.
    body = re.sub(r"<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    head, _, body = body.partition(">")
    box = re.search(r'viewBox="[^"]*"', head)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = body.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'href="#{name}-')
    body = body.replace(INK, "currentColor").replace("'DejaVu Sans'", "system-ui, sans-serif")
    return f'<svg {box.group() if box else ""} aria-hidden="true" focusable="false">{body}'.strip()
