"""Clients drawn from a law of known parameters, types or a Dirichlet: what they hold, how far."""

import numpy as np
import pytest
from doors import refusal
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import beta

from latecomer.eval.datasets import load_dataset, make_dataset
from latecomer.eval.shifts.populations import shifted_populations
from latecomer.eval.splits.build import label_counts, make_split
from latecomer.eval.splits.further_clients import draw_from_other_law
from latecomer.eval.splits.kinds.independent import dirichlet_distances, distances
from latecomer.eval.splits.registry import IID_SPLITS, sampling_of

DIGITS = load_dataset({"name": "digits"})
TYPES = [[0, 1], [2, 3, 4], [5, 6, 7, 8, 9]]
WEIGHTS = [0.5, 0.3, 0.2]
FIRST = [0.3] * 10
SIZES = {"clients": 30, "certify": 8, "novel": 6, "held_out": 0.4}
BY_TYPES = {"kind": "client_types", **SIZES, "types": TYPES, "weights": WEIGHTS}
MIXED = {"kind": "client_mixtures", **SIZES, "concentrations": FIRST}


def drawn(split, name, other, n_clients=2, data=DIGITS):
    return draw_from_other_law(data, split, name=name, other=other, seed=1, n_clients=n_clients)


def types_of(clients, data=DIGITS):
    held = label_counts(data.y, clients, 10) > 0
    return [TYPES.index(np.flatnonzero(one).tolist()) for one in held]


def sizes_of(split, other, data):
    """Return what is the same for all clients: samples of each class of a type, or of all."""
    counts = label_counts(data.y, (*split.clients, *other), 10)
    return counts[counts > 0] if split.kind == "client_types" else counts.sum(axis=1)


@pytest.mark.parametrize("publisher", [False, True])
@pytest.mark.parametrize(
    ("asked", "shift", "law", "size"),
    [
        (BY_TYPES, "type_weights", [0, 0, 1], {"samples_per_class": 3}),
        (MIXED, "concentrations", [5.0] * 10, {"samples_per_client": 20}),
    ],
)
def test_clients_hold_equally_much_and_share_nothing_with_training(
    asked, shift, law, size, publisher
):
    rng = np.random.default_rng(0)
    test = rng.random(len(DIGITS)) < 0.3 if publisher else None
    data = make_dataset("d", DIGITS.x, DIGITS.y, provenance="", test=test)
    split = make_split(data, **asked)
    trained = np.concatenate([client.rows("all") for client in split.seen])
    assert len(np.unique(trained)) == len(trained)
    other = drawn(split, shift, law, 5, data)
    for client in (*split.certification, *split.novel, *other):
        own = client.rows("all")
        assert not np.isin(own, trained).any()
        assert len(np.unique(own)) == len(own)
    assert len(np.unique(sizes_of(split, other, data))) == 1
    assert len({client.id for client in (*split.clients, *other)}) == 35
    if publisher:
        assert all(data.test[client.query].all() for client in split.clients)
    rows = make_split(data, **asked, **size).novel[0].rows("all")
    trains = rows[~data.test[rows]] if publisher else rows
    if asked is BY_TYPES:
        assert set(types_of(other, data)) == {2}
        assert np.bincount(data.y[trains]).max() == 3
    else:
        assert len(trains) == 20


@pytest.mark.parametrize("weights", [WEIGHTS, [0.1, 0.2, 0.7]])
def test_types_are_drawn_by_the_weights(weights):
    many = drawn(make_split(DIGITS, **BY_TYPES), "type_weights", weights, 1500)
    found = np.bincount(types_of(many), minlength=3)
    expected = 1500 * np.array(weights)
    # Chi-square of 2 degrees: above 18.4 with probability 1e-4.
    assert ((found - expected) ** 2 / expected).sum() < 18.4


@pytest.mark.parametrize("concentrations", [FIRST, [4.0, 2.0, *[0.25] * 8]])
def test_labels_are_those_of_the_law(concentrations):
    """Counts of a class are beta-binomial: mean and variance, each within five standard errors."""
    split = make_split(DIGITS, **MIXED)
    n, size = 3000, split.law.train
    counts = label_counts(DIGITS.y, drawn(split, "concentrations", concentrations, n), 10)
    total = sum(concentrations)
    mean = size * np.array(concentrations) / total
    variance = mean * (1 - mean / size) * (total + size) / (total + 1)
    assert (abs(counts.mean(axis=0) - mean) < 5 * np.sqrt(variance / n)).all()
    assert counts.var(axis=0) == pytest.approx(variance, rel=0.2)


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


