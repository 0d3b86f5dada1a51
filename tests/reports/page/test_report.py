"""The page and its files: whole, self-contained, the same every time, and never without a piece."""

import base64
import doctest
import gzip
import importlib
import re
import shutil
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
import yaml
from sketches import Page, sketch

from latecomer.errors import InputError
from latecomer.eval.names import method_defaults
from latecomer.eval.results.rows import load_run, make_row
from latecomer.reports import figures, report
from latecomer.reports.display import pictures
from latecomer.reports.page.questions import QUESTIONS

REPORTS = Path(__file__).resolve().parents[3] / "reports"
MODULES = sorted(
    ".".join(path.relative_to(REPORTS).with_suffix("").parts)
    for path in REPORTS.rglob("*.py")
    if path.name != "__init__.py"
)


@pytest.fixture(scope="module")
def made(made_up_run):
    path = report(made_up_run)
    return path, path.read_text("utf-8")


@pytest.fixture
def place(tmp_path):
    """A kept run without its figures."""
    kept, bare = REPORTS / "reference" / "pfedhn-newcomers", shutil.ignore_patterns("figures")
    return Path(shutil.copytree(kept, tmp_path / "run", ignore=bare))


@pytest.mark.slow
def test_page_is_written_where_promised(made, made_up_run):
    assert made[0] == made_up_run / "report.html"
    assert made[1].startswith("<!DOCTYPE html>")


@pytest.mark.slow
def test_page_is_well_formed_with_unique_ids_and_live_anchors(made):
    page = Page(made[1])
    assert len(page.ids) == len(set(page.ids))
    anchors = [link[1:] for link in page.links if link.startswith("#")]
    assert {"accuracy", "guarantees", "shift", "clients", "method"} <= set(anchors)
    assert set(anchors) <= set(page.ids)
    referred = set(re.findall(r"url\(#([^)]+)\)", made[1]))
    assert referred
    assert referred <= set(page.ids)


@pytest.mark.slow
def test_page_asks_nothing_of_network_or_other_files(made):
    links = Page(made[1]).links
    assert links
    assert {link.split(":")[0] for link in links if not link.startswith("#")} == {"data"}
    assert "http:" not in made[1]
    assert "https:" not in made[1]
    assert made[1].count("<script>") == made[1].count("<script") == 1  # inline, and only ours
    assert "@import" not in made[1]


@pytest.mark.slow
def test_every_figure_and_table_can_be_taken_from_the_page_alone(made, made_up_run):
    """CSV and LaTeX are in links; the SVG is what the page shows, which its script saves."""
    held = set()
    for name, link in re.findall(r'<a download="([^"]+)" href="(data:[^"]+)">', made[1]):
        content = base64.b64decode(link.partition(",")[2])
        packed = link.startswith("data:application/gzip")
        held.add((name.removesuffix(".gz"), gzip.decompress(content) if packed else content))
    shown = [*made_up_run.glob("figures/*.csv"), *made_up_run.glob("tables/*.tex")]
    shown += [path.with_suffix(".csv") for path in made_up_run.glob("tables/*.tex")]
    assert len(shown) > 40
    for path in shown:
        assert (path.name, path.read_bytes()) in held, path.name
    figures = {path.stem for path in (made_up_run / "figures").glob("*.svg")}
    assert set(re.findall(r'<a class="svg" download="([^"]+)\.svg"', made[1])) == figures
    assert made[1].count('<a href="#files">PDF</a>') == len(figures)
    (gap,) = (content.decode("utf-8") for name, content in held if name == "gap.tex")
    assert "\\includegraphics[width=\\linewidth]{gap.pdf}" in gap
    assert "gap.pdf from: latecomer figures DIR" in gap
    assert "95\\% interval over clients and seeds" in gap


@pytest.mark.slow
def test_an_accuracy_stands_beside_the_error(made):
    shares = re.findall(
        r'data-label="new-client error[^"]*" data-key="[^"]*">(?:<strong>)?([\d.]+)%[^"]*'
        r'data-label="new-client accuracy" data-key="[^"]*">([\d.]+)%',
        made[1],
    )
    assert len(shares) == 7  # a model a row
    for error, accuracy in shares:
        assert float(error) + float(accuracy) == pytest.approx(100, abs=0.1001)


