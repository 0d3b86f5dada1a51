"""The gallery: reports of kept runs, rendered from their rows while the site is built."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from latecomer.eval.results.rows import load_run
from latecomer.reports.display.pictures import Writer
from latecomer.reports.display.section import Material
from latecomer.reports.page.page import page_of, under_shown_names
from latecomer.reports.page.questions import answers

REFERENCE = Path(__file__).resolve().parents[2] / "reports" / "reference"
GALLERY = (
    "bound-vs-accuracy-digits",
    "shift-robustness-digits",
    "generalization-gap-digits",
    "newcomers-cifar10",
    "digits-all-methods",
    "population-shift-digits",
    "population-shift-dirichlet",
    "people",
    "schools",
    "households",
    "certificates-cifar10-50",
    "without-labels-digits",
    "pefll-table1-5000-rounds",
    "odpfl-figure3b-500-rounds",
)


@cache
def shown_run(name: str) -> tuple[str, str]:
    """Return what the study of a kept run asks, and the first sentence of its report."""
    run = under_shown_names(load_run(REFERENCE / name))
    (first, *_) = answers(Material.of(run))
    return str(run.study.get("question") or ""), first.sentence


def entry_list() -> str:
    """Return the gallery's entries: question, answer, and the run whose report it is."""
    lines = []
    for name in GALLERY:
        question, answer = shown_run(name)
        run = f"../../reports/reference/{name}"
        picture = f"[![{name}](thumbnails/{name}.png)]({run})"
        lines += [f"### {question}", "", answer, "", picture, "", f"[`{name}`]({run})", ""]
    return "\n".join(lines)


def gallery_pages() -> Iterator[tuple[str, str]]:
    """Yield name and HTML of every report, drawn on all cores; each is one self-contained file."""
    with ProcessPoolExecutor(mp_context=get_context("fork")) as drawing:
        yield from zip(GALLERY, drawing.map(_page, GALLERY), strict=True)


def _page(name: str) -> str:
    return page_of(under_shown_names(load_run(REFERENCE / name)), Writer())
