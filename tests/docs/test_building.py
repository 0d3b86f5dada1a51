"""What the site is built with: facts of bounds, public names, the search for foreign resources."""

import doctest
import re
from math import prod
from pathlib import Path

import pytest

from latecomer.eval.names import method_facts
from latecomer.eval.studies.shipped import shipped_studies
from latecomer.models.methods import METHODS
from latecomer.reports.frames.paper import NOT_COMPARABLE, paper_numbers

ROOT = Path(__file__).resolve().parents[2]
BUILDING = ROOT / "docs" / "building"
SHOWN = [path.stem for path in sorted(BUILDING.glob("*.py")) if ">>> " in path.read_text("utf-8")]


@pytest.mark.parametrize("name", SHOWN)
def test_examples_of_docstrings(building, name):
    if name == "mathematics":
        pytest.importorskip("latex2mathml")
        pytest.importorskip("markdown")
    assert doctest.testmod(building(name)).failed == 0


def test_formulas(building):
    pytest.importorskip("latex2mathml")
    markdown = pytest.importorskip("markdown")
    mathematics = building("mathematics")
    with pytest.raises(ValueError, match="cannot say"):
        mathematics.mathml(r"\nonsense{x}")
    assert mathematics._flat_roots(r"\sqrt{\frac{a + 1}{n}} + b") == r"\sqrt{(a + 1)/n} + b"
    assert "<mfrac" not in mathematics.mathml(r"\sqrt{\frac{K + \ln(2\sqrt{n})}{2n}}")
    html = markdown.markdown(
        "`$a$` costs $5, $x_1 \\le \\{y\\}$ :func:`~a.b`\n\n$$ \\frac12 $$",
        extensions=[mathematics.Mathematics()],
    )
    assert html.count("<math") == 2
    assert "<code>$a$</code> costs $5" in html
    assert "<code>b</code>" in html
    assert "\\" not in html


def test_foreign_resources_are_found(building, tmp_path):
    resources = building("resources")
    (tmp_path / "a.html").write_text(
        '<link rel="stylesheet" href="https://x.org/a.css"><img src="b.png">'
        '<link rel="canonical" href="https://x.org"><a href="https://x.org">x</a>'
        "<style>@import 'https://x.org/c.css';</style>"
        '<img srcset="b.png 1x, //x.org/b.png 2x"><p style="background:url(//x.org/d.png)">'
    )
    (tmp_path / "e.css").write_text("@font-face { src: url(https://x.org/f.woff2) }")
    found = sorted(address for _, address in resources.fetched_from_elsewhere(tmp_path))
    assert found == [
        "//x.org/d.png",
        "b.png 1x, //x.org/b.png 2x",
        "https://x.org/a.css",
        "https://x.org/c.css",
        "https://x.org/f.woff2",
    ]


def test_every_study_of_a_paper_is_on_the_page_with_what_it_follows():
    page = (ROOT / "docs" / "pages" / "studies.md").read_text("utf-8")
    for study in shipped_studies():
        if study.paper:
            assert f"**`{study.name}`**" in page
            assert study.note in page
            assert all(f"`{name}`" in page for name in study.variants)
    for job in ("generalization-gap", "shift-robustness", "bound-vs-accuracy"):
        assert f"`{job}`" in page


@pytest.fixture(scope="module")
def published(building):
    """What reads all kept runs, once."""
    return building("published")


@pytest.fixture(scope="module")
def departures(building):
    return building("departures")


@pytest.mark.slow
def test_every_published_number_has_a_verdict_and_is_counted(published):
    judged = published.verdicts()
    assert len(judged) == len(paper_numbers())
    assert set(judged["verdict"]) <= {"reproduced", "not reproduced", NOT_COMPARABLE}
    named = judged[judged["run"] != ""]
    assert named["ours"].notna().all()
    off = judged[judged["verdict"] == "not reproduced"]
    assert not (off["reason"] == published.UNKNOWN).any()
    worse = off[off["difference"] < -0.03]
    assert len(worse)
    for cause in worse["reason"]:
        experiment = cause.split("`")[1]
        assert (published.REFERENCE / experiment / "rows.csv.xz").is_file()
    assert {"full", "rounds"}.isdisjoint(judged)
    experiments = (ROOT / "docs" / "pages" / "experiments.md").read_text("utf-8")
    counted = " ".join(experiments.split())
    for paper in published.PAPERS:
        assert published.count_sentence(paper) in counted
        told = published.orders(paper)
        assert (
            len(published.published_table(paper).splitlines())
            == 5 + len(told) + (judged["source"] == paper).sum()
        )


@pytest.mark.slow
def test_the_kept_table_of_published_numbers_is_what_the_kept_runs_give(published):
    kept = (published.REFERENCE / "published.csv").read_text("utf-8")
    # Made by ``python docs/building/published.py``.
    assert kept == published.kept_table()
    judged = published.verdicts()
    compared = judged[judged["verdict"] != NOT_COMPARABLE]
    assert all((published.REFERENCE / run / "rows.csv.xz").is_file() for run in compared["run"])


def test_the_page_of_departures_has_a_row_for_every_record_of_every_method(departures):
    page = (ROOT / "docs" / "pages" / "deviations.md").read_text("utf-8")
    assert not departures.FIGURE.search(page)
    for name, told in method_facts().items():
        for where, what, moves in told["deviations"]:
            assert f"(`{name}`) | {where} | {what} | {departures.filled(moves, name)} |" in page
    for name in METHODS:
        rows = [line.split(" | ") for line in page.splitlines() if f"(`{name}`) |" in line]
        for source in ("paper", "code"):
            assert any(source in where for _, where, *_ in rows), (name, source)
        assert all(re.match(r"(yes[:,] |no\b|not known)", row[-1]) for row in rows), name


def test_the_page_of_newcomers_says_of_every_method_what_it_declares():
    page = (ROOT / "docs" / "pages" / "newcomers.md").read_text("utf-8")
    for name, method in METHODS.items():
        (row,) = (line for line in page.splitlines() if f"(`{name}`) |" in line)
        _, labels, points, gets, steps, *_ = row.strip("| ").split(" | ")
        assert (labels == "read") == method.needs_labels
        assert (int(points), gets) == (method.least_support, method.newcomers_get)
        assert int(steps.replace(",", "")) == prod(method_facts()[name]["serving"].values() or [0])


def test_a_number_that_moves_is_measured_on_kept_rows_or_said_to_be_unknown(departures):
    for name, told in method_facts().items():
        for *_, moves in told["deviations"]:
            typed = departures.FIGURE.sub("", moves)
            assert not re.search(r"\d\.\d|\.\d|%|\d points", typed), (name, moves)
            if moves.startswith("yes"):
                measured = "{moved " in moves or "{rates " in moves
                assert measured or moves.startswith("yes, by how much is not known"), (name, moves)


def test_the_figures_of_departures_are_those_of_the_rows(departures):
    told = departures.filled("{published odpfl-table1-500-rounds}", "pfl_nearest")
    assert told == (
        "77.0% of new clients' samples are right, 24.4% published (`odpfl-table1-500-rounds`)"
    )
    with pytest.raises(ValueError, match="no figure of pfl_nearest with the run digits"):
        departures.filled("{published digits-all-methods}", "pfl_nearest")
    assert departures.filled("{moved digits-all-methods digits-all-methods}", "pefll") == (
        "+0.0 points on seen clients and +0.0 points on new clients, mean of 3 seeds "
        "(`digits-all-methods` less `digits-all-methods`)"
    )
