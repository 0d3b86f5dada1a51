from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset, make_dataset
from latecomer.eval.splits.build import deal_extrapolated, label_counts, make_split

DIGITS = load_dataset({"name": "digits"})


def toy(n=600, n_classes=6, seed=0, client=None, test=None):
    y = np.random.default_rng(seed).integers(0, n_classes, n)
    return make_dataset(
        "toy", np.zeros((n, 2)), y, provenance="", client=client, test=test, coarse=y // 2
    )


def check_disjoint(split):
    everything = np.concatenate([*(client.rows("all") for client in split.clients), *split.reserve])
    assert len(np.unique(everything)) == len(everything)


def check_livable(clients):
    for client in clients:
        assert len(client.support) >= 1
        assert len(client.query) >= 1
    assert len({client.id for client in clients}) == len(clients)


def of(kind, **options):
    return st.fixed_dictionaries({"kind": st.just(kind), **options})


SHARES = st.sampled_from(["equal", "uniform", "uniform_and_one_unused"])
FORMS = st.sampled_from(["shares", "draws"])
SETTINGS = st.one_of(
    of("by_class", classes_per_client=st.integers(1, 6), shares=SHARES),
    of("pathological", shards_per_client=st.integers(1, 4)),
    of("dirichlet", alpha=st.floats(0.01, 100), form=FORMS),
    of("coarse", superclasses_per_client=st.integers(1, 3)),
    of("iid"),
    of("natural"),
)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(
    options=SETTINGS,
    clients=st.integers(1, 40),
    certify=st.one_of(st.integers(0, 10), st.floats(0, 0.4)),
    novel=st.one_of(st.integers(0, 10), st.floats(0, 0.4)),
    seed=st.integers(0, 5),
    query=st.floats(0.01, 0.99),
    validation=st.floats(0, 0.99),
    reserve=st.sampled_from([0.0, 0.1, 0.5]),
    publisher=st.booleans(),
)
def test_every_split_that_exists_is_sound(
    options, clients, certify, novel, seed, query, validation, reserve, publisher
):
    rng = np.random.default_rng(1)
    data = toy(
        client=rng.integers(0, 45, 600) if options["kind"] == "natural" else None,
        test=rng.random(600) < 0.3 if publisher else None,
    )
    if options["kind"] == "natural":
        reserve = 0.0
    try:
        split = make_split(
            data,
            clients=clients,
            certify=certify,
            novel=novel,
            seed=seed,
            query=query,
            validation=validation,
            reserve=reserve,
            **options,
        )
    except InputError:
        reject()
    check_disjoint(split)
    check_livable(split.clients)
    assert len(split.clients) == clients
    assert len(split.seen) >= 1
    wanted = certify if isinstance(certify, int) else round(certify * clients)
    assert len(split.certification) == wanted
    for client in split.clients:
        if publisher:
            assert data.test[client.query].all()
            assert not data.test[np.concatenate([client.support, client.validation])].any()
        else:
            n = len(client.rows("all"))
            assert len(client.query) == np.clip(np.rint(query * n), 1, n - 1)
        if options["kind"] == "by_class":
            assert len(np.unique(data.y[client.rows("all")])) == options["classes_per_client"]
        if options["kind"] == "coarse":
            superclasses = np.unique(data.coarse[client.rows("all")])
            assert len(superclasses) <= options["superclasses_per_client"]
        if options["kind"] == "natural":
            assert (data.client[client.rows("all")] == client.id).all()
    held = np.concatenate([client.rows("all") for client in split.clients])
    if options["kind"] in ("dirichlet", "pathological", "iid") and options.get("form") != "draws":
        assert len(held) + sum(map(len, split.reserve)) == len(data)
    if reserve:
        new = deal_extrapolated(data, split, alpha=1.0, seed=seed, n_clients=3)
        dealt = np.concatenate([client.rows("all") for client in new])
        assert not np.isin(dealt, held).any()


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "by_class", "clients": 60, "classes_per_client": 2},
        {"kind": "by_class", "clients": 60, "classes_per_client": 2, "shares": "uniform"},
        {"kind": "pathological", "clients": 60, "shards_per_client": 2},
        {"kind": "dirichlet", "clients": 60, "alpha": 0.1},
        {"kind": "dirichlet", "clients": 60, "alpha": 0.1, "form": "draws"},
        {"kind": "iid", "clients": 60},
        {"kind": "environment", "clients": 60, "classes_per_client": 2},
    ],
)
def test_same_seed_same_split_other_seed_another(options):
    def rows(seed):
        split = make_split(DIGITS, novel=0.2, reserve=0.2, seed=seed, **options)
        new = deal_extrapolated(DIGITS, split, alpha=0.1, seed=seed, n_clients=12)
        return split.content_hash, [c.rows("all").tolist() for c in new]

    assert rows(3) == rows(3)
    assert rows(3)[0] != rows(4)[0]
    assert rows(3)[1] != rows(4)[1]


