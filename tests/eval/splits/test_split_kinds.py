"""Shares, shards, drawn labels, superclasses: what each kind of split promises."""

import numpy as np
import pytest
from doors import refusal
from hypothesis import given
from hypothesis import strategies as st

from latecomer.eval.datasets import load_dataset, make_dataset
from latecomer.eval.splits.build import label_counts, make_split
from latecomer.eval.splits.dealing import (
    balanced_classes,
    draw_labels,
    log_dirichlet,
    share_counts,
    stable_order,
)
from latecomer.eval.splits.registry import SPLITS

DIGITS = load_dataset({"name": "digits"})


def balanced(n_classes=10, each=500, tests=100):
    y = np.repeat(np.arange(n_classes), each + tests)
    test = np.tile(np.arange(each + tests) >= each, n_classes)
    x = np.zeros((len(y), 1), np.uint8)
    return make_dataset("balanced", x, y, provenance="", test=test, coarse=y // 5)


def counts_of(data, split):
    train = label_counts(data.y, split.clients, data.n_classes, role="support")
    train = train + label_counts(data.y, split.clients, data.n_classes, role="validation")
    return train, label_counts(data.y, split.clients, data.n_classes, role="query")


def test_uniform_shares_lie_between_four_and_six_tenths_and_hold_for_test_rows_too():
    data = balanced()
    split = make_split(data, kind="by_class", clients=20, classes_per_client=2, shares="uniform")
    train, query = counts_of(data, split)
    assert train.sum() == 5000
    for column in train.T:
        held = column[column > 0]
        assert len(held) == 4
        # The ratio of two U(.4, .6) variables is at most 1.5, plus the rounding of each count.
        assert held.max() / held.min() <= 1.5 + 0.03
        assert np.ptp(held) > 2
    assert np.abs(query - train / 5).max() <= 1


def test_shards_are_cut_from_samples_sorted_by_label():
    data = balanced()
    split = make_split(data, kind="pathological", clients=50, shards_per_client=2)
    train, query = counts_of(data, split)
    # 100 shards of 50 samples, ten of each class; a client holds two, perhaps of one class.
    assert set(np.unique(train).tolist()) == {0, 50, 100}
    assert (train.sum(axis=1) == 100).all()
    np.testing.assert_array_equal(train.sum(axis=0), np.full(10, 500))
    np.testing.assert_array_equal(query, train // 5)


def test_shards_that_do_not_divide_evenly_differ_by_one():
    split = make_split(DIGITS, kind="pathological", clients=31, shards_per_client=3)
    counts = label_counts(DIGITS.y, split.clients, 10)
    assert counts.sum() == len(DIGITS)
    assert set((counts.sum(axis=1)).tolist()) <= {57, 58, 59, 60}
    assert (counts > 0).sum(axis=1).max() <= 6


def test_drawn_labels_follow_each_clients_proportions():
    # With classes that never run out a client's labels are a multinomial draw from its own q.
    rng = np.random.default_rng(0)
    logs = log_dirichlet(400, 5, 1.0, rng)
    counts = draw_labels(logs, np.full(400, 50), np.full(5, 20_000), rng)
    expected = 50 * np.exp(logs)
    chi = np.where(expected > 5, (counts - expected) ** 2 / np.maximum(expected, 1e-9), np.nan)
    n = np.isfinite(chi).sum()
    # Each term is (1 - q) times a chi-square of one degree; the mean of 1 - q is known.
    wanted = np.nanmean(np.where(np.isfinite(chi), 1 - np.exp(logs), np.nan))
    assert abs(np.nanmean(chi) - wanted) < 4 * np.sqrt(2 / n)


@given(
    clients=st.integers(1, 12),
    alpha=st.floats(1e-4, 100),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_drawn_labels_never_exceed_what_there_is(clients, alpha, seed, data):
    totals = np.array(data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=6)))
    rng = np.random.default_rng(seed)
    size = int(totals.sum()) // clients
    logs = log_dirichlet(clients, len(totals), alpha, rng)
    counts = draw_labels(logs, np.full(clients, size), totals, rng)
    assert (counts.sum(axis=1) == size).all()
    assert (counts.sum(axis=0) <= totals).all()
    assert counts.min() >= 0


def test_with_one_share_unused_a_client_of_ten_holds_a_third_of_a_class_and_of_its_test_rows():
    y = np.repeat(np.arange(10), 360)
    test = np.arange(3600) % 6 == 0
    data = make_dataset("toy", np.zeros((3600, 2), np.float32), y, test=test, provenance="made")
    dealt = {"kind": "by_class", "clients": 10, "classes_per_client": 2}
    split = make_split(data, **dealt, shares="uniform_and_one_unused")
    text = make_split(data, **dealt, shares="uniform")
    for role, n in (("all", 360), ("query", 60)):
        held = [np.bincount(y[one.rows(role)], minlength=10) for one in split.seen]
        shares = np.concatenate([one[one > 0] for one in held]) / n
        assert len(shares) == 20
        assert shares.min() > 0.24
        assert shares.max() < 0.44
        assert 0.3 < shares.mean() < 0.37
    used = [sum(len(one.rows("all")) for one in each.seen) for each in (split, text)]
    assert used[1] == 3600
    assert 0.6 < used[0] / used[1] < 0.74


def test_drawn_labels_leave_all_clients_equally_large_and_shares_do_not():
    by = {
        form: make_split(DIGITS, kind="dirichlet", clients=30, alpha=0.1, form=form)
        for form in ("shares", "draws")
    }
    sizes = {f: [len(c.rows("all")) for c in split.clients] for f, split in by.items()}
    assert set(sizes["draws"]) == {1797 // 30}
    assert np.ptp(sizes["shares"]) > 20
    few = make_split(
        DIGITS, kind="dirichlet", clients=30, alpha=0.1, form="draws", samples_per_client=20
    )
    assert {len(c.rows("all")) for c in few.clients} == {20}


def test_each_superclass_goes_to_as_many_clients_and_whole():
    data = balanced(n_classes=20, each=50, tests=10)
    split = make_split(data, kind="coarse", clients=12)
    train, query = counts_of(data, split)
    holds = train.reshape(12, 4, 5)
    assert ((holds > 0).all(axis=2).sum(axis=1) == 1).all()
    assert ((holds > 0).any(axis=2).sum(axis=0) == 3).all()
    assert np.abs(query - train / 5).max() <= 1


def test_iid_clients_are_equal_in_size_and_in_no_class_alike():
    split = make_split(DIGITS, kind="iid", clients=50)
    counts = label_counts(DIGITS.y, split.clients, 10)
    assert set(counts.sum(axis=1).tolist()) == {35, 36}
    share = np.bincount(DIGITS.y) / len(DIGITS)
    expected = counts.sum(axis=1)[:, None] * share
    chi = ((counts - expected) ** 2 / expected).sum()
    # Chi-square of 49 * 9 degrees: mean 441, standard deviation 30.
    assert 441 - 4 * 30 < chi < 441 + 4 * 30


@given(st.lists(st.integers(0, 2**32 - 1), max_size=50))
def test_stable_order_is_argsort(keys):
    array = np.array(keys, dtype=np.int64)
    np.testing.assert_array_equal(stable_order(array), np.argsort(array, kind="stable"))


def test_a_client_without_test_rows_is_refused():
    y = np.repeat([0, 1], 50)
    data = make_dataset(
        "few tests", np.zeros((100, 1)), y, provenance="", test=np.arange(100) % 25 == 0
    )
    for kind, more in (
        ("by_class", {"classes_per_client": 1}),
        ("pathological", {"shards_per_client": 2}),
        ("iid", {}),
        ("dirichlet", {"alpha": 1.0, "form": "draws"}),
        ("environment", {"classes_per_client": 1, "novel": 3}),
    ):
        assert "0 test samples" in refusal(make_split, data, kind=kind, clients=10, **more)


def test_classes_without_samples_are_never_given():
    y = np.repeat([1, 4, 5], 30)
    data = make_dataset("gaps", np.zeros((90, 1)), y, provenance="")
    split = make_split(data, kind="by_class", clients=9, classes_per_client=3)
    assert (label_counts(data.y, split.clients, 6) > 0).sum(axis=0).tolist() == [0, 9, 0, 0, 9, 9]


def test_dirichlet_keeps_min_samples():
    split = make_split(DIGITS, kind="dirichlet", clients=60, alpha=0.05, min_samples=15)
    assert min(len(client.rows("all")) for client in split.clients) >= 15


def test_every_kind_says_what_it_is():
    for kind in SPLITS.values():
        assert kind.description
        assert "\n" not in kind.description


@given(
    clients=st.integers(1, 30),
    n_classes=st.integers(1, 12),
    data=st.data(),
    seed=st.integers(0, 100),
)
def test_balanced_classes(clients, n_classes, data, seed):
    per_client = data.draw(st.integers(1, n_classes))
    chosen = balanced_classes(clients, n_classes, per_client, np.random.default_rng(seed))
    assert (chosen.sum(axis=1) == per_client).all()
    assert np.ptp(chosen.sum(axis=0)) <= 1


def test_classes_are_drawn_at_random_among_the_least_given():
    rng = np.random.default_rng(0)
    pairs = {tuple(np.flatnonzero(balanced_classes(1, 4, 2, rng)[0])) for _ in range(200)}
    assert len(pairs) == 6


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 30))
def test_share_counts_are_within_one_of_the_shares(clients, n_classes, seed):
    rng = np.random.default_rng(seed)
    weights = rng.random((clients, n_classes))
    totals = rng.integers(0, 50, n_classes)
    counts = share_counts(weights, totals)
    assert counts.min() >= 0
    np.testing.assert_array_equal(counts.sum(axis=0), totals)
    assert np.abs(counts - weights / weights.sum(axis=0) * totals).max() < 1


@pytest.mark.parametrize("alpha", [1e-4, 0.1, 1.0, 1e6])
def test_log_dirichlet_has_the_moments_of_a_dirichlet(alpha):
    k, n = 4, 20_000
    pi = np.exp(log_dirichlet(n, k, alpha, np.random.default_rng(0)))
    np.testing.assert_allclose(pi.sum(axis=1), 1)
    variance = (1 / k) * (1 - 1 / k) / (k * alpha + 1)
    # Four standard errors of the mean; the variance of a bounded variable is as well known.
    assert np.abs(pi.mean(axis=0) - 1 / k).max() < 4 * np.sqrt(variance / n) + 1e-12
    np.testing.assert_allclose(pi.var(axis=0), variance, rtol=0.05)
