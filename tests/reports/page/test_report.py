"""The page and its files: whole, self-contained, the same every time, and never without a piece."""

import doctest
import html.parser
import importlib
import io
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from markupsafe import Markup

from latecomer.eval.results.rows import InputError, load_run, make_row
from latecomer.reports import report
from latecomer.reports.answers import QUESTIONS
from latecomer.reports.display.pictures import Picture, Writer, download
from latecomer.reports.display.style import NARROW
from latecomer.reports.page.html import page_of
from latecomer.reports.page.setup import setup_card, statement

VOID = {"meta", "link", "br", "path", "rect", "use", "image"}
REPORTS = Path(__file__).resolve().parents[3] / "reports"
MODULES = sorted(
    ".".join(path.relative_to(REPORTS).with_suffix("").parts)
    for path in REPORTS.rglob("*.py")
    if path.name != "__init__.py"
)


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


def sketch(folder):
    text = page_of(load_run(folder), Sketcher())
    Page(text)
    return text


@pytest.fixture(scope="module")
def made(made_up_run):
    path = report(made_up_run)
    return path, path.read_text("utf-8")


def test_page_is_written_where_promised(made, made_up_run):
    assert made[0] == made_up_run / "report.html"
    assert made[1].startswith("<!DOCTYPE html>")


def test_page_is_well_formed_with_unique_ids_and_live_anchors(made):
    page = Page(made[1])
    assert len(page.ids) == len(set(page.ids))
    anchors = [link[1:] for link in page.links if link.startswith("#")]
    assert {"accuracy", "guarantees", "shift", "clients", "method"} <= set(anchors)
    assert set(anchors) <= set(page.ids)
    referred = set(re.findall(r"url\(#([^)]+)\)", made[1]))
    assert referred
    assert referred <= set(page.ids)


def test_page_asks_nothing_of_network_or_other_files(made):
    links = Page(made[1]).links
    assert links
    assert {link.split(":")[0] for link in links if not link.startswith("#")} == {"data"}
    assert "http:" not in made[1]
    assert "https:" not in made[1]
    assert made[1].count("<script>") == made[1].count("<script") == 1  # inline, and only ours
    assert "@import" not in made[1]


def test_headings_descend_one_level_at_a_time(made):
    levels = Page(made[1]).headings
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_figure_has_words_for_those_who_cannot_see_it(made):
    images = Page(made[1]).images
    assert len(images) >= 10
    assert all(len(text) > 40 for text in images)


def test_page_says_what_the_brief_asks_of_it(made):
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", made[1]))
    for words in (
        "How well do six methods serve clients that join after training?",
        "36 seen, 12 certification, 12 novel",
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
        "What serving a newcomer costs",
        "What descriptors know of the clients",
        "Whether bodies differ between clients",
        "@inproceedings{scott2024,",
        "@article{maaten2008,",
        "@article{spearman1904,",
        "cards/pefll-stochastic-2.json",
    ):
        assert words in text, words


def test_a_certificate_is_never_printed_as_a_mean(made, made_up_run):
    values = pd.read_csv(made_up_run / "tables" / "bound-r0-product.csv")
    assert len(values) == 21  # 6 methods and one second predictor, 3 seeds
    table = (made_up_run / "tables" / "bound-r0-product.tex").read_text()
    assert table.count("\\%") >= 21
    assert "seed 0 & seed 1 & seed 2" in table


@pytest.mark.usefixtures("made")
def test_files_beside_the_page(made_up_run):
    figures = {path.stem for path in (made_up_run / "figures").glob("*.svg")}
    assert {"gap", "bounds", "shift-blur", "shift-rotation", "shift-extrapolation"} <= figures
    assert {"ranks", "classes", "error-distribution", "serving-cost"} <= figures
    assert {"descriptors-pefll", "descriptors-pfedhn", "descriptor-correlation"} <= figures
    assert "mix-and-match-pfedhn" in figures
    for name in figures:
        assert (made_up_run / "figures" / f"{name}.pdf").read_bytes()[:5] == b"%PDF-"
        assert (made_up_run / "figures" / f"{name}.csv").is_file()
        root = ET.parse(made_up_run / "figures" / f"{name}.svg").getroot()
        assert root.tag.endswith("svg")
        png = (made_up_run / "figures" / f"{name}.png").read_bytes()
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
    accuracy = pd.read_csv(made_up_run / "tables" / "accuracy.csv")
    assert len(accuracy) == 14
    latex = (made_up_run / "tables" / "accuracy.tex").read_text()
    for words in ("\\toprule", "\\midrule", "\\bottomrule", "Per-FedAvg", "$\\pm$"):
        assert words in latex
    assert not [p for p in made_up_run.rglob("*.tmp")]


def test_the_same_run_gives_the_same_bytes(made, made_up_run):
    kept = {
        path: path.read_bytes()
        for folder in ("figures", "tables")
        for path in (made_up_run / folder).iterdir()
    }
    report(made_up_run)
    assert made[0].read_text("utf-8") == made[1]
    assert {path: path.read_bytes() for path in kept} == kept


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


SMALL = {"seeds": (0, 1), "labels": ("pfedhn", "pefll-stochastic")}


