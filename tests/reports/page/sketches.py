"""Pages read as HTML, and drawn without their figures being rendered; kept runs, read once."""

import html.parser
import re
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from latecomer.certify.page.svg import NARROW
from latecomer.eval.results.rows import RunRecord, load_run
from latecomer.reports.display.pictures import Picture, Writer, download
from latecomer.reports.display.section import Material
from latecomer.reports.page.layout import CHAPTERS
from latecomer.reports.page.page import page_of
from latecomer.reports.page.questions import ASKS, Answer

REFERENCE = Path(__file__).parents[3] / "reports" / "reference"
VOID = {"meta", "link", "br", "path", "rect", "use", "image"}


@cache
def kept_run(name: str) -> RunRecord:
    """Read a kept run, once for all tests."""
    return load_run(REFERENCE / name)


def kept(name: str) -> Material:
    """Give what sections and answers of a kept run are made from."""
    return Material.of(kept_run(name))


def rows_of(errors: dict[str, np.ndarray], label: str = "pefll", method: str = "pefll"):
    """Lay out errors ``[seed, client]`` of two groups as rows."""
    records = [
        (label, seed, group, f"{group}{client}", value)
        for group, table in errors.items()
        for seed, line in enumerate(table)
        for client, value in enumerate(line)
    ]
    frame = pd.DataFrame(records, columns=["label", "seed", "group", "client", "value"])
    about = {"metric": "error", "shift": "none", "severity": np.nan, "status": "done"}
    about |= {"personalization": "forward", "predictor": "deterministic", "n_query": 10}
    return frame.assign(method=method, **about)


def answered(kind: str, material: Material) -> Answer:
    """Ask a run a question that it does answer."""
    answer = ASKS[kind](material)
    assert answer is not None
    return answer


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