def test_group_sizes_never_change_who_holds_what():
    options = {"kind": "by_class", "clients": 60, "classes_per_client": 2}
    plain = make_split(DIGITS, **options)
    cut = make_split(DIGITS, certify=10, novel=0.2, **options)
    assert [len(g) for g in (cut.seen, cut.certification, cut.novel)] == [38, 10, 12]
    for a, b in zip(plain.clients, cut.clients, strict=True):
        assert a.id == b.id
        np.testing.assert_array_equal(a.rows("all"), b.rows("all"))


def test_by_class_gives_every_class_to_as_many_clients_in_equal_shares():
    split = make_split(DIGITS, kind="by_class", clients=60, classes_per_client=2)
    counts = label_counts(DIGITS.y, split.clients, 10)
    assert ((counts > 0).sum(axis=1) == 2).all()
    assert ((counts > 0).sum(axis=0) == 12).all()
    assert counts.sum() == len(DIGITS)
    for column in counts.T:
        assert np.ptp(column[column > 0]) <= 1


def test_samples_are_dealt_in_random_order():
    data = make_dataset("ordered", np.zeros((1000, 1)), np.repeat([0, 1], 500), provenance="")
    split = make_split(data, kind="by_class", clients=2, classes_per_client=2)
    first = split.seen[0].rows("all")
    # Of 500 samples of a class the first half would go to one client, were they not shuffled.
    assert 90 < np.sum(first < 250) < 160
    assert 90 < np.sum((first >= 500) & (first < 750)) < 160


def test_small_alpha_makes_one_sided_clients_and_large_alpha_even_ones():
    def spread(alpha):
        split = make_split(DIGITS, kind="dirichlet", clients=30, alpha=alpha)
        counts = label_counts(DIGITS.y, split.clients, 10)
        assert counts.sum() == len(DIGITS)
        return float((counts.max(axis=1) / counts.sum(axis=1)).mean())

    assert spread(0.01) > 0.8 > spread(1.0) > spread(1000.0)
    assert spread(1000.0) < 0.15


def test_roles_have_the_same_proportions_in_every_class():
    split = make_split(
        DIGITS, kind="by_class", clients=10, classes_per_client=5, query=0.3, validation=0.25
    )
    whole = label_counts(DIGITS.y, split.clients, 10)
    query = label_counts(DIGITS.y, split.clients, 10, role="query")
    validation = label_counts(DIGITS.y, split.clients, 10, role="validation")
    support = label_counts(DIGITS.y, split.clients, 10, role="support")
    np.testing.assert_array_equal(support + validation + query, whole)
    # Each count is its share rounded up or down, once for query and once more for validation.
    assert np.abs(query - 0.3 * whole).max() < 1 + 0.01 * whole.max()
    assert np.abs(validation - 0.25 * (whole - query)).max() < 1 + 0.01 * whole.max()


def test_publishers_test_rows_are_dealt_by_the_same_classes_and_shares():
    test = np.random.default_rng(0).random(3000) < 0.2
    data = toy(3000, 10, test=test)
    for options in (
        {"kind": "by_class", "classes_per_client": 3},
        {"kind": "dirichlet", "alpha": 1},
    ):
        split = make_split(data, clients=10, query=0.9, reserve=0.1, **options)
        query = label_counts(data.y, split.clients, 10, role="query")
        train = label_counts(data.y, split.clients, 10) - query
        left = [r[~test[r]] for r in split.reserve], [r[test[r]] for r in split.reserve]
        n_train, n_test = (
            np.bincount(data.y[mask], minlength=10) - [len(r) for r in part]
            for mask, part in zip((~test, test), left, strict=True)
        )
        assert np.abs(query / n_test - train / n_train).max() < 1 / n_test.min() + 1 / n_train.min()
        new = deal_extrapolated(data, split, alpha=1.0, seed=0, n_clients=3)
        for client in new:
            assert test[client.query].all()
            assert not test[client.support].any()


def test_dirichlet_clients_all_get_test_rows():
    data = toy(600, 6, test=np.arange(600) % 10 == 0)
    for seed in range(5):
        split = make_split(data, kind="dirichlet", clients=24, alpha=0.2, seed=seed)
        check_livable(split.clients)


def test_reserve_holds_its_share_of_train_and_test_rows():
    test = np.arange(600) % 5 == 0
    data = make_dataset("toy", np.zeros((600, 1)), np.arange(600) % 3, provenance="", test=test)
    split = make_split(data, kind="by_class", clients=5, classes_per_client=3, reserve=0.25)
    for rows in split.reserve:
        assert (np.sum(~test[rows]), np.sum(test[rows])) == (40, 10)


