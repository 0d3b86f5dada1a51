"""One model under many names is warned of, on the page and in the terminal; others are not."""

import pandas as pd
import pytest

from latecomer.commands.run_display import summary_lines
from latecomer.eval.results.rows import make_row, read_rows, write_rows
from latecomer.reports.accuracy.comparison import sameness_frame, sameness_table, say_sameness
from latecomer.reports.page.method import statement

MODELS = {
    "fedavg": ("global", (0.0, 0.0), (0.0, 0.0), ""),
    "pefll": ("forward", (0.1, 0.2), (0.04, 0.06), ""),
    "blind": ("unlabelled", (0.0015, 0.0005), (0.0, 0.0), "serves all clients the same model"),
}


@pytest.fixture
def directory(tmp_path):
    rows = []
    for label, (protocol, spreads, costs, told) in MODELS.items():
        for seed in (0, 1):
            own = {"label": label, "method": label, "seed": seed, "personalization": protocol}
            own |= {"cell": f"{label}{seed}", "status": "done", "predictor": "deterministic"}
            seen = {**own, "group": "seen", "shift": "none", "n_clients": 50}
            rows += [
                make_row(**seen, metric="model_spread", value=spreads[seed], message=told),
                make_row(**seen, metric="swap_cost", value=costs[seed]),
                make_row(**own, group="novel", shift="none", metric="error", value=0.1,
                         client="7", n_query=10),
            ]  # fmt: skip
    chosen = {**seen, "label": "pefll", "n_clients": 10, "metric": "novel_lr", "value": 0.3}
    write_rows(tmp_path / "rows.csv", [*rows, make_row(**chosen)])
    (tmp_path / "study.yaml").write_text("study: small\n", "utf-8")
    (tmp_path / "env.json").write_text("{}", "utf-8")
    (tmp_path / "cells.json").write_text('{"cells": []}', "utf-8")
    return tmp_path


def test_means_and_spreads_over_seeds_are_those_of_the_rows(directory):
    frame = sameness_frame(read_rows(directory / "rows.csv")).set_index("label")
    assert frame.loc["pefll", "model_spread"] == pytest.approx(0.15)
    assert frame.loc["pefll", "swap_cost"] == pytest.approx(0.05)
    assert frame.loc["pefll", "spread_sd"] == pytest.approx(pd.Series([0.1, 0.2]).std())
    assert frame["n_seeds"].tolist() == [2, 2, 2]


def test_only_the_blind_one_is_warned_of(directory):
    frame = sameness_frame(read_rows(directory / "rows.csv"))
    warned = "blind serves all clients the same model: they differ by 0.10% of their size."
    assert say_sameness(frame) == [warned]
    table = sameness_table(frame, list(MODELS))
    assert table.shown["models differ by"].tolist()[0].startswith("0.0%")
    told = " ".join(" ".join(summary_lines(directory)).split())
    assert told.count("LC006") == 1
    assert f"LC006 {warned}" in told


def test_the_protocol_names_the_rates_that_newcomers_got(directory):
    said = " ".join(statement(read_rows(directory / "rows.csv"), {}, []))
    assert "10 seen clients refitted as new clients: pefll 0.3. No new client" in said


def test_a_run_that_measured_nothing_of_it_says_nothing():
    empty = pd.DataFrame({"metric": ["error"], "label": ["pefll"]})
    assert sameness_frame(empty).empty
