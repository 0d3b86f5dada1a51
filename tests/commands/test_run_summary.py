"""What a run prints at its end: the answer to its question, one golden text a kind of question."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from latecomer.commands.run_display import _table, summary_lines
from latecomer.eval.results.rows import load_run, write_rows
from latecomer.reports.page.questions import asked

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "endings"
RUNS = {
    "accuracy": "digits-all-methods",
    "bounds": "bound-vs-accuracy-digits",
    "certificate": "certificates-cifar10-50",
    "gap": "generalization-gap-digits",
    "paper": "pefll-table1-5000-rounds",
    "shift": "shift-robustness-digits",
}


@pytest.mark.thinned
@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
def test_the_ending_answers_the_question(kind: str) -> None:
    directory = ROOT / "reports" / "reference" / RUNS[kind]
    assert kind in asked(load_run(directory).study)
    told = "\n".join(summary_lines(directory)) + "\n"
    assert told == (GOLDEN / f"{kind}.txt").read_text("utf-8")
    assert max(map(len, told.splitlines())) <= 80


def test_every_cell_of_a_wide_table_stands_in_one_of_its_blocks() -> None:
    heads = ["model", *(f"measure {'x' * 20} {place}" for place in range(7))]
    names = ["short", "a model whose name takes more than half of eighty columns by itself"]
    table = pd.DataFrame(
        [[name, *(f"{name[0]}{i}" for i in range(7))] for name in names], columns=heads
    )
    lines = list(_table(table))
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    assert {f"{name[0]}{i}" for name in names for i in range(7)} <= set(words)
    assert words.count("short") > 1, "each block names its rows"


def test_what_is_the_same_in_all_rows_of_a_wide_table_is_said_once_below_it() -> None:
    by = "held-out clients, blend over drawn orders"
    rows = [["FedAvg", by, "8.0%", "40"], ["PeFLL", by, "5.0%", "40"]]
    table = pd.DataFrame(rows, columns=["model", "by", "their mean error of held-out", "clients"])
    lines = list(_table(table))
    assert lines[-1] == f"   in all rows: by {by}; clients 40"
    heads, *models = lines[:-1]
    assert "their mean error" in heads
    assert "clients" not in heads
    assert [line.split() for line in models] == [["FedAvg", "8.0%"], ["PeFLL", "5.0%"]]
    narrow = table[["model", "their mean error of held-out", "clients"]]
    assert len(list(_table(narrow))) == 3, "one that fits stays as it is"
    assert "in all rows" not in "".join(_table(table[:1])), "so does one row"


def test_a_run_without_results_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("study: empty\n", "utf-8")
    (tmp_path / "env.json").write_text("{}", "utf-8")
    (tmp_path / "cells.json").write_text('{"cells": []}', "utf-8")
    write_rows(tmp_path / "rows.csv", [])
    assert summary_lines(tmp_path) == []


@pytest.mark.parametrize("scale", ["smoke", "reduced", None])
def test_a_scale_that_only_shows_that_things_run_says_so_first_and_in_red(
    scale: str | None, tmp_path: Path
) -> None:
    kept = ROOT / "reports" / "reference" / RUNS["gap"]
    for name in ("rows.csv.xz", "env.json"):
        shutil.copy(kept / name, tmp_path)
    study = {**yaml.safe_load((kept / "study.yaml").read_text("utf-8")), "scale": scale}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study), "utf-8")
    first, *rest = summary_lines(tmp_path)
    warned = first.startswith("\x1b[31m Scale smoke: only shows that it runs")
    assert warned == (scale == "smoke")
    assert warned or "Scale" not in " ".join([first, *rest])
