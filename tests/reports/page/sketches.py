"""A page read as HTML, and drawn without its figures being rendered."""

import html.parser
import re

from markupsafe import Markup

from latecomer.certify.page.svg import NARROW
from latecomer.eval.results.rows import load_run
from latecomer.reports.display.pictures import Picture, Writer, download
from latecomer.reports.page.layout import CHAPTERS
from latecomer.reports.page.page import page_of

VOID = {"meta", "link", "br", "path", "rect", "use", "image"}


class Page(html.parser.HTMLParser):
    """Collects ids, links and headings, and checks that every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.headings, self.images = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if "id" in given:
            self.ids.append(given["id"])
        self.links += [given[name] for name in ("href", "src", "xlink:href") if name in given]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if given.get("role") == "img":
            self.images.append(given.get("aria-label", ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open.pop() == tag


class Sketcher(Writer):
    """Draws every figure once and renders none: most of the time goes into rendering."""

    def picture(self, plot):
        plot.draw(width=NARROW)
        return Picture(plot, Markup(""), None, download(plot.name, ""))


def sketch(folder, *chapters):
    """Draw the page of a run, or these chapters of it."""
    chosen = [one for one in CHAPTERS if one.name in chapters or not chapters]
    text = page_of(load_run(folder), Sketcher(), tuple(chosen))
    Page(text)
    return text
