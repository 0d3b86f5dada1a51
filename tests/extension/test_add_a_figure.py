"""Adding a figure is one module: it lies in a folder of sections, and the page shows it."""

import html
import shutil
from pathlib import Path

import pytest
from sketches import sketch

from latecomer.eval.results.rows import load_run
from latecomer.reports import accuracy as errors
from latecomer.reports import report
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.display.section import Heading, Material, Text
from latecomer.reports.page.layout import CHAPTERS, Chapter, placed, sections

# The module as whoever adds it writes it: frame, figure, table, words, and the section itself.
SPREAD = '''
"""How far apart the best and the worst served novel client are."""

from functools import partial

import pandas as pd

from latecomer.certify.page.svg import WIDE
from latecomer.certify.words import percent
from latecomer.reports.display.drawing import sheet, styled
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Section, Text
from latecomer.reports.display.pictures import Table
from latecomer.reports.frames.errors import client_errors, records


def extremes_frame(rows):
    """Least and largest new-client error per label."""
    errors = client_errors(rows)
    novel = errors[(errors["group"] == "novel") & (errors["shift"] == "none")]
    return novel.groupby("label")["error"].agg(best="min", worst="max").reset_index()


@styled
def extremes_figure(frame, looks, *, width=WIDE):
    """Draw a bar from the best to the worst served client of each method."""
    figure, [axes] = sheet(width, 1.0 + 0.3 * len(frame))
    for row, one in enumerate(records(frame)):
        ends = [100 * one["best"], 100 * one["worst"]]
        axes.plot(ends, [row, row], color=looks[one["label"]].colour)
    axes.set_yticks(range(len(frame)), list(frame["label"]))
    axes.set_xlabel("error of novel clients (%)")
    return figure


def _extremes(material):
    frame = material.ordered(extremes_frame(material.rows))
    if frame.empty:
        return
    yield Text("From the best to the worst served newcomer.")
    yield Plot(
        "extremes",
        partial(extremes_figure, frame, material.looks),
        frame,
        title="Best and worst served client",
        alt=f"Bars of {len(frame)} methods, least to largest error of a novel client.",
        caption="A bar reaches from the least to the largest error of a novel client.",
    )
    cells = pd.DataFrame(
        {"method": frame["label"], "worst client": [percent(error) for error in frame["worst"]]}
    )
    yield Table("extremes", "Largest error of a novel client.", frame, cells, ("method",))


EXTREMES = Section(
    "extremes", _extremes, title="How unevenly newcomers are served", cites=("vovk2005",)
)
'''


@pytest.fixture
def dropped(tmp_path, monkeypatch):
    """Lay the one file into a folder of sections, for as long as a test takes."""
    place = tmp_path / "sections" / "extremes.py"
    place.parent.mkdir()
    place.write_text(SPREAD)
    monkeypatch.setattr(errors, "__path__", [*errors.__path__, str(place.parent)])
    monkeypatch.delitem(__import__("sys").modules, "latecomer.reports.accuracy.extremes", False)
    return place


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A committed run, small and whole."""
    held = Path(__file__).resolve().parents[2] / "reports" / "reference" / "pfedhn-newcomers"
    return Path(shutil.copytree(held, tmp_path_factory.mktemp("run") / "copy"))


@pytest.mark.slow
def test_one_file_brings_title_figure_table_and_caption_to_the_page(dropped, run):
    assert [path.name for path in dropped.parent.glob("*")] == ["extremes.py"]
    text = html.unescape(report(run).read_text("utf-8"))
    assert '<h3 id="extremes">How unevenly newcomers are served' in text
    assert "A bar reaches from the least to the largest error of a novel client." in text
    assert '<figure id="figure-extremes">' in text
    assert '<th scope="col" class="">worst client</th>' in text
    assert "@book{vovk2005" in text
    # It closes the chapter it belongs to, before the next one begins.
    assert text.index('id="accuracy"') < text.index('id="extremes"') < text.index('id="guarantees"')
    for name in ("figures/extremes.svg", "figures/extremes.csv", "tables/extremes.tex"):
        assert (run / name).stat().st_size


@pytest.mark.slow
def test_without_the_file_the_page_has_nothing_of_it(run):
    assert "extremes" not in sections()
    assert "How unevenly" not in sketch(run)


@pytest.mark.usefixtures("dropped")
def test_a_page_may_list_it_anywhere(run):
    known = sections()
    page = (Chapter("answer", "Answer", ("extremes",), box=("best",)),)
    [(chapter, box, below)] = placed(page, known)
    assert (chapter.name, [one.name for one in box]) == ("answer", ["best"])
    assert [one.name for one in below] == ["extremes"]
    heading, *blocks = below[0].blocks(Material.of(load_run(run)))
    assert heading == Heading("How unevenly newcomers are served", "extremes")
    assert [type(block) for block in blocks] == [Text, Plot, Table]


def test_every_section_of_the_package_is_listed_once():
    listed = [name for chapter in CHAPTERS for name in (*chapter.box, *chapter.sections)]
    assert sorted(listed) == sorted(sections())


def test_two_sections_of_one_name_are_refused(dropped):
    dropped.write_text(SPREAD.replace('"extremes", _extremes', '"gap", _extremes'))
    with pytest.raises(ValueError, match="two sections of the page are named 'gap'"):
        sections()
