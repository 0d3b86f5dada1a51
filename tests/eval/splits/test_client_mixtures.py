"""Clients of a Dirichlet law: what they hold, and how far other Dirichlet laws are."""

import numpy as np
import pytest
from doors import refusal
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import beta

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset, make_dataset
from latecomer.eval.shifts.populations import shifted_populations
from latecomer.eval.splits.build import label_counts, make_split
from latecomer.eval.splits.further_clients import draw_from_other_law
from latecomer.eval.splits.kinds.independent import dirichlet_distances

DIGITS = load_dataset({"name": "digits"})
FIRST = [0.3] * 10
ASKED = {"kind": "client_mixtures", "clients": 30, "certify": 8, "novel": 6, "held_out": 0.4}
ASKED |= {"concentrations": FIRST}


def drawn(split, other, n_clients=2, data=DIGITS):
    law = {"name": "concentrations", "other": other}
    return draw_from_other_law(data, split, **law, seed=1, n_clients=n_clients)


@pytest.mark.parametrize("publisher", [False, True])
def test_clients_hold_equally_many_samples_and_none_of_the_training_clients(publisher):
    rng = np.random.default_rng(0)
    test = rng.random(len(DIGITS)) < 0.3 if publisher else None
    data = make_dataset("d", DIGITS.x, DIGITS.y, provenance="", test=test)
    split = make_split(data, **ASKED)
    trained = np.concatenate([client.rows("all") for client in split.seen])
    assert len(np.unique(trained)) == len(trained)
    other = drawn(split, [5.0] * 10, 5, data)
    for client in (*split.certification, *split.novel, *other):
        own = client.rows("all")
        assert not np.isin(own, trained).any()
        assert len(np.unique(own)) == len(own)
    assert len({len(client.rows("all")) for client in (*split.clients, *other)}) == 1
    if publisher:
        assert all(data.test[client.query].all() for client in split.clients)
    asked = make_split(data, **ASKED, samples_per_client=20)
    assert asked.novel[0].rows("all").size >= 20


@pytest.mark.parametrize("concentrations", [FIRST, [4.0, 2.0, *[0.25] * 8]])
def test_labels_are_those_of_the_law(concentrations):
    """Counts of a class are beta-binomial: mean and variance, each within five standard errors."""
    split = make_split(DIGITS, **ASKED)
    n, size = 3000, split.law.train
    counts = label_counts(DIGITS.y, drawn(split, concentrations, n), 10)
    total = sum(concentrations)
    mean = size * np.array(concentrations) / total
    variance = mean * (1 - mean / size) * (total + size) / (total + 1)
    assert (abs(counts.mean(axis=0) - mean) < 5 * np.sqrt(variance / n)).all()
    assert counts.var(axis=0) == pytest.approx(variance, rel=0.2)


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


def test_another_populations_severity_is_its_divergence():
    split, laws = make_split(DIGITS, **ASKED), {"concentrations": [[1.0] * 10]}
    (made,) = shifted_populations(DIGITS, split, laws, seed=0, query=0.25, validation=0.2)
    assert made.severity == dirichlet_distances(FIRST, [1.0] * 10)["kl"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"concentrations": [1.0] * 9}, "must list one number a class (10), got 9"),
        ({"concentrations": [1.0]}, "split: must list at least 2 classes, got 1"),
        ({"concentrations": [0.0] * 10}, "split: must list numbers from 0.001 to 1e+06, got 0"),
        ({"concentrations": [1.0] * 9 + [-2.0]}, "numbers from 0.001 to 1e+06, got -2"),
        ({"samples_per_client": 500}, "split.samples_per_client must be"),
        ({"clients": 800}, "split.clients: every client can hold"),
        ({"alpha": 1.0}, "split.alpha is no setting of split.kind=client_mixtures"),
    ],
)
def test_mistakes_are_said_in_one_line(changed, said):
    assert said in refusal(make_split, DIGITS, **{**ASKED, **changed})


def test_another_law_must_be_of_the_splits_kind():
    plain = make_split(DIGITS, kind="environment", clients=20, novel=5, classes_per_client=2)
    assert "needs split.kind client_mixtures" in refusal(drawn, plain, FIRST)
    with pytest.raises(InputError, match=r"must list one number a class \(10\), got 1"):
        drawn(make_split(DIGITS, **ASKED), [1.0])
