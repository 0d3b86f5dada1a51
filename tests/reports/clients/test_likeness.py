"""The table of new clients' p-values: each client once a split, whatever was trained."""

from types import SimpleNamespace

import pandas as pd
import pytest

from latecomer.eval.results.rows import make_row
from latecomer.reports.clients.distances import LIKENESS, likeness_frame, likeness_table


def rows(values, *, shift="none", severity=float("nan"), label="fedavg", seed=0, certified=24):
    return [
        make_row(
            **{"label": label, "seed": seed, "split": "iid", "split_seed": 0, "group": "novel"},
            **{"client": str(client), "shift": shift, "severity": severity},
            **{"metric": "likeness_p", "value": value, "n_clients": certified},
        )
        for client, value in enumerate(values)
    ]


@pytest.fixture
def frame():
    like, unlike = [0.2, 0.04, 0.6, 1.0], [0.04, 0.04, 0.04, 0.08]
    made = [rows(unlike, shift="blur", severity=3.0)]
    made += [rows(like, label=label, seed=seed) for label in ("a", "b") for seed in (0, 1)]
    return likeness_frame(pd.DataFrame([row for part in made for row in part]))


def test_a_client_counts_once_a_split(frame):
    assert frame["n_novel"].tolist() == [4, 4]
    assert frame["alarms"].tolist() == [0.25, 0.75]
    assert frame["median_p"].tolist() == pytest.approx([0.4, 0.04])
    assert frame["least_p"].tolist() == [0.04, 0.04]


def test_the_table_says_how_many_are_unlike(frame):
    table = likeness_table(frame, ())
    assert table.shown["shift"].tolist() == ["none", "blur"]
    assert table.shown["severity"].tolist() == ["", "3"]
    assert table.shown["p at most 0.05"].tolist() == ["25.0%", "75.0%"]
    assert "no p can be" not in table.caption


def test_with_few_certified_clients_no_alarm_can_ring():
    few = likeness_frame(pd.DataFrame(rows([0.1, 0.5], certified=9)))
    assert few["least_p"].tolist() == [0.1]
    assert "fewer than 19 clients were certified" in likeness_table(few, ()).caption


def test_a_run_that_did_not_ask_shows_nothing():
    row = make_row(metric="error", value=0.1)
    assert likeness_frame(pd.DataFrame([row])).empty
    assert list(LIKENESS.blocks(SimpleNamespace(rows=pd.DataFrame([row]), labels=()))) == []
