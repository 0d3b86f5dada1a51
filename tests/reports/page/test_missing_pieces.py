"""A run without some of its pieces leaves a page that says so."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from sketches import Sketcher, rows_of, sketch

from latecomer.errors import InputError
from latecomer.eval.results.rows import CellRecord, RunRecord, load_run, make_row
from latecomer.reports import report
from latecomer.reports.display.section import Material
from latecomer.reports.page.method import setup_card, statement
from latecomer.reports.page.page import page_of
from latecomer.reports.page.questions import MISSING

SMALL = {"seeds": (0, 1), "labels": ("pfedhn", "pefll-stochastic")}


def drop(test):
    return lambda rows: [row for row in rows if not test(row)]


@pytest.mark.thinned
@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop(lambda r: r["metric"] == "certificate"), "asked for no certificate"),
        (drop(lambda r: r["shift"] not in ("none", "")), "asked for no shift"),
        (drop(lambda r: r["method"] == ""), "No distances between clients were computed"),
        (drop(lambda r: r["group"] == "novel"), "No new client was measured"),
        (drop(lambda r: r["group"] == "seen"), "that they never saw, over 12 clients"),
        (drop(lambda r: r["client"] != ""), "No client was measured"),
        (drop(lambda r: r["seed"] not in (0, "")), "12 clients \N{MULTIPLICATION SIGN} 1 seed)"),
        (drop(lambda r: r["label"] not in ("pfedhn", "")), "clients it never saw, over 12 clients"),
        (drop(lambda r: r["client"] not in (48, "")), "1 client \N{MULTIPLICATION SIGN} 2 seeds"),
        (drop(lambda r: r["term"] != ""), "Held-out clients, product rule"),
        (lambda rows: [], "No new client was measured"),
    ],
    ids=["certificates", "shifts", "diagnostics", "novel", "seen", "clients", "one-seed",
         "one-method", "one-client", "terms", "everything"],
)  # fmt: skip
def test_a_missing_piece_leaves_a_page(tmp_path, run_writer, change, words):
    assert words in sketch(run_writer(tmp_path, change=change, **SMALL))


def perfect(rows):
    return [{**row, "value": 0.0} if row["metric"] == "error" else row for row in rows]


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_clients_without_an_error_leave_a_page_and_no_interval(tmp_path, run_writer):
    page = sketch(run_writer(tmp_path, change=perfect, **SMALL))
    assert "0.0% to 0.0%" not in page
    assert "Hardest" not in page
    assert "A small loss is not a small error" not in page


PAPER = {"study": "made-up", "scale": "reduced", "train": {"rounds": 150},
         "paper": ["pfedhn:Table 1:cifar10"]}  # fmt: skip
# Published for one number of clients only, so compared whatever the run's own number is.
ONE_SIZE = "pfedhn:Appendix C.5:trainable"


@pytest.mark.thinned
@pytest.mark.slow
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
    text = sketch(folder, "answer", "accuracy")
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


@pytest.mark.nightly
def test_one_failed_seed_is_said_and_the_counts_follow(tmp_path, run_writer):
    def fail(rows):
        kept = [r for r in rows if (r["label"], r["seed"]) != ("fedavg", 2)]
        lost = make_row(label="fedavg", method="fedavg", seed=2, cell="fedavg-2", status="failed",
                        message="out of memory")  # fmt: skip
        return [*kept, lost]

    folder, writer = run_writer(tmp_path, change=fail), Sketcher()
    (folder / "cells" / "fedavg-2" / "done").unlink()
    text = page_of(load_run(folder), writer)
    assert "1 of 19 cells failed." in text
    assert "out of memory" in text
    frame = pd.read_csv(io.StringIO(writer.files["tables/accuracy.csv"]))
    frame = frame.set_index(["label", "group"]).sort_index()
    assert frame.loc[("fedavg", "novel"), "n_seeds"] == 2
    assert frame.loc[("pefll", "novel"), "n_seeds"] == 3


@pytest.mark.slow
def test_run_without_artifacts_or_settings(tmp_path, run_writer):
    folder = run_writer(tmp_path, study={"study": "bare"}, artifacts=False, **SMALL)
    (folder / "env.json").unlink()
    text = sketch(folder)
    assert "latecomer run bare" in text
    assert "Inputs of" not in text


def test_less_precision_in_training_is_said(made_up_rows):
    for more, lines in (({}, []), ({"precision": "bf16"}, ["Local steps multiplied in bf16"])):
        study = {"study": "x", "train": {"rounds": 150, "cohort": 5, **more}}
        said = [line for line in statement(made_up_rows, study, []) if "train.precision" in line]
        assert [line.partition(" (")[0] for line in said] == lines
        card = dict(setup_card(made_up_rows, study))
        assert ("precision" in card["Training"]) == bool(lines)


@pytest.mark.nightly
def test_useful_but_unproven_value_is_called_so(tmp_path, run_writer):
    def shrink(rows):
        return [{**r, "value": r["value"] / 400} if r["bound"] == "ben_david" else r for r in rows]

    text = sketch(run_writer(tmp_path, change=shrink, **SMALL))
    assert "not proven here" in text


def test_one_unfinished_cell_is_not_several():
    rows = rows_of({"novel": np.full((1, 3), 0.1)}).assign(cell="a", message="")
    cell = CellRecord("b", Path(), "unfinished", {"method": {"label": "pefll"}}, {}, "")
    material = Material.of(RunRecord(Path(), {}, {}, rows, (), (cell,)))
    (said,) = MISSING.blocks(material)
    assert str(said.text).startswith("1 of 1 cells is not finished.")


def test_no_run_is_one_line(tmp_path):
    with pytest.raises(InputError, match="no run directory") as raised:
        report(tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
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


@pytest.mark.thinned
@pytest.mark.slow
@pytest.mark.parametrize("scale", ["smoke", "reduced", "paper", None])
def test_a_scale_that_only_shows_that_things_run_says_so_in_red_above_the_answer(
    tmp_path, run_writer, scale
):
    folder = run_writer(tmp_path, **SMALL)
    study = yaml.safe_load((folder / "study.yaml").read_text())
    (folder / "study.yaml").write_text(yaml.safe_dump({**study, "scale": scale}))
    text = sketch(folder, "answer")
    ribbon = '<p class="failed">Scale smoke: only shows that it runs'
    assert (ribbon in text) is (scale == "smoke")
    if scale == "smoke":
        assert text.index(ribbon) < text.index('<p class="lead">')
