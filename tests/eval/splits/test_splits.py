import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from latecomer.eval.datasets import load_dataset, make_dataset
from latecomer.eval.errors import InputError
from latecomer.eval.splits.build import deal_extrapolated, label_counts, make_split
from latecomer.eval.splits.dealing import balanced_classes, log_dirichlet, share_counts
from latecomer.eval.splits.kinds import SPLITS

DIGITS = load_dataset({"name": "digits"})


def toy(n=600, n_classes=6, seed=0, client=None, test=None):
    y = np.random.default_rng(seed).integers(0, n_classes, n)
    return make_dataset(
        "toy", np.zeros((n, 2)), y, provenance="", client=client, test=test, coarse=y // 2
    )


def roles(client):
    return {"support": client.support, "validation": client.validation, "query": client.query}


def check_disjoint(split, *, reserved=True):
    rows = [r for client in split.clients for r in roles(client).values()]
    rows += list(split.reserve) if reserved else []
    everything = np.concatenate(rows)
    assert len(np.unique(everything)) == len(everything)


def check_livable(clients):
    for client in clients:
        assert len(client.support) >= 1
        assert len(client.query) >= 1
    assert len({client.id for client in clients}) == len(clients)


SETTINGS = st.one_of(
    st.fixed_dictionaries(
        {
            "kind": st.just("by_class"),
            "classes_per_client": st.integers(1, 6),
            "shares": st.sampled_from(["equal", "uniform"]),
        }
    ),
    st.fixed_dictionaries(
        {"kind": st.just("pathological"), "shards_per_client": st.integers(1, 4)}
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("dirichlet"),
            "alpha": st.floats(0.01, 100),
            "form": st.sampled_from(["shares", "draws"]),
        }
    ),
    st.fixed_dictionaries(
        {"kind": st.just("coarse"), "superclasses_per_client": st.integers(1, 3)}
    ),
    st.fixed_dictionaries({"kind": st.just("iid")}),
    st.fixed_dictionaries({"kind": st.just("natural")}),
)


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
        return split.content_hash, [r.tolist() for c in new for r in roles(c).values()]

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


def test_classes_without_samples_are_never_given():
    y = np.repeat([1, 4, 5], 30)
    data = make_dataset("gaps", np.zeros((90, 1)), y, provenance="")
    split = make_split(data, kind="by_class", clients=9, classes_per_client=3)
    assert (label_counts(data.y, split.clients, 6) > 0).sum(axis=0).tolist() == [0, 9, 0, 0, 9, 9]


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


def test_dirichlet_keeps_min_samples():
    split = make_split(DIGITS, kind="dirichlet", clients=60, alpha=0.05, min_samples=15)
    assert min(len(client.rows("all")) for client in split.clients) >= 15


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


def test_natural_clients_too_small_are_refused_or_left_out_by_name():
    data = toy(100, client=np.r_[np.zeros(50, int), np.ones(49, int), 2])
    with pytest.raises(InputError, match="1 of 3 clients hold too few samples"):
        make_split(data, kind="natural")
    split = make_split(data, kind="natural", min_samples=5)
    assert split.left_out == (2,)
    assert sorted(c.id for c in split.clients) == [0, 1]


def test_groups_are_a_uniform_cut():
    owners = np.repeat(np.arange(10), 10)
    data = toy(100, client=owners)
    novel = np.zeros(10)
    for seed in range(400):
        for client in make_split(data, kind="natural", novel=3, seed=seed).novel:
            novel[client.id] += 1
    # Binomial(400, 0.3): mean 120, standard deviation 9.2.
    assert np.abs(novel - 120).max() < 4 * 9.2


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


