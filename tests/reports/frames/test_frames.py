"""Frames on hand-made rows, with the numbers worked out by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from latecomer.eval.results.rows import make_row
from latecomer.reports.frames.errors import (
    accuracy_frame,
    client_errors,
    comparison_frame,
    diagnostics_frame,
    failures_frame,
    group_sizes,
    half_width,
    holm,
    in_order,
    labels_in,
    pair_frame,
    primary_predictor,
    rank_frame,
    records,
    shift_frame,
)
from latecomer.reports.frames.gaps import gap_frame

ERRORS = {
    # (label, seed): seen clients 0, 1; novel clients 2, 3, 4
    ("a", 0): ((0.10, 0.20), (0.10, 0.20, 0.30)),
    ("a", 1): ((0.20, 0.30), (0.20, 0.40, 0.60)),
    ("b", 0): ((0.00, 0.10), (0.00, 0.10, 0.20)),
    ("b", 1): ((0.10, 0.10), (0.10, 0.30, 0.50)),
}


def error_row(label, seed, group, client, value, **more):
    fields = {"method": "fedavg", "label": label, "seed": seed, "group": group, "client": client,
              "metric": "error", "value": value, "shift": "none", "predictor": "deterministic",
              "personalization": "global", "cell": f"{label}{seed}"}  # fmt: skip
    return make_row(**{**fields, **more})


def hand_made():
    rows = []
    for (label, seed), (seen, novel) in ERRORS.items():
        rows += [error_row(label, seed, "seen", i, e) for i, e in enumerate(seen)]
        rows += [error_row(label, seed, "novel", i, e) for i, e in enumerate(novel, 2)]
    return rows


def row_of(frame, **wanted):
    chosen = frame
    for name, value in wanted.items():
        chosen = chosen[chosen[name] == value]
    assert len(chosen) == 1
    return chosen.iloc[0]


def test_accuracy_means_spreads_and_counts_are_exact(read):
    frame = accuracy_frame(read(hand_made()))
    novel = row_of(frame, label="a", group="novel")
    # Seeds: means .2 and .4. Clients, averaged over seeds: .15, .3, .45.
    assert novel["mean"] == pytest.approx(0.3)
    assert novel["sd_seeds"] == pytest.approx(math.sqrt(2 * 0.1**2))
    assert novel["se_clients"] == pytest.approx(0.15 / math.sqrt(3))
    assert novel["worst"] == pytest.approx(0.45)
    assert (novel["n_clients"], novel["n_seeds"]) == (3, 2)
    # t quantile .975 with 2 degrees of freedom: 4.302652730; the interval is cut at 0.
    assert novel["lower"] == 0.0
    assert novel["upper"] == pytest.approx(0.3 + 4.302652730 * 0.15 / math.sqrt(3))
    seen = row_of(frame, label="a", group="seen")
    assert (seen["mean"], seen["n_clients"]) == (pytest.approx(0.2), 2)


def test_only_per_client_unshifted_rows_of_methods_count(read):
    noise = [
        error_row("a", 0, "novel", "", 0.9, aggregation="pooled", n_clients=3),
        error_row("a", 0, "novel", 2, 0.9, shift="blur", severity=1.0),
        error_row("a", 0, "certification", 7, 0.9),
        error_row("a", 0, "novel", 2, 0.9, metric="loss"),
        error_row("", 0, "novel", 2, 0.9, method=""),
    ]
    pd.testing.assert_frame_equal(
        accuracy_frame(read(hand_made() + noise)), accuracy_frame(read(hand_made()))
    )


def test_one_seed_and_one_client_have_no_spread_but_a_mean(read):
    frame = accuracy_frame(read([error_row("a", 0, "novel", 2, 0.25)]))
    only = frame.iloc[0]
    assert only["mean"] == 0.25
    assert np.isnan([only[name] for name in ("sd_seeds", "se_clients", "lower", "upper")]).all()
    assert only["tied"]


def test_comparison_is_paired_over_clients(read):
    rows = read(hand_made())
    errors = client_errors(rows)
    frame = comparison_frame(errors[errors["group"] == "novel"])
    best, other = row_of(frame, label="b"), row_of(frame, label="a")
    assert (best["difference"], best["tied"]) == (0.0, True)
    assert np.isnan(best["p_holm"])
    # Client by client: (.1 + .1) / 2, (.1 + .1) / 2, (.1 + .1) / 2: the sign test's p of three.
    assert other["difference"] == pytest.approx(0.1)
    assert (other["p_holm"], other["tied"]) == (0.25, True)
    assert np.isnan(other["difference_lower"])


def test_the_best_is_found_by_the_errors_so_all_pairs_are_corrected_for(read):
    shift = {"a": 0.0, "b": 0.05, "c": 0.06, "d": 0.4}
    bent = {"a": 1.0, "c": 1.1, "d": 1.2}
    wobble = (0.0, 0.01, 0.03, 0.02)
    rows = [
        error_row(label, 0, "novel", i, 0.1 + add + (w if label == "b" else bent[label] * w * w))
        for label, add in shift.items()
        for i, w in enumerate(wobble)
    ]
    errors = client_errors(read(rows))
    frame, pairs = comparison_frame(errors), pair_frame(errors)
    with_best = pairs[pairs["label"] == "a"].set_index("other")["p_holm"]
    for label in "bcd":
        assert row_of(frame, label=label)["p_holm"] == with_best[label]
    alone = holm(pairs.loc[pairs["label"] == "a", "p"].to_numpy())
    assert row_of(frame, label="b")["p_holm"] > max(alone)


def test_unclear_difference_is_tied(read):
    flat = [error_row("a", 0, "novel", i, e) for i, e in enumerate((0.1, 0.2, 0.3))]
    wild = [error_row("b", 0, "novel", i, e) for i, e in enumerate((0.3, 0.1, 0.3))]
    frame = accuracy_frame(read(flat + wild))
    assert row_of(frame, label="b")["tied"]
    # Differences .2, -.1, 0: t = (.1/3) / (sd/sqrt 3), sd = .152752, two degrees of freedom.
    assert row_of(frame, label="b")["p_holm"] == pytest.approx(0.742, abs=1e-3)


def test_holm_keeps_order_and_unknowns():
    corrected = holm(np.array([0.01, math.nan, 0.02, 0.9]))
    assert corrected[0] == pytest.approx(0.03)
    assert math.isnan(corrected[1])
    assert corrected[2] == pytest.approx(0.04)
    assert corrected[3] == pytest.approx(0.9)


def test_half_width_needs_two_values():
    assert math.isnan(half_width(pd.Series([0.5])))
    # Two values: t(.975, 1) = 12.70620474, sd = |difference| / sqrt 2.
    assert half_width(pd.Series([0.0, 1.0])) == pytest.approx(12.70620474 / 2)


def test_gap_is_novel_minus_seen_error_per_seed(read):
    gaps = gap_frame(read(hand_made()))
    named = ["label", "predictor", "seed", "seen", "novel", "gap"]
    assert list(gaps.columns) == [*named, "mean", "lower", "upper", "n_seeds"]
    a = gaps[gaps["label"] == "a"].set_index("seed")
    assert a.loc[0, "gap"] == pytest.approx(0.2 - 0.15)
    assert a.loc[1, "gap"] == pytest.approx(0.4 - 0.25)
    assert a["mean"].tolist() == pytest.approx([0.1, 0.1])
    assert a["n_seeds"].tolist() == [2, 2]


def test_gap_needs_both_groups(read):
    rows = [r for r in hand_made() if r["group"] == "novel"]
    assert gap_frame(read(rows)).empty


@pytest.mark.slow
def test_gap_agrees_with_the_rows_that_cells_write(made_up_rows):
    written = made_up_rows[made_up_rows["metric"] == "gap"]
    mine = gap_frame(made_up_rows)
    both = mine.merge(written[["label", "predictor", "seed", "value"]].astype({"seed": "int64"}))
    assert len(both) == len(written) > 0
    # Cells write it in points of accuracy; reports, in points of error lost.
    np.testing.assert_allclose(both["gap"], -both["value"], atol=1e-12)


def test_shift_frame_keeps_the_control_and_severities_apart(read):
    shifted = [
        error_row("a", seed, "novel", client, 0.5 + 0.1 * seed, shift="blur", severity=severity)
        for seed in (0, 1)
        for client in (2, 3)
        for severity in (0.5, 1.0)
    ]
    frame = shift_frame(read(hand_made() + shifted))
    a = frame[frame["label"] == "a"]
    conditions = zip(a["shift"], a["severity"].fillna(-1), strict=True)
    assert sorted(conditions) == [("blur", 0.5), ("blur", 1.0), ("none", -1.0)]
    blurred = row_of(a, shift="blur", severity=1.0)
    assert blurred["mean"] == pytest.approx(0.55)
    assert blurred["sd_seeds"] == pytest.approx(0.1 / math.sqrt(2))
    assert (blurred["n_clients"], blurred["n_seeds"]) == (2, 2)


def test_shift_without_severity_is_kept(read):
    rows = [*hand_made(), error_row("a", 0, "novel", 2, 0.5, shift="natural")]
    frame = shift_frame(read(rows))
    assert row_of(frame, label="a", shift="natural")["mean"] == 0.5


def test_primary_predictor_is_the_deterministic_one(read):
    rows = [
        error_row("a", 0, "novel", 2, 0.1, predictor="gibbs"),
        error_row("a", 0, "novel", 2, 0.2),
        error_row("b", 0, "novel", 2, 0.3, predictor="gibbs"),
    ]
    kept = primary_predictor(client_errors(read(rows)))
    assert dict(zip(kept["label"], kept["error"], strict=True)) == {"a": 0.2, "b": 0.3}


def distance_row(client, value, shift="none", severity=""):
    return make_row(group="novel", client=client, metric="label_kl", value=value, shift=shift,
                    severity=severity)  # fmt: skip


def test_diagnostics_join_errors_and_leave_out_shifts_that_moved_nothing(read):
    rows = [
        error_row("a", 0, "novel", 2, 0.1),
        error_row("a", 1, "novel", 2, 0.3),
        error_row("a", 0, "novel", 2, 0.9, shift="blur", severity=1.0),
        error_row("a", 0, "novel", 9, 0.6, shift="extrapolation", severity=0.1),
        distance_row(2, 1.5),
        distance_row(2, 1.5, "blur", 1.0),
        distance_row(9, 2.5, "extrapolation", 0.1),
    ]
    frame = diagnostics_frame(read(rows))
    assert list(frame["shift"]) == ["none", "extrapolation"]
    assert list(frame["error"]) == pytest.approx([0.2, 0.6])
    assert list(frame["distance"]) == [1.5, 2.5]
    assert list(frame["n_seeds"]) == [2, 1]


def test_rank_correlation(read):
    rows = []
    for client, (error, distance) in enumerate([(0.1, 1.0), (0.2, 2.0), (0.4, 3.0), (0.3, 4.0)]):
        rows += [error_row("a", 0, "novel", client, error), distance_row(client, distance)]
        rows += [error_row("b", 0, "novel", client, 0.5)]
    ranks = rank_frame(diagnostics_frame(read(rows)))
    # Ranks 1 2 4 3 against 1 2 3 4: 1 - 6 * 2 / (4 * 15).
    assert row_of(ranks, label="a", clients="all")["spearman"] == pytest.approx(0.8)
    assert np.isnan(row_of(ranks, label="b", clients="all")["spearman"])
    assert set(ranks["n"]) == {4}


def test_rank_correlation_ties_what_is_equal_up_to_rounding(read):
    seeds = [(0.0, 0.0, 0.3), (0.0, 0.1, 0.2), (0.4, 0.4, 0.4)]
    rows = [
        error_row("a", seed, "novel", client, error)
        for client, own in enumerate(seeds)
        for seed, error in enumerate(own)
    ]
    rows += [distance_row(client, distance) for client, distance in enumerate((1.0, 2.0, 3.0))]
    ranks = rank_frame(diagnostics_frame(read(rows)))
    # Ranks 1.5 1.5 3 against 1 2 3.
    assert ranks["spearman"].tolist() == pytest.approx([math.sqrt(0.75)] * 2)
    two = [row for row in rows if row["client"] != 2]
    assert rank_frame(diagnostics_frame(read(two)))["spearman"].isna().all()


def test_failures_and_sizes(read):
    rows = [
        *hand_made(),
        make_row(label="c", method="c", seed=1, cell="x", status="failed", message="diverged"),
    ]
    frame = failures_frame(read(rows))
    assert frame.to_dict("records") == [
        {"label": "c", "seed": 1, "cell": "x", "message": "diverged"}
    ]
    assert group_sizes(read(rows)) == {"seen": 2, "certification": 0, "novel": 3}


def test_labels_follow_the_study(read):
    rows = read(hand_made())
    assert labels_in(rows, ["x", {"name": "b"}, {"name": "z", "label": "a"}]) == ["b", "a"]
    assert labels_in(rows) == ["a", "b"]
    frame = pd.DataFrame({"label": ["a", "c", "b"]})
    assert list(in_order(frame, ["b", "a"])["label"]) == ["b", "a", "c"]


def test_pure_functions_leave_rows_alone(made_up_rows):
    before = made_up_rows.copy(deep=True)
    accuracy_frame(made_up_rows)
    shift_frame(made_up_rows)
    diagnostics_frame(made_up_rows)
    pd.testing.assert_frame_equal(made_up_rows, before)


@pytest.mark.parametrize("storage", ["python", "pyarrow"])
def test_records_are_what_pandas_lists_in_python_s_own_numbers(storage):
    if storage == "pyarrow":
        pytest.importorskip("pyarrow")
    with pd.option_context("mode.string_storage", storage):
        mixed = pd.Series([np.float64(0.5), np.int64(2), "x", None], dtype=object)
        frame = pd.DataFrame(
            {
                "words": ["a", "b", None, "d"],
                "numbers": [0.1, np.nan, 3.0, 4.0],
                "counts": [1, 2, 3, 4],
                "truths": [True, False, True, True],
                "mixed": mixed,
                5: 0,
            }
        )
        wanted = [{str(key): one[key] for key in one} for one in frame.to_dict("records")]
    for listed, known in ((records(frame), wanted), (records(frame.head(0)), [])):
        assert repr(listed) == repr(known)
        kinds = [[type(value) for value in row.values()] for row in listed]
        assert kinds == [[type(value) for value in row.values()] for row in known]


def test_a_rank_correlation_with_what_is_unknown_is_unknown():
    frame = pd.DataFrame({"label": "a", "metric": "label_kl", "shift": "none"}, index=range(4))
    known = frame.assign(distance=[0.1, 0.2, np.inf, np.inf], error=[0.1, 0.2, 0.3, 0.3])
    assert rank_frame(known)["spearman"].tolist() == [1.0, 1.0]
    unknown = known.assign(distance=[0.1, 0.2, 0.3, np.nan])
    assert rank_frame(unknown)["spearman"].isna().all()