def drop(test):
    return lambda rows: [row for row in rows if not test(row)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop(lambda r: r["metric"] == "certificate"), "asked for no certificate"),
        (drop(lambda r: r["shift"] not in ("none", "")), "asked for no shift"),
        (drop(lambda r: r["method"] == ""), "No distances between clients were computed"),
        (drop(lambda r: r["group"] == "novel"), "No novel client was measured"),
        (drop(lambda r: r["group"] == "seen"), "Lowest error on 12 novel clients"),
        (drop(lambda r: r["client"] != ""), "No client was measured"),
        (drop(lambda r: r["seed"] not in (0, "")), "12 clients \N{MULTIPLICATION SIGN} 1 seed)"),
        (drop(lambda r: r["label"] not in ("pfedhn", "")), "12 novel clients: pFedHN with"),
        (drop(lambda r: r["client"] not in (48, "")), "1 client \N{MULTIPLICATION SIGN} 2 seeds"),
        (drop(lambda r: r["term"] != ""), "Held-out clients, product rule"),
        (lambda rows: [], "No novel client was measured"),
    ],
    ids=["certificates", "shifts", "diagnostics", "novel", "seen", "clients", "one-seed",
         "one-method", "one-client", "terms", "everything"],
)  # fmt: skip
def test_a_missing_piece_leaves_a_page(tmp_path, run_writer, change, words):
    assert words in sketch(run_writer(tmp_path, change=change, **SMALL))


PAPER = {"study": "made-up", "scale": "reduced", "train": {"rounds": 150},
         "paper": ["pfedhn:Table 1:cifar10"]}  # fmt: skip
# Published for one number of clients only, so compared whatever the run's own number is.
ONE_SIZE = "pfedhn:Appendix C.5:trainable"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "no number on record matches"),
        ({"paper": ["pefll-iclr:Figure 4"]}, "no number on record matches"),
        ({"paper": [ONE_SIZE]}, "of 150 rounds: its numbers cannot confirm"),
        ({"paper": [ONE_SIZE], "scale": "paper"}, "two standard errors"),
    ],
    ids=["sizes", "figure", "reduced", "paper"],
)
def test_published_numbers_stand_beside_ours(tmp_path, run_writer, change, words):
    def resize(rows):
        kept = [r for r in rows if r["group"] != "certification"]
        return [{**r, "dataset": "cifar10"} for r in kept]

    study = {**PAPER, **change}
    folder = run_writer(tmp_path, change=resize, study=study, labels=("pfedhn",), seeds=(0, 1))
    text = sketch(folder)
    assert words in text
    assert ("Published accuracy beside ours" in text) is (ONE_SIZE in study["paper"])
    assert ("not the paper's length" in text) is (study["scale"] != "paper")


def test_failed_cells_only(tmp_path, run_writer):
    failed = [
        make_row(label="pefll", method="pefll", seed=s, cell=f"pefll-{s}", status="failed",
                 message="DivergedError: round 3") for s in (0, 1)
    ]  # fmt: skip
    text = sketch(run_writer(tmp_path, change=lambda rows: failed, **SMALL))
    assert "2 of 5 cells failed." in text
    assert text.count("DivergedError: round 3") == 2


def test_one_failed_seed_is_said_and_the_counts_follow(tmp_path, run_writer):
    def fail(rows):
        kept = [r for r in rows if (r["label"], r["seed"]) != ("fedavg", 2)]
        lost = make_row(label="fedavg", method="fedavg", seed=2, cell="fedavg-2", status="failed",
                        message="out of memory")  # fmt: skip
        return [*kept, lost]

    folder, writer = run_writer(tmp_path, change=fail), Sketcher()
    text = page_of(load_run(folder), writer)
    assert "1 of 19 cells failed." in text
    assert "out of memory" in text
    frame = pd.read_csv(io.StringIO(writer.files["tables/accuracy.csv"]))
    frame = frame.set_index(["label", "group"]).sort_index()
    assert frame.loc[("fedavg", "novel"), "n_seeds"] == 2
    assert frame.loc[("pefll", "novel"), "n_seeds"] == 3


def test_run_without_artifacts_or_settings(tmp_path, run_writer):
    folder = run_writer(tmp_path, study={"study": "bare"}, artifacts=False, **SMALL)
    (folder / "env.json").unlink()
    text = sketch(folder)
    assert "latecomer run bare" in text
    assert "Inputs of" not in text


def test_less_precision_in_training_is_said(made_up_rows):
    train = {"rounds": 150, "cohort": 5}
    for precision in (None, "bf16"):
        study = {
            "study": "x",
            "train": {**train, **({"precision": precision} if precision else {})},
        }
        said = [line for line in statement(made_up_rows, study, []) if "train.precision" in line]
        assert len(said) == bool(precision)
        assert all("Local steps multiplied in bf16" in line for line in said)
        card = dict(setup_card(made_up_rows, study))
        assert ("precision" in card["Training"]) == bool(precision)


def test_useful_but_unproven_value_is_called_so(tmp_path, run_writer):
    def shrink(rows):
        return [{**r, "value": r["value"] / 400} if r["bound"] == "ben_david" else r for r in rows]

    text = sketch(run_writer(tmp_path, change=shrink, **SMALL))
    assert "not proven here" in text


def test_no_run_is_one_line(tmp_path):
    with pytest.raises(InputError, match="no run directory") as raised:
        report(tmp_path)
    assert "\n" not in str(raised.value)


def test_importing_and_reporting_loads_no_torch(run_writer, tmp_path):
    few = drop(lambda r: r["metric"] == "certificate" or r["shift"] not in ("none", ""))
    folder = run_writer(tmp_path / "run", change=few, **SMALL)
    code = (
        "import sys, latecomer.reports; assert 'matplotlib' not in sys.modules;"
        "from latecomer.reports import report; report(sys.argv[1]);"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(folder)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    found = importlib.import_module(f"latecomer.reports.{module}")
    assert doctest.testmod(found).failed == 0


@pytest.mark.slow
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
        (["shifts"], "asks must be among bounds, shift, gap, accuracy, paper, certificate, got"),
        (["paper"], "holds nothing that answers paper"),
    ):
        with pytest.raises(InputError, match=said):
            report(out, asks=asks)