IMPOSSIBLE = [
    ({"kind": "by_clas"}, "did you mean 'by_class'?"),
    ({"kind": None}, "split.kind must be one of by_class, pathological, dirichlet, coarse, iid"),
    ({"classes_per_client": 11}, "split.classes_per_client must be a whole number in 1..10"),
    ({"classes_per_client": 0}, "got 0"),
    ({"classes_per_client": 2.0}, "got 2.0"),
    ({"classes_per_client": None}, "split.classes_per_client must be given"),
    ({"clients": None}, "split.clients must be given"),
    ({"clients": 2000}, "in 1..898 (1797 samples, at least 2 for each client), got 2000"),
    ({"clients": 0}, "got 0"),
    ({"clients": True}, "got True"),
    ({"clients": 890, "classes_per_client": 10}, "gives class 0 to 890 clients"),
    ({"clients": 60, "min_samples": 40}, "in 1..44"),
    ({"clients": 44, "min_samples": 40, "classes_per_client": 10}, "would hold"),
    ({"alpha": 1}, "split.alpha is no setting of split.kind=by_class"),
    ({"classes_per_clients": 1}, "did you mean 'classes_per_client'?"),
    ({"certify": 30, "novel": 30}, "leave no seen client: 30 + 30 of 60"),
    ({"certify": 0.5, "novel": 0.5}, "leave no seen client"),
    ({"novel": 61}, "split.novel must be a whole number in 0..60"),
    ({"novel": 1.0}, "split.novel: must be a count of at least 0 or a fraction in [0, 1), got 1.0"),
    ({"novel": 0.001}, "is not one client"),
    ({"novel": -1}, "got -1"),
    ({"certify": float("nan")}, "got nan"),
    ({"query": 0}, "split.query: must be greater than 0, got 0"),
    ({"query": 1.0}, "got 1.0"),
    ({"validation": 1}, "split.validation: must be less than 1, got 1"),
    ({"reserve": 1.0}, "split.reserve: must be less than 1, got 1.0"),
    ({"reserve": "0.2"}, "got '0.2'"),
    ({"seed": -1}, "split.seed: must be greater than or equal to 0, got -1"),
    ({"kind": "dirichlet", "classes_per_client": None}, "split.alpha must be given"),
    (
        {"kind": "dirichlet", "classes_per_client": None, "alpha": 0},
        "split.alpha: must be greater than 0, got 0",
    ),
    (
        {"kind": "dirichlet", "classes_per_client": None, "alpha": 1, "clients": 500},
        "in 1..449 (1797 samples, at least 4 for each client)",
    ),
    (
        {"kind": "dirichlet", "classes_per_client": None, "alpha": 0.001, "clients": 440},
        "after 100 draws",
    ),
    ({"shares": "unequal"}, "split.shares: must be 'equal' or 'uniform', got 'unequal'"),
    ({"kind": "pathological", "classes_per_client": None}, "shards_per_client must be given"),
    (
        {"kind": "pathological", "classes_per_client": None, "shards_per_client": 30},
        "split.shards_per_client must be a whole number in 1..29 (1797 samples for 60 clients)",
    ),
    (
        {"kind": "dirichlet", "classes_per_client": None, "alpha": 1, "form": "draw"},
        "did you mean 'draws'?",
    ),
    (
        {"kind": "dirichlet", "classes_per_client": None, "alpha": 1, "samples_per_client": 9},
        "split.samples_per_client is for form=draws",
    ),
    (
        {
            **{"kind": "dirichlet", "classes_per_client": None, "alpha": 1, "form": "draws"},
            "samples_per_client": 30,
        },
        "split.samples_per_client must be a whole number in 2..29",
    ),
    ({"kind": "coarse", "classes_per_client": None}, "needs data with superclasses"),
    ({"kind": "iid", "classes_per_client": None, "min_samples": 40}, "in 1..44"),
    ({"kind": "environment", "clients": 900}, "split.clients must be a whole number in 1..898"),
    ({"kind": "environment", "clients": 890, "novel": 0.5}, "training clients leave 0 samples"),
    ({"kind": "environment", "classes_per_client": 11}, "in 1..10"),
    ({"kind": "environment", "samples_per_client": 5}, "multiple of classes_per_client=2, got 5"),
    ({"kind": "environment", "samples_per_client": 900}, "split.samples_per_client must be a"),
    ({"kind": "environment", "held_out": 1.0}, "split.held_out: must be less than 1, got 1.0"),
    ({"kind": "environment", "novel": 5, "held_out": 0.001}, "leave 0 samples of some class"),
    (
        {"kind": "environment", "min_samples": 5},
        "split.min_samples is no setting of",
    ),
    ({"kind": "natural", "classes_per_client": None}, "needs data with an array client"),
    ({"kind": "natural", "classes_per_client": None, "reserve": 0.2}, "split.reserve must be 0"),
]


@pytest.mark.parametrize(("change", "words"), IMPOSSIBLE)
def test_impossible_splits_are_refused_in_one_line(change, words):
    options = {"kind": "by_class", "clients": 60, "classes_per_client": 2} | change
    with pytest.raises(InputError) as caught:
        make_split(DIGITS, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_extrapolation_without_a_reserve_is_refused():
    split = make_split(DIGITS, kind="by_class", clients=60, classes_per_client=2)
    with pytest.raises(InputError, match=r"split\.reserve must be above 0"):
        deal_extrapolated(DIGITS, split, alpha=0.1, seed=0, n_clients=12)
    split = make_split(DIGITS, kind="by_class", clients=60, classes_per_client=2, reserve=0.05)
    with pytest.raises(InputError, match="at least 4 for each client"):
        deal_extrapolated(DIGITS, split, alpha=0.1, seed=0, n_clients=50)


def test_every_kind_says_what_it_is():
    for kind in SPLITS.values():
        assert kind.description
        assert "\n" not in kind.description