@pytest.mark.slow
def test_the_navigation_leads_to_chapters_that_hold_something(made, run_writer, tmp_path):
    def named(text):
        return re.findall(r'<li><a href="#(\w+)">', text)

    chapters = ["answer", "accuracy", "guarantees", "shift", "clients", "method"]
    assert named(made[1]) == chapters
    bare = run_writer(
        tmp_path,
        change=lambda rows: [r for r in rows if r["metric"] == "error" and r["shift"] == "none"],
        study={"study": "bare"},
        artifacts=False,
        labels=("pefll", "local"),
        seeds=(0, 1),
    )
    text = sketch(bare)
    assert named(text) == [name for name in chapters if name != "shift"]
    # It says why, and is not folded.
    assert re.search(r'<section id="shift" class="empty">\s*<h2>Shift</h2>\s*<p>The study', text)


@pytest.mark.slow
def test_latecomer_itself_is_cited_as_its_citation_file_says(made):
    citation = yaml.safe_load((REPORTS.parent / "CITATION.cff").read_text("utf-8"))
    entry = re.search(r"@misc\{latecomer,.*?\n\}", made[1], re.DOTALL)[0]
    assert f"title = {{{citation['title']}}}" in entry
    assert f"author = {{{{{citation['authors'][0]['name']}}}}}" in entry
    assert f"note = {{Version {citation['version']}}}" in entry


@pytest.mark.slow
def test_every_setting_of_every_method_is_told(made):
    table = re.search(r'aria-label="Protocols".*?</table>', made[1], re.DOTALL)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)[1:]
    assert len(rows) == 6
    for row in rows:
        name, _, given, left = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        method = "pefll" if name.startswith("pefll") else name
        told = f"{given}, {left}".replace(" ", "_")
        for setting in method_defaults(method):
            assert f"_{setting}_" in f"_{told}", (name, setting)
    assert "posterior gaussian" in table
    assert "posterior none" in table


@pytest.mark.slow
def test_headings_descend_one_level_at_a_time(made):
    levels = Page(made[1]).headings
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.slow
def test_every_figure_has_words_for_those_who_cannot_see_it(made):
    images = Page(made[1]).images
    assert len(images) >= 10
    assert all(len(text) > 40 for text in images)


@pytest.mark.slow
def test_page_says_what_the_brief_asks_of_it(made):
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", made[1]))
    for words in (
        "How well do six methods serve clients that join after training?",
        "36 seen, 12 held-out, 12 new",
        "all: all classes compete (no masking)",
        "none: every model is the one after the last round",
        "latecomer run made-up",
        "torch 2.13.0+cpu",
        "over the choice of these 12 clients, the mean error over the 24 clients not trained on",
        "losses lie in [0, 1]",
        "Vacuous for 3 of 3",
        "One forward pass: the encoder reads",
        "heuristic",
        "No cell failed.",
        "3 training seeds: 0, 1, 2",
        "scored once by each of 18 trained models",
        "Who holds which classes",
        "Certified error distribution",
        "for each trained model all levels hold at once with probability 95%",
        "pairs of models differ at 5%",
        "Friedman test",
        "What serving a new client costs",
        "What descriptors know of the clients",
        "Whether bodies differ between clients",
        "@inproceedings{scott2024,",
        "@article{maaten2008,",
        "@article{spearman1904,",
        "cards/pefll-stochastic-2.json",
    ):
        assert words in text, words


@pytest.mark.slow
def test_a_certificate_is_never_printed_as_a_mean(made, made_up_run):
    values = pd.read_csv(made_up_run / "tables" / "bound-r0-product.csv")
    assert len(values) == 21  # 6 methods and one second predictor, 3 seeds
    table = (made_up_run / "tables" / "bound-r0-product.tex").read_text()
    assert table.count("\\%") >= 21
    assert "seed 0 & seed 1 & seed 2" in table


