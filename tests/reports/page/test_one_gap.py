"""A study's gap stands in many places: one number, one sign, one interval."""

import html
import io
import json
import re

import pandas as pd
import pytest
from markupsafe import Markup

from latecomer.commands.run_display import summary_lines
from latecomer.eval.results.rows import load_run
from latecomer.reports.display.pictures import Picture, Writer, download
from latecomer.reports.frames.gaps import gap_frame, gap_intervals
from latecomer.reports.page.page import page_of
from latecomer.reports.words import gap_in_points

pytestmark = pytest.mark.slow

NAMES = {"pfedhn": "pFedHN", "pefll": "PeFLL"}
NUMBER = r"[+\N{MINUS SIGN}]?[\d.]+"
GAP = re.compile(rf"{NUMBER} \[{NUMBER}, {NUMBER}\]")
ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)


class Keeper(Writer):
    """Draws no figure, and keeps what they are drawn from, and their words."""

    def __init__(self):
        super().__init__()
        self.words = {}

    def picture(self, plot):
        self.files[f"figures/{plot.name}.csv"] = plot.data.to_csv(index=False)
        self.words[plot.name] = plot.alt
        return Picture(plot, Markup(""), None, download(plot.name, ""))


@pytest.fixture(scope="module", params=[(0, 1, 2), (0,)], ids=["seeds", "one seed"])
def places(request, tmp_path_factory, run_writer):
    """Give the gap of each model, as text, by the place where it is read."""
    made = run_writer(tmp_path_factory.mktemp("gap"), seeds=request.param, labels=tuple(NAMES))
    study = made / "study.yaml"
    study.write_text(f"{study.read_text()}asks: [gap, accuracy]\n")
    run, keeper = load_run(made), Keeper()
    page = page_of(run, keeper)
    found = {
        "frame": in_frame(gap_intervals(run.rows)),
        "figure": in_frame(drawn(keeper, "gap").rename(columns={"gap": "own", "mean": "gap"})),
        "answer's figure": in_frame(drawn(keeper, "answer-gap")),
        "answer's table": in_frame(pd.read_csv(io.StringIO(keeper.files["tables/answer-gap.csv"]))),
        "cards": in_cards(keeper.files),
        "terminal": in_lines(summary_lines(made)),
    }
    for number, table in enumerate(tables_with_gaps(page)):
        found[f"page, table {number}"] = table
    return found, run, keeper


def drawn(keeper, name):
    return pd.read_csv(io.StringIO(keeper.files[f"figures/{name}.csv"]))


def in_frame(frame):
    return {row["label"]: gap_in_points(row) for row in frame.to_dict("records")}


def in_cards(files):
    cards = [json.loads(text) for name, text in files.items() if name.endswith(".json")]
    told = {(card["label"], gap_in_points(one)) for card in cards for one in card["gap"]}
    assert len(told) == len(NAMES)  # the cards of all seeds tell one gap
    return dict(told)


def in_lines(lines):
    """Read the terminal's table, whose lines begin with the model."""
    told = {}
    for label, name in NAMES.items():
        line, *_ = (one for one in lines if one.startswith(f"   {name} ") and GAP.search(one))
        told[label] = GAP.search(line).group()
    return told


def tables_with_gaps(page):
    """Read every table of the page that has a column of gaps in points."""
    tables = []
    for part in re.findall(r"<table.*?</table>", page, re.DOTALL):
        rows = [row for row in ROW.findall(part) if 'data-label="gap (points)"' in row]
        told = {}
        for row in rows:
            name = html.unescape(re.search(r'<th scope="row"[^>]*>(.*?)</th>', row).group(1))
            cell = re.search(r'data-label="gap \(points\)"[^>]*>(.*?)</td>', row).group(1)
            told[next(label for label, shown in NAMES.items() if shown == name)] = cell
        tables += [told] if told else []
    return tables


def test_one_number_in_every_place(places):
    found, *_ = places
    pages = [name for name in found if name.startswith("page")]
    assert len(pages) == 2  # the answer's table and that of accuracy
    assert len(found) >= 6
    for name, told in found.items():
        assert told == found["frame"], name
        assert set(told) == set(NAMES), name
        assert all(GAP.fullmatch(text) for text in told.values()), name


def test_the_sign_is_that_of_points_lost(places):
    """Recomputed from the rows by hand: new- minus seen-client error, positive where worse."""
    found, run, keeper = places
    rows = run.rows[(run.rows["metric"] == "error") & (run.rows["shift"] == "none")]
    rows = rows[rows["client"] != ""]
    means = rows.groupby(["label", "group"])["value"].mean()
    for label, name in NAMES.items():
        lost = 100 * (means[label, "novel"] - means[label, "seen"])
        text = found["frame"][label].partition(" ")[0]
        assert float(text.replace("\N{MINUS SIGN}", "-")) == pytest.approx(lost, abs=0.0501)
        assert f"{name} {text} (" in keeper.words["gap"]
    assert found["frame"]["pfedhn"].startswith("+")


def test_sentences_say_the_same_ends(places):
    found, run, _ = places
    ends = [text.partition(" ")[0] for text in found["frame"].values()]
    ends.sort(key=lambda text: float(text.replace("\N{MINUS SIGN}", "-")))
    told = " ".join(" ".join(summary_lines(run.path)).split())
    stands_out = f"with {ends[0]} points of error lost" in told and f": up to {ends[1]}." in told
    assert (
        f"from {ends[0]} to {ends[1]} points of error lost" in told
        or stands_out
        or (f"with {ends[0]} points of error lost" in told and f"beyond chance: {ends[1]}." in told)
    )


def test_the_mean_of_the_seeds_is_the_gap(places):
    """Where all seeds have the same clients, as in one study."""
    _, run, _ = places
    each = gap_frame(run.rows)
    one = each.groupby("label")[["gap", "mean"]].mean()
    assert one["gap"].tolist() == pytest.approx(one["mean"].tolist())
