from types import SimpleNamespace

import numpy as np
import pytest

from latecomer.eval.measures.of_a_model import next_client
from latecomer.eval.scoring.scores import ClientScore


def rows_of(wrong, n):
    scores = [ClientScore(i, n, n, int(w), 0.5) for i, w in enumerate(wrong)]
    rows, _ = next_client(SimpleNamespace(held_out={"deterministic": scores}))
    return rows


@pytest.mark.theory
def test_the_interval_holds_a_new_clients_true_error_about_as_often_as_it_says():
    rng, inside = np.random.default_rng(0), []
    for _ in range(400):
        true = np.clip(rng.normal(0.3, 0.07, 41), 0, 1)
        wrong = rng.binomial(200, true[:40])
        (row,) = rows_of(wrong, 200)
        inside.append(row["lower"] <= true[40] <= row["upper"])
    assert 0.86 <= np.mean(inside) <= 0.94


def test_clients_without_any_error_have_an_interval_that_is_no_certificate():
    (row,) = rows_of([0, 0, 0, 12], 12)
    assert 0 <= row["lower"] <= row["value"] <= row["upper"] <= 1
    assert row["rigorous"] is False
    assert rows_of([1, 2], 12) == []


def test_spread_between_clients_widens_it():
    even = rows_of([6] * 30, 24)[0]
    spread = rows_of([0, 12] * 15, 24)[0]
    assert spread["upper"] - spread["lower"] > 2 * (even["upper"] - even["lower"])


def test_the_interval_of_a_few_counts():
    (row,) = rows_of([2 + i % 3 for i in range(30)], 12)
    found = [round(row[name], 2) for name in ("lower", "value", "upper")]
    assert found == [0.24, 0.26, 0.28]