@pytest.mark.slow
@pytest.mark.usefixtures("made")
def test_files_beside_the_page(made_up_run):
    figures = {path.stem for path in (made_up_run / "figures").glob("*.svg")}
    assert {"gap", "bounds", "shift-blur", "shift-rotation", "shift-extrapolation"} <= figures
    assert {"ranks", "classes", "error-distribution", "serving-cost"} <= figures
    assert {"descriptors-pefll", "descriptors-pfedhn", "descriptor-correlation"} <= figures
    assert "mix-and-match-pfedhn" in figures
    for name in figures:
        assert (made_up_run / "figures" / f"{name}.csv").is_file()
        root = ET.parse(made_up_run / "figures" / f"{name}.svg").getroot()
        assert root.tag.endswith("svg")
    assert {path.suffix for path in (made_up_run / "figures").iterdir()} == {".svg", ".csv"}
    accuracy = pd.read_csv(made_up_run / "tables" / "accuracy.csv")
    assert len(accuracy) == 14
    latex = (made_up_run / "tables" / "accuracy.tex").read_text()
    for words in ("\\toprule", "\\midrule", "\\bottomrule", "Per-FedAvg", "$\\pm$"):
        assert words in latex
    assert not [p for p in made_up_run.rglob("*.tmp")]


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "begins"), [("pdf", b"%PDF-"), ("png", b"\x89PNG\r\n\x1a\n")])
def test_figures_for_papers_are_made_when_asked_for_and_kept_in_step(place, kind, begins):
    made = figures(place, kind)
    assert {path.suffix for path in (place / "figures").iterdir()} == {f".{kind}"}
    assert all(path.read_bytes().startswith(begins) for path in made)
    made[0].write_bytes(b"of other rows")
    report(place)
    assert made[0].read_bytes().startswith(begins)
    drawn = {path.stem for path in (place / "figures").glob("*.svg")}
    assert {path.stem for path in made} == drawn
    assert {path.suffix for path in (place / "figures").iterdir()} == {".svg", ".csv", f".{kind}"}


@pytest.mark.nightly
def test_figures_are_as_wide_as_a_column_and_in_its_letters_and_stay_so(place):
    def widths_and_fonts():
        for path in sorted((place / "figures").glob("*.pdf")):
            content = path.read_bytes()
            yield float(re.search(rb"/MediaBox \[ 0 0 ([\d.]+)", content)[1])
            assert re.findall(rb"/BaseFont /([\w+-]+)", content)
            yield b"STIXGeneral" in content

    figures(place, "pdf", width=3.25, font="serif")
    assert set(widths_and_fonts()) == {72 * 3.25, True}
    report(place)  # makes them again, set as they were
    assert set(widths_and_fonts()) == {72 * 3.25, True}
    assert "STIXGeneral" not in (place / "report.html").read_text("utf-8")
    figures(place, "pdf")
    wide = list(widths_and_fonts())
    assert 72 * 3.25 not in wide
    assert not any(serif for serif in wide[1::2])
    report(place)
    assert list(widths_and_fonts()) == wide


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"width": 1.9}, r"width must be from 2 to 12 inches, got width=1\.9"),
        ({"width": float("nan")}, "width must be from 2 to 12 inches, got width=nan"),
        ({"font": "times"}, "font must be one of sans, serif, got 'times'"),
    ],
)
def test_another_width_or_font_is_refused(tmp_path, asked, said):
    with pytest.raises(InputError, match=said):
        figures(tmp_path, "pdf", **asked)


@pytest.mark.parametrize("held", ["{", '{"height": 2}', '{"width": "a"}', '{"font": "times"}'])
def test_a_spoilt_note_of_widths_and_fonts_is_told_in_one_line(place, held):
    (place / "figures").mkdir()
    (place / "figures" / "column.json").write_text(held)
    with pytest.raises(InputError, match=r"column.json must hold the width and font") as raised:
        report(place)
    assert "\n" not in str(raised.value)


def test_another_format_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"format must be one of pdf, png, got 'eps'"):
        figures(tmp_path, "eps")


