"""Comparing methods: every pair, ranks and their critical difference, against independent sums."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from latecomer.reports import pair_frame, rank_test_frame
from latecomer.reports.frames.errors import comparison_frame, holm, levels, lowest_first


def errors_of(table, seeds=1):
    """A frame of errors from clients x models; every seed repeats it."""
    return pd.DataFrame(
        [
            {"label": model, "predictor": "deterministic", "seed": seed, "client": str(i),
             "error": table[i][k]}
            for seed in range(seeds) for i in range(len(table))
            for k, model in enumerate("abcdefghij"[: len(table[0])])
        ]
    )  # fmt: skip


def test_every_pair_once_with_its_own_t_test_and_holm_over_all():
    table = np.random.default_rng(1).random((14, 4)) + np.array([0, 0.1, 0.2, 0.6])
    frame = pair_frame(errors_of(table))
    pairs = list(zip(frame["label"], frame["other"], strict=True))
    assert pairs == [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
    for row in frame.itertuples():
        one, other = ("abcd".index(name) for name in (row.label, row.other))
        test = stats.ttest_rel(table[:, one], table[:, other])
        interval = test.confidence_interval(0.95)
        assert row.difference == pytest.approx((table[:, one] - table[:, other]).mean())
        assert row.p == pytest.approx(test.pvalue)
        assert (row.lower, row.upper) == pytest.approx((interval.low, interval.high))
        assert (row.n_clients, row.n_seeds) == (14, 1)
    assert frame["p_holm"].tolist() == pytest.approx(holm(frame["p"].to_numpy()))


def test_seeds_are_averaged_before_clients_are_counted():
    errors = errors_of([[0.1, 0.2], [0.3, 0.2], [0.5, 0.9]], seeds=3)
    frame = pair_frame(errors)
    assert (frame["n_clients"].item(), frame["n_seeds"].item()) == (3, 3)
    assert frame["p"].item() == pytest.approx(pair_frame(errors[errors["seed"] == 0])["p"].item())


def test_a_pair_uses_the_seeds_both_have():
    errors = errors_of([[0.1, 0.2], [0.3, 0.2]], seeds=2)
    errors["error"] += 0.3 * (errors["seed"] == 0)
    kept = errors[(errors["label"] != "b") | (errors["seed"] == 1)]
    assert pair_frame(kept)["n_seeds"].item() == 1
    assert pair_frame(kept)["difference"].item() == pytest.approx(0.0, abs=1e-12)


def test_critical_difference_is_that_of_the_tables():
    # Demsar (2006), section 3.2.2: four methods on 14 data sets, q = 2.569, CD = 1.25.
    frame = rank_test_frame(errors_of(np.random.default_rng(0).random((14, 4))))
    assert frame["critical_difference"].iloc[0] == pytest.approx(1.2536, abs=2e-3)
    # Table 5(a) there: q at 5% is 3.164 for ten methods.
    frame = rank_test_frame(errors_of(np.random.default_rng(0).random((20, 10))))
    assert frame["critical_difference"].iloc[0] == pytest.approx(
        3.164 * (110 / 120) ** 0.5, abs=2e-3
    )


def test_ranks_and_friedman_agree_with_scipy_and_ties_share():
    table = np.array([[0.1, 0.1, 0.3], [0.2, 0.1, 0.3], [0.0, 0.1, 0.2], [0.1, 0.2, 0.2]])
    frame = rank_test_frame(errors_of(table))
    ranks = stats.rankdata(table, axis=1).mean(axis=0)
    assert dict(zip(frame["label"], frame["mean_rank"], strict=True)) == pytest.approx(
        dict(zip("abc", ranks, strict=True))
    )
    assert frame["mean_rank"].is_monotonic_increasing
    assert frame["p"].iloc[0] == pytest.approx(stats.friedmanchisquare(*table.T).pvalue)


def test_all_alike_is_no_difference_and_too_little_is_no_test():
    frame = rank_test_frame(errors_of(np.full((5, 3), 0.2)))
    assert set(frame["p"]) == {1.0}
    assert set(frame["mean_rank"]) == {2.0}
    assert rank_test_frame(errors_of([[0.1, 0.2]])).empty
    assert rank_test_frame(errors_of([[0.1, 0.2, 0.3]])).empty
    assert pair_frame(errors_of([[0.1]])).empty


def test_means_over_seeds_that_are_equal_up_to_rounding_tie():
    seeds = ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.6, 0.6, 0.6])
    one, other = (sum(errors) / 3 for errors in seeds[:2])
    assert one != other  # in the last bit
    errors = pd.concat(
        errors_of([[model[seed] for model in seeds]] * 4).assign(seed=seed) for seed in range(3)
    )
    frame = rank_test_frame(errors).set_index("label")
    assert frame["mean_rank"].to_dict() == {"a": 1.5, "b": 1.5, "c": 3.0}
    assert levels(np.array([one, 0.5, other])).tolist() == [0, 1, 0]


def test_a_model_that_errs_less_on_the_seeds_both_have_is_not_worse():
    # One model has the easy seed alone, and errs more there than the other, whose mean is larger.
    wobble = np.linspace(-0.01, 0.01, 6)[:, None] * [1.0, 0.5]
    easy, hard = (errors_of(mean + np.array([0.03, 0.0]) + wobble) for mean in (0.1, 0.5))
    errors = pd.concat([easy, hard[hard["label"] == "b"].assign(seed=1)]).assign(group="novel")
    frame = comparison_frame(errors).set_index("label")
    assert frame.loc["a", "difference"] == 0
    assert frame.loc["b", "difference"] == pytest.approx(-0.03)
    assert frame.loc["b", "p_holm"] < 0.05
    assert frame["tied"].all()


def test_the_model_compared_with_comes_first_of_means_that_are_equal_up_to_rounding():
    p = [0.5, np.nan, np.nan]
    frame = pd.DataFrame(
        {"mean": [0.3, 0.1 + 0.2, 0.2], "difference": [0.1, 0, np.nan], "p_holm": p}
    )
    assert lowest_first(frame).index.tolist() == [2, 1, 0]