def test_natural_clients_keep_their_numbers_and_their_samples():
    owners = np.random.default_rng(2).integers(0, 30, 600)
    data = toy(client=owners)
    split = make_split(data, kind="natural", certify=0.2, novel=5)
    assert [len(g) for g in (split.seen, split.certification, split.novel)] == [19, 6, 5]
    for client in split.clients:
        np.testing.assert_array_equal(
            np.sort(client.rows("all")), np.flatnonzero(owners == client.id)
        )
    assert sorted(c.id for c in split.clients) == list(range(30))
    assert [c.id for c in split.clients] != list(range(30))
    some = make_split(data, kind="natural", clients=12)
    assert len(some.clients) == 12
    drawn = {
        c.id
        for seed in range(4)
        for c in make_split(data, kind="natural", clients=12, seed=seed).clients
    }
    assert len(drawn) > 20


@pytest.mark.parametrize(
    "options",
    [
        {"clients": 30},
        {"min_samples": 6},
        {"min_samples": 6, "clients": 20},
        {"certify_groups": ["A"], "novel_groups": ["B"]},
        {"certify_groups": ["A"], "novel_groups": ["A"], "clients": 30},
    ],
)
def test_every_natural_client_has_one_role_or_is_listed_as_left_out(options):
    owners = np.repeat(np.arange(40), 4 + np.arange(40) % 5)
    data = toy(len(owners), client=owners)
    data = replace(data, group=tuple("AB"[c % 2] for c in range(40)), group_column="side")
    split = make_split(data, kind="natural", certify=4, novel=3, **options)
    assert sorted([*(c.id for c in split.clients), *split.left_out]) == [*range(40)]
    if "clients" in options:
        assert len(split.left_out) >= 10


def test_groups_are_a_uniform_cut():
    owners = np.repeat(np.arange(10), 10)
    data = toy(100, client=owners)
    novel = np.zeros(10)
    for seed in range(400):
        for client in make_split(data, kind="natural", novel=3, seed=seed).novel:
            novel[client.id] += 1
    # Binomial(400, 0.3): mean 120, standard deviation 9.2.
    assert np.abs(novel - 120).max() < 4 * 9.2


@pytest.mark.theory
@pytest.mark.parametrize(
    ("options", "drawn_from"),
    [
        ({}, range(20)),
        ({"clients": 16}, range(20)),
        ({"min_samples": 6}, range(10, 20)),
        ({"novel_groups": ["B"]}, range(0, 20, 2)),
        ({"certify_groups": ["B"], "novel_groups": ["B"]}, range(1, 20, 2)),
    ],
)
def test_certified_natural_clients_are_a_uniform_sample_in_uniform_order(options, drawn_from):
    """Clients grow with their number and their file is sorted: neither may show in who is drawn."""
    owners = np.repeat(np.arange(20), np.repeat([4, 6], 10))
    data = toy(len(owners), client=owners)
    data = replace(data, group=tuple("AB"[c % 2] for c in range(20)), group_column="side")
    n, trials = len(drawn_from), 600
    places = np.zeros((20, 4))
    for seed in range(trials):
        split = make_split(data, kind="natural", certify=4, novel=3, seed=seed, **options)
        places[[c.id for c in split.certification], range(4)] += 1
    held = places[list(drawn_from)]
    assert held.sum() == places.sum() == 4 * trials
    statistic = ((held - trials / n) ** 2 / (trials / n)).sum()
    assert chi2.sf(statistic, 4 * (n - 1)) > 1e-4


def test_reserve_holds_a_share_of_each_class_and_is_dealt_whole():
    split = make_split(DIGITS, kind="by_class", clients=60, classes_per_client=2, reserve=0.2)
    for c, rows in enumerate(split.reserve):
        assert (DIGITS.y[rows] == c).all()
        assert len(rows) == round(0.2 * (DIGITS.y == c).sum())
    everything = np.sort(np.concatenate(split.reserve))
    shares = []
    for alpha in (0.1, 0.5, 100.0):
        new = deal_extrapolated(DIGITS, split, alpha=alpha, seed=0, n_clients=12)
        assert len(new) == 12
        check_livable((*split.clients, *new))
        np.testing.assert_array_equal(
            np.sort(np.concatenate([c.rows("all") for c in new])), everything
        )
        counts = label_counts(DIGITS.y, new, 10)
        shares.append((counts.max(axis=1) / counts.sum(axis=1)).mean())
    assert shares == sorted(shares, reverse=True)
