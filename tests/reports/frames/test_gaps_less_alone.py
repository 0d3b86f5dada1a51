"""Gaps beside that of clients that learn nothing from others, paired by client."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sketches import kept_run, rows_of

from latecomer.certify.words import DASH
from latecomer.eval.names import method_facts
from latecomer.models.methods.registry import METHODS
from latecomer.reports.accuracy.errors import accuracy_table
from latecomer.reports.accuracy.gap import answer_gap
from latecomer.reports.display.section import Material
from latecomer.reports.frames.gaps import gap_intervals, gaps_less_alone
from latecomer.reports.words import LESS_ALONE

Tables = dict[str, np.ndarray]


def errors_of(errors: Tables, method: str) -> pd.DataFrame:
    return rows_of(errors, method, method)


def drawn(seed: int, n_seeds: int = 2, n_seen: int = 7, n_novel: int = 4) -> Tables:
    rng = np.random.default_rng(seed)
    return {"seen": rng.random((n_seeds, n_seen)), "novel": rng.random((n_seeds, n_novel))}


def test_what_is_left_and_its_interval() -> None:
    alone, fedavg = drawn(1, n_seeds=1), drawn(2, n_seeds=1)
    found = gaps_less_alone(pd.concat([errors_of(fedavg, "fedavg"), errors_of(alone, "local")]))
    left = {group: (fedavg[group] - alone[group])[0] for group in alone}
    welch = stats.ttest_ind(left["novel"], left["seen"], equal_var=False).confidence_interval()
    row = found.loc[0]
    assert row["label"] == "fedavg"
    assert row["alone"] == "local"
    assert row["gap"] == pytest.approx(left["novel"].mean() - left["seen"].mean())
    assert (row["lower"], row["upper"]) == pytest.approx((welch.low, welch.high))
    assert row["alone_gap"] == pytest.approx(alone["novel"].mean() - alone["seen"].mean())


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(-0.3, 0.3))
def test_an_easier_draw_of_newcomers_cancels(seed: int, easier: float) -> None:
    """What moves the newcomers of both models by as much leaves the difference as it is."""
    both = {name: drawn(seed + place) for place, name in enumerate(("local", "pefll"))}
    moved = {name: {**one, "novel": one["novel"] - easier} for name, one in both.items()}
    before, after = (
        gaps_less_alone(pd.concat([errors_of(one, name) for name, one in tables.items()]))
        for tables in (both, moved)
    )
    for name in ("gap", "lower", "upper"):
        assert after[name][0] == pytest.approx(before[name][0], abs=1e-9)
    assert after["alone_gap"][0] == pytest.approx(before["alone_gap"][0] - easier, abs=1e-9)


def test_it_is_the_difference_of_the_two_gaps_where_both_have_everybody() -> None:
    both = pd.concat([errors_of(drawn(3), "local"), errors_of(drawn(4), "fedrep")])
    gaps = gap_intervals(both).set_index("label")["gap"]
    assert gaps_less_alone(both)["gap"][0] == pytest.approx(gaps["fedrep"] - gaps["local"])


def test_clients_and_seeds_that_either_lacks_are_left_out() -> None:
    alone, other = drawn(5, n_seeds=3), drawn(6, n_seeds=3)
    less = {group: table[:2, :3] for group, table in alone.items()}
    whole = gaps_less_alone(pd.concat([errors_of(other, "fedavg"), errors_of(less, "local")]))
    cut = {group: table[:2, :3] for group, table in other.items()}
    same = gaps_less_alone(pd.concat([errors_of(cut, "fedavg"), errors_of(less, "local")]))
    pd.testing.assert_frame_equal(whole, same)


@pytest.mark.parametrize("methods", [("fedavg", "pefll"), ("local",)])
def test_nothing_is_said_without_such_a_model_or_of_it_alone(methods: tuple[str, ...]) -> None:
    tables = [errors_of(drawn(place), name) for place, name in enumerate(methods)]
    assert gaps_less_alone(pd.concat(tables)).empty


def test_reports_read_what_the_classes_declare() -> None:
    declared = {name for name, cls in METHODS.items() if cls.learns_alone}
    assert declared == {name for name, told in method_facts().items() if told.get("learns_alone")}
    assert declared == {name for name, cls in METHODS.items() if cls.personalization == "local"}


def test_page_and_answer_show_it_only_where_a_run_holds_such_a_model() -> None:
    run = kept_run("shift-robustness-digits")
    without = replace(run, rows=run.rows[run.rows["method"] != "local"])
    for one, holds in ((run, True), (without, False)):
        material = Material.of(one)
        table, answer = accuracy_table(material), answer_gap(material)
        assert table is not None
        assert answer is not None
        assert (LESS_ALONE in table.shown) == (LESS_ALONE in answer.table.shown) == holds
        assert ("learns nothing from other clients" in " ".join(answer.more)) == holds
        assert ("less_alone_gap" in answer.table.frame) == ("alone_gap" in answer.numbers) == holds
        if holds:
            shown = table.shown.set_index("method")[LESS_ALONE]
            assert shown.pop("Local training") == DASH
            assert DASH not in set(shown)