@pytest.mark.slow
@given(pair=st.lists(st.tuples(st.floats(0.2, 20), st.floats(0.2, 20)), min_size=2, max_size=6))
def test_distances_bound_one_another(pair):
    first, other = (list(side) for side in zip(*pair, strict=True))
    found = dirichlet_distances(first, other)
    assert 0 <= found["tv"] <= 1
    # Between laws that nearly agree both are roots of rounding errors of about 1e-14.
    assert found["tv"] <= np.sqrt(found["kl"] / 2) + 1e-6
    if "chi2" in found:
        assert found["kl"] <= np.log1p(found["chi2"]) + 1e-8
    if "subgroup" in found:
        assert "chi2" in found
        assert np.log1p(found["chi2"]) <= -np.log(found["subgroup"]) + 1e-8
    assert dirichlet_distances(first, first) == {"kl": 0, "tv": 0, "chi2": 0, "subgroup": 1}


@pytest.mark.parametrize(
    ("first", "other"), [((1, 1), (2, 1)), ((1.5, 2), (2.5, 3)), ((3, 2), (2, 4)), ((5, 5), (4, 4))]
)
def test_distances_are_the_integrals_that_they_stand_for(first, other):
    """Of two classes the law is a beta law: quadrature knows nothing of the closed forms."""
    p, q = beta(*first).pdf, beta(*other).pdf

    def over(function):
        return integrate.quad(function, 0, 1, limit=200)[0]

    found = dirichlet_distances(first, other)
    kl = over(lambda x: q(x) * np.log(q(x) / p(x)) if 0 < x < 1 else 0.0)
    assert found["kl"] == pytest.approx(kl, rel=1e-6)
    assert found["chi2"] == pytest.approx(over(lambda x: q(x) ** 2 / p(x)) - 1, rel=1e-6)
    tv = over(lambda x: abs(q(x) - p(x))) / 2
    assert tv <= found["tv"] <= 1.5 * tv
    grid = np.linspace(0, 1, 100_001)[1:-1]
    ratio = (q(grid) / p(grid)).max()
    if "subgroup" in found:
        assert 1 / found["subgroup"] == pytest.approx(ratio, rel=1e-4)
    else:
        assert min(o - f for f, o in zip(first, other, strict=True)) < 0


def test_what_is_infinite_is_left_out():
    assert set(dirichlet_distances([4.0, 1.0], [1.0, 1.0])) == {"kl", "tv"}
    assert set(dirichlet_distances([4.0, 1.0], [3.0, 1.0])) == {"kl", "tv", "chi2"}


@pytest.mark.parametrize(
    ("asked", "shift", "law", "kl"),
    [
        (BY_TYPES, "type_weights", [0.2, 0.3, 0.5], distances(WEIGHTS, [0.2, 0.3, 0.5])["kl"]),
        (MIXED, "concentrations", [1.0] * 10, dirichlet_distances(FIRST, [1.0] * 10)["kl"]),
    ],
)
def test_another_populations_severity_is_its_divergence(asked, shift, law, kl):
    split = make_split(DIGITS, **asked)
    (made,) = shifted_populations(DIGITS, split, {shift: [law]}, seed=0, query=0.25, validation=0.2)
    assert made.severity == kl


def test_other_weights_are_another_split():
    plain, other = (
        make_split(DIGITS, **BY_TYPES | {"weights": w}) for w in (WEIGHTS, WEIGHTS[::-1])
    )
    assert plain.content_hash != other.content_hash


def test_its_clients_are_independent():
    assert {"environment", "client_types", "client_mixtures"} == IID_SPLITS
    assert {sampling_of(kind) for kind in IID_SPLITS} == {"iid"}


MISTAKES = {
    "client_types": [
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
    "client_mixtures": [
        ({"concentrations": [1.0] * 9}, "must list one number a class (10), got 9"),
        ({"concentrations": [1.0]}, "split: must list at least 2 classes, got 1"),
        ({"concentrations": [0.0] * 10}, "split: must list numbers from 0.001 to 1e+06, got 0"),
        ({"concentrations": [1.0] * 9 + [-2.0]}, "numbers from 0.001 to 1e+06, got -2"),
        ({"samples_per_client": 500}, "split.samples_per_client must be"),
        ({"clients": 800}, "split.clients: every client can hold"),
        ({"alpha": 1.0}, "split.alpha is no setting of split.kind=client_mixtures"),
    ],
}


@pytest.mark.parametrize("asked", [BY_TYPES, MIXED], ids=MISTAKES)
def test_mistakes_are_said_in_one_line(asked):
    for changed, said in MISTAKES[asked["kind"]]:
        assert said in refusal(make_split, DIGITS, **asked | changed)


@pytest.mark.parametrize(
    ("asked", "shift", "said"),
    [
        (BY_TYPES, "type_weights", "must list one weight a type (3), got 1"),
        (MIXED, "concentrations", "must list one number a class (10), got 1"),
    ],
)
def test_another_law_must_be_of_the_splits_kind(asked, shift, said):
    plain = make_split(DIGITS, kind="environment", clients=20, novel=5, classes_per_client=2)
    assert f"needs split.kind {asked['kind']}" in refusal(drawn, plain, shift, [1.0] * 10)
    assert said in refusal(drawn, make_split(DIGITS, **asked), shift, [1.0])
