"""Independent clients: who may share what, and whether held-out scores are like fresh ones."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scipy import stats

from latecomer.bounds.held_out.losses import product
from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset, make_dataset
from latecomer.eval.splits.build import label_counts, make_split
from latecomer.eval.splits.dealing import generator
from latecomer.eval.splits.further_clients import drawn_clients

DIGITS = load_dataset({"name": "digits"})


def fresh_of(split, n_clients, seed, data=DIGITS):
    """Draw new clients from the law of the certified and new ones."""
    rng, first = generator(seed, "fresh clients"), 1 + max(one.id for one in split.clients)
    return drawn_clients(data, split.law, n_clients, first, 0.25, 0.2, rng)


def small(seed, **given):
    """Split by class sets of two, twenty training samples a client."""
    asked = {"kind": "environment", "classes_per_client": 2, "samples_per_client": 20, **given}
    return make_split(DIGITS, seed=seed, **asked)


def rows_of(clients):
    return np.concatenate([client.rows("all") for client in clients])


@settings(max_examples=60, deadline=None)
@given(
    clients=st.integers(2, 30),
    held_out=st.integers(1, 12),
    per_client=st.integers(1, 6),
    seed=st.integers(0, 20),
    publisher=st.booleans(),
    reserve=st.sampled_from([0.0, 0.2]),
)
def test_training_clients_share_nothing_with_anybody(
    clients, held_out, per_client, seed, publisher, reserve
):
    rng = np.random.default_rng(2)
    data = make_dataset(
        "toy",
        np.zeros((900, 1)),
        rng.integers(0, 6, 900),
        provenance="",
        test=rng.random(900) < 0.3 if publisher else None,
    )
    try:
        split = make_split(
            data,
            kind="environment",
            clients=clients,
            certify=held_out // 2,
            novel=held_out - held_out // 2,
            classes_per_client=per_client,
            seed=seed,
            reserve=reserve,
        )
    except InputError:
        reject()
    trained = rows_of(split.seen)
    assert len(np.unique(trained)) == len(trained)
    fresh = fresh_of(split, 5, seed, data)
    others = (*split.certification, *split.novel, *fresh)
    assert not np.isin(rows_of(others), trained).any()
    if reserve:
        reserved = np.concatenate(split.reserve)
        assert not np.isin(rows_of((*others, *split.seen)), reserved).any()
    sizes = {(len(c.support), len(c.validation), len(c.query)) for c in (*split.seen, *others)}
    assert len(sizes) == 1, "all clients have the same law, so the same sizes"
    for client in (*split.seen, *others):
        held = client.rows("all")
        assert len(np.unique(held)) == len(held), "no leak from support to query"
        counts = np.bincount(data.y[held])
        assert (counts > 0).sum() == per_client
        if publisher:
            assert data.test[client.query].all()
            assert not data.test[client.support].any()
    assert len({c.id for c in (*split.seen, *others)}) == clients + 5


def test_class_sets_are_uniform_over_all_sets():
    split = make_split(DIGITS, kind="environment", clients=30, novel=5, classes_per_client=2)
    many = fresh_of(split, 4500, 1)
    counts = label_counts(DIGITS.y, many, 10) > 0
    codes, found = np.unique(counts @ (1 << np.arange(10)), return_counts=True)
    assert len(codes) == 45
    # Chi-square of 44 degrees: mean 44, standard deviation 9.4.
    assert ((found - 100) ** 2 / 100).sum() < 44 + 4 * 9.4


def scores(clients):
    """Score clients by a rule fixed beforehand: share of query images in a class's dark half."""
    return np.array([np.mean(dark()[client.query]) for client in clients])


@cache
def dark():
    """Which images have more ink than is typical of another class."""
    ink = DIGITS.x.reshape(len(DIGITS.x), -1).mean(axis=1)
    typical = np.array([np.median(ink[DIGITS.y == c]) for c in range(10)])
    return ink > typical[DIGITS.y - 1]


@pytest.mark.slow
def test_scores_of_held_out_clients_are_exchangeable_with_fresh_ones():
    # Rank of one held-out score among nine fresh ones: uniform if they are exchangeable, whatever
    # the law. Splits are made anew, so the ranks are independent; ties are broken at random.
    rng = np.random.default_rng(0)
    ranks = {"certification": np.zeros(10), "novel": np.zeros(10)}
    for seed in range(400):
        split = small(seed, clients=12, certify=1, novel=1, held_out=0.3)
        fresh = scores(fresh_of(split, 9, 1000 + seed))
        for name in ranks:
            own = scores(getattr(split, name))[0]
            below = int((fresh < own).sum())
            ranks[name][below + rng.integers(0, (fresh == own).sum() + 1)] += 1
    for found in ranks.values():
        assert stats.chisquare(found).pvalue > 1e-3


@pytest.mark.slow
def test_held_out_clients_are_independent_of_each_other():
    # In a finite pool of clients two scores are negatively dependent; independent draws are not.
    pairs = []
    for seed in range(600):
        split = small(seed, clients=12, novel=2, held_out=0.3)
        pairs.append(scores(split.novel))
    assert abs(stats.pearsonr(*np.transpose(pairs)).statistic) < 4 / np.sqrt(600)


@pytest.mark.slow
def test_a_certificate_covers_the_mean_of_fresh_clients():
    # Nominal failure probability 0.1; product bound on 20 clients, 200 splits.
    missed = 0
    for seed in range(200):
        split = small(seed, clients=30, certify=20, held_out=0.5)
        bound = float(product(losses=scores(split.certification), delta=0.1))
        missed += scores(fresh_of(split, 200, seed)).mean() > bound
    assert missed <= stats.binom.ppf(0.999, 200, 0.1)
