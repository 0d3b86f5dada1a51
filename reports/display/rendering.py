"""Figures to bytes: SVG in the page; SVG, PDF, PNG files beside it; always the same bytes."""

import io
import re
import string
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import matplotlib as mpl
from fontTools import subset, ttLib  # type: ignore[import-untyped, unused-ignore]
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font

from latecomer.reports.display.style import INK, settings

DPI = 200
# Tables of a font by which letters are chosen and placed: in a PDF both is done.
_SHAPING = ("GSUB", "GPOS", "GDEF")
# Signs that nearly every figure has some of.  A font is cut down to all of them, so that figures
# of a page share one: cutting is half of a PDF's making.
_COMMON = string.digits + string.ascii_letters + string.punctuation + " \N{MINUS SIGN}"
fonts: Any = import_module("matplotlib.backends._backend_pdf_ps")
_cut: Any = getattr(fonts, "get_glyphs_subset", None)
_Result: Any = getattr(fonts, "SubsetResults", None)


@contextmanager
def _plain_letters() -> Iterator[None]:
    """Embed fonts without shaping tables and without cutting the same font twice.

    Both go through inner parts of fontTools and matplotlib; where these are not as they are known
    here, fonts are embedded as matplotlib does it.
    """
    given = getattr(subset.Options, "_drop_tables_default", None)
    if given is not None:
        subset.Options._drop_tables_default = [*given, *_SHAPING]
    if _Result is not None:
        fonts.get_glyphs_subset = _shared_font
    try:
        yield
    finally:
        if given is not None:
            subset.Options._drop_tables_default = given
        if _Result is not None:
            fonts.get_glyphs_subset = _cut


def _shared_font(path: Any, glyphs: Iterable[Any]) -> AbstractContextManager[Any]:
    """Stand in for matplotlib's function: a font of the common signs and of these glyphs."""
    font = get_font(path)
    common = {font.get_char_index(ord(sign)) for sign in _COMMON}
    data, places = _cut_once(path, frozenset(glyphs) | (common - {0}))
    opened = ttLib.TTFont(io.BytesIO(data), recalcBBoxes=False, recalcTimestamp=False)
    given: AbstractContextManager[Any] = _Result(opened, places)._as_cm()
    return given


@cache
def _cut_once(path: Any, glyphs: frozenset[Any]) -> tuple[bytes, dict[Any, Any]]:
    with _cut(path, glyphs) as found:
        data: bytes = fonts.font_as_file(found.font).getvalue()
        return data, dict(found.glyph_index_map)


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
        figure.savefig(buffer, format=kind, metadata=stamp, dpi=DPI, facecolor=ground)
    return buffer.getvalue()


def png_file(figure: Figure) -> bytes:
    """Render a PNG on white."""
    return _save(figure, "png", ground="white")


def pdf_file(figure: Figure) -> bytes:
    """Render a PDF for papers: vectors, embedded TrueType letters, no ground."""
    with _plain_letters():
        return _save(figure, "pdf", ground="none")


def svg_of(figure: Figure) -> str:
    """Render an SVG without ground and without metadata; its text is text."""
    text = _save(figure, "svg", ground="none").decode("utf-8")
    return re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)


def svg_file(svg: str) -> str:
    """Put the result of ``svg_of`` on white, for papers and for pages on any ground."""
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
        Goes before every id, so that several figures live in one page.
    """
    # A style element inside an inline SVG would style the whole page.
    body = re.sub(r"<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    head, _, body = body.partition(">")
    box = re.search(r'viewBox="[^"]*"', head)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = body.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'href="#{name}-')
    body = body.replace(INK, "currentColor").replace("'DejaVu Sans'", "system-ui, sans-serif")
    return f'<svg {box.group() if box else ""} aria-hidden="true" focusable="false">{body}'.strip()
