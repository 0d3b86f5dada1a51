"""Clients of types: who holds what, how types are drawn, and how far populations are apart."""

import numpy as np
import pytest
from doors import refusal
from hypothesis import given
from hypothesis import strategies as st

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset, make_dataset
from latecomer.eval.shifts.populations import shifted_populations
from latecomer.eval.splits.build import label_counts, make_split
from latecomer.eval.splits.further_clients import draw_from_other_law
from latecomer.eval.splits.kinds.independent import distances
from latecomer.eval.splits.registry import IID_SPLITS, sampling_of

DIGITS = load_dataset({"name": "digits"})
TYPES = [[0, 1], [2, 3, 4], [5, 6, 7, 8, 9]]
WEIGHTS = [0.5, 0.3, 0.2]
ASKED = {"kind": "client_types", "clients": 30, "certify": 8, "novel": 6, "held_out": 0.4}
ASKED |= {"types": TYPES, "weights": WEIGHTS}


def reweighted(split, weights, n_clients=2, data=DIGITS):
    law = {"name": "type_weights", "other": weights}
    return draw_from_other_law(data, split, **law, seed=1, n_clients=n_clients)


def types_of(clients, data=DIGITS):
    held = label_counts(data.y, clients, 10) > 0
    return [TYPES.index(np.flatnonzero(one).tolist()) for one in held]


@pytest.mark.parametrize("publisher", [False, True])
def test_clients_hold_their_types_classes_alike_and_share_nothing_with_training(publisher):
    rng = np.random.default_rng(0)
    test = rng.random(len(DIGITS)) < 0.3 if publisher else None
    data = make_dataset("d", DIGITS.x, DIGITS.y, provenance="", test=test)
    split = make_split(data, **ASKED)
    trained = np.concatenate([client.rows("all") for client in split.seen])
    assert len(np.unique(trained)) == len(trained)
    other = reweighted(split, [0, 0, 1], 5, data)
    assert set(types_of(other, data)) == {2}
    for client in (*split.certification, *split.novel, *other):
        assert not np.isin(client.rows("all"), trained).any()
    sizes = label_counts(data.y, (*split.clients, *other), 10)
    assert len(np.unique(sizes[sizes > 0])) == 1
    assert len({client.id for client in (*split.clients, *other)}) == 35
    if publisher:
        assert all(data.test[client.query].all() for client in split.clients)
    asked = make_split(data, **ASKED, samples_per_class=3)
    trains = asked.novel[0].rows("all")
    assert np.bincount(data.y[trains[~data.test[trains]] if publisher else trains]).max() == 3


@pytest.mark.parametrize("weights", [WEIGHTS, [0.1, 0.2, 0.7]])
def test_types_are_drawn_by_the_weights(weights):
    split = make_split(DIGITS, **ASKED)
    many = reweighted(split, weights, 1500)
    found = np.bincount(types_of(many), minlength=3)
    expected = 1500 * np.array(weights)
    # Chi-square of 2 degrees: above 18.4 with probability 1e-4.
    assert ((found - expected) ** 2 / expected).sum() < 18.4


@given(
    pair=st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=2, max_size=8).filter(
        lambda pair: sum(q for _, q in pair) > 0
    )
)
def test_distances_are_those_of_the_laws(pair):
    p, q = (np.array(side) / sum(side) for side in zip(*pair, strict=True))
    found = distances(p.tolist(), q.tolist())
    assert found["tv"] == pytest.approx(1 - np.minimum(p, q).sum())
    assert found["chi2"] == pytest.approx((q**2 / p).sum() - 1, abs=1e-9)
    assert (q <= p / found["subgroup"] + 1e-12).all()
    # Pinsker, and KL below ln(1 + chi2) below the largest ratio.
    assert 2 * found["tv"] ** 2 <= found["kl"] + 1e-12
    assert found["kl"] <= np.log1p(found["chi2"]) + 1e-12
    assert np.log1p(found["chi2"]) <= -np.log(found["subgroup"]) + 1e-12
    assert distances(p.tolist(), p.tolist()) == {"kl": 0, "tv": 0, "chi2": 0, "subgroup": 1}


def test_another_populations_severity_is_its_divergence():
    split, laws = make_split(DIGITS, **ASKED), {"type_weights": [[0.2, 0.3, 0.5]]}
    (made,) = shifted_populations(DIGITS, split, laws, seed=0, query=0.25, validation=0.2)
    assert made.severity == distances(WEIGHTS, [0.2, 0.3, 0.5])["kl"]
    other = make_split(DIGITS, **{**ASKED, "weights": [0.5, 0.2, 0.3]})
    assert other.content_hash != split.content_hash


def test_its_clients_are_independent():
    assert {"environment", "client_types", "client_mixtures"} == IID_SPLITS
    assert {sampling_of(kind) for kind in IID_SPLITS} == {"iid"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"types": [[0, 1]], "weights": [1.0]}, "split: must list at least 2 types, got 1"),
        ({"types": [[0, 1], [2, 2], [3]]}, "each class of a type once, got [2, 2]"),
        ({"types": [[0, 1], [], [3]]}, "each class of a type once, got []"),
        ({"types": [[0, 1], [1, 0], [3]]}, "tell types apart by their classes, got [0, 1] twice"),
        ({"types": [[0, 1], [2], [10]]}, "split.types must name classes that have samples"),
        ({"types": [[0, 1], [2], [-1]]}, "must be greater than or equal to 0, got -1"),
        ({"weights": [0.5, 0.5]}, "split: must list one weight a type (3), got 2"),
        ({"weights": [0.5, 0.5, 0.5]}, "that sum to 1, got [0.5, 0.5, 0.5]"),
        ({"weights": [1.2, -0.4, 0.2]}, "weights of at least 0"),
        ({"weights": [0.5, 0.5, 0.0]}, "must give every type a weight above 0, got 0"),
        ({"samples_per_class": 500}, "split.samples_per_class: every client can hold"),
        ({"clients": 800}, "split.clients: every client can hold"),
        ({"classes_per_client": 2}, "split.classes_per_client is no setting"),
    ],
)
def test_mistakes_are_said_in_one_line(changed, said):
    assert said in refusal(make_split, DIGITS, **{**ASKED, **changed})


def test_other_weights_need_types():
    plain = make_split(DIGITS, kind="environment", clients=20, novel=5, classes_per_client=2)
    assert "needs split.kind client_types" in refusal(reweighted, plain, [1.0])
    with pytest.raises(InputError, match=r"must list one weight a type \(3\), got 1"):
        reweighted(make_split(DIGITS, **ASKED), [1.0])