@pytest.mark.nightly
def test_the_same_run_gives_the_same_bytes(made, made_up_run):
    kept = {
        path: path.read_bytes()
        for folder in ("figures", "tables")
        for path in (made_up_run / folder).iterdir()
    }
    report(made_up_run)
    assert made[0].read_text("utf-8") == made[1]
    assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.slow
def test_labels_are_escaped_everywhere(tmp_path, run_writer):
    evil = '<b>&"$x_1$'

    def rename(rows):
        named = [{**row, "label": evil} if row["label"] == "pefll" else row for row in rows]
        hidden = [{**row, "label": "_hidden"} if row["label"] == "local" else row for row in named]
        kept = [row for row in hidden if row["label"] in (evil, "_hidden", "")]
        failed = make_row(label=evil, method="pefll", seed=3, cell="f", status="failed",
                          message="<script>alert(1)</script>")  # fmt: skip
        return [*kept, failed]

    text = report(run_writer(tmp_path, change=rename, seeds=(0, 1))).read_text("utf-8")
    assert "<b>&" not in text
    assert text.count("<script") == 1
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "&lt;b&gt;&amp;" in text
    Page(text)
    ET.parse(tmp_path / "figures" / "gap.svg")
    assert "$x_1$" in (tmp_path / "figures" / "gap.svg").read_text("utf-8")
    latex = (tmp_path / "tables" / "accuracy.tex").read_text("utf-8")
    assert r"\&" in latex
    assert r"\$x\_1\$" in latex


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    found = importlib.import_module(f"latecomer.reports.{module}")
    assert doctest.testmod(found).failed == 0


@pytest.mark.nightly
def test_a_run_answers_another_question_on_a_page_of_its_own(tmp_path):
    kept = REPORTS / "reference" / "generalization-gap-digits"
    out = shutil.copytree(kept, tmp_path / "run")
    path = report(out, asks=["accuracy"])
    assert path.name == "report-accuracy.html"
    text = path.read_text("utf-8")
    assert QUESTIONS["accuracy"] in text
    assert "answer-accuracy" in text
    assert load_run(out).study["question"] not in text
    assert not (out / "report.html").exists()
    for asks, said in (
        (["shifts"], "asks must be among bounds, shift, gap, accuracy, paper, certificate, sets"),
        (["paper"], "holds nothing that answers paper"),
    ):
        with pytest.raises(InputError, match=said):
            report(out, asks=asks)


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("report.html", marks=pytest.mark.slow),
        pytest.param("tables", marks=pytest.mark.nightly),
        pytest.param("figures", marks=pytest.mark.nightly),
    ],
)
def test_a_link_to_what_the_run_holds_is_not_followed(run_writer, tmp_path, monkeypatch, place):
    monkeypatch.setattr(pictures, "svg_of", lambda figure: "<svg></svg>")
    run = run_writer(tmp_path / "run", seeds=(0,), labels=("pefll", "local"), artifacts=False)
    rows = (run / "rows.csv").read_bytes()
    if place == "report.html":
        (run / place).symlink_to("rows.csv")
    else:
        written = next(path.name for path in sorted((report(run).parent / place).iterdir()))
        shutil.rmtree(run / place)
        (run / "cells" / "kept").mkdir()
        (run / "cells" / "kept" / written).write_text("kept")
        (run / place).symlink_to("cells/kept")
    with pytest.raises(InputError, match=f"^{place}.* must be another file than .*, which is read"):
        report(run)
    assert (run / "rows.csv").read_bytes() == rows
    assert {path.read_text() for path in (run / "cells").glob("kept/*")} <= {"kept"}


def test_a_folder_that_cannot_be_written_is_told_of_before_anything_is_drawn(
    run_writer, tmp_path, monkeypatch
):
    run = run_writer(tmp_path / "run", seeds=(0,), labels=("pefll", "local"), artifacts=False)
    monkeypatch.setattr("latecomer.checks.os.access", lambda *asked: False)
    monkeypatch.setattr("latecomer.reports.page.page.content_of", None)  # what draws
    with pytest.raises(InputError, match=r"^report\.html: .* cannot be written: no permission in"):
        report(run)
    with pytest.raises(InputError, match=r"^figures: .* cannot be written: no permission in"):
        figures(run, "pdf")
