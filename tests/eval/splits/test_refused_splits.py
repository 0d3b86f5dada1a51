"""What cannot be dealt is refused at once, in one line that says why."""

import time

import pytest
from doors import refusal

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.splits.build import deal_extrapolated, make_split

DIGITS = load_dataset({"name": "digits"})

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
    ({"kind": "dirichlet"}, "split.alpha must be given"),
    ({"kind": "dirichlet", "alpha": 0}, "split.alpha: must be greater than 0, got 0"),
    (
        {"kind": "dirichlet", "alpha": 1, "clients": 500},
        "in 1..449 (1797 samples, at least 4 for each client)",
    ),
    ({"kind": "dirichlet", "alpha": 0.001, "clients": 440}, "after 100 draws"),
    (
        {"shares": "unequal"},
        "split.shares: must be 'equal', 'uniform' or 'uniform_and_one_unused', got 'unequal'",
    ),
    ({"kind": "pathological"}, "shards_per_client must be given"),
    (
        {"kind": "pathological", "shards_per_client": 30},
        "split.shards_per_client must be a whole number in 1..29 (1797 samples for 60 clients)",
    ),
    ({"kind": "dirichlet", "alpha": 1, "form": "draw"}, "did you mean 'draws'?"),
    (
        {"kind": "dirichlet", "alpha": 1, "samples_per_client": 9},
        "split.samples_per_client is for form=draws",
    ),
    (
        {**{"kind": "dirichlet", "alpha": 1, "form": "draws"}, "samples_per_client": 30},
        "split.samples_per_client must be a whole number in 2..29",
    ),
    ({"kind": "coarse"}, "needs data with superclasses"),
    ({"kind": "iid", "min_samples": 40}, "in 1..44"),
    ({"kind": "environment", "clients": 900}, "split.clients must be a whole number in 1..898"),
    ({"kind": "environment", "clients": 890, "novel": 0.5}, "seen clients leave 0 samples"),
    ({"kind": "environment", "classes_per_client": 11}, "in 1..10"),
    ({"kind": "environment", "samples_per_client": 5}, "multiple of classes_per_client=2, got 5"),
    ({"kind": "environment", "samples_per_client": 900}, "split.samples_per_client must be a"),
    ({"kind": "environment", "held_out": 1.0}, "split.held_out: must be less than 1, got 1.0"),
    ({"kind": "environment", "novel": 5, "held_out": 0.001}, "leave 0 samples of some class"),
    ({"kind": "environment", "min_samples": 5}, "split.min_samples is no setting of"),
    ({"kind": "natural"}, "needs data with an array client"),
    ({"kind": "natural", "reserve": 0.2}, "split.reserve must be 0"),
]


@pytest.mark.parametrize(("change", "words"), IMPOSSIBLE)
def test_impossible_splits_are_refused_at_once_in_one_line(change, words):
    options = {"kind": "by_class", "clients": 60} | change
    if options["kind"] in ("by_class", "by_clas", None, "environment"):
        options = {"classes_per_client": 2} | options
    began = time.process_time()
    assert words in refusal(make_split, DIGITS, **options)
    assert time.process_time() - began < 2


def test_extrapolation_without_a_reserve_is_refused():
    split = make_split(DIGITS, kind="by_class", clients=60, classes_per_client=2)
    with pytest.raises(InputError, match=r"split\.reserve must be above 0"):
        deal_extrapolated(DIGITS, split, alpha=0.1, seed=0, n_clients=12)
    split = make_split(DIGITS, kind="by_class", clients=60, classes_per_client=2, reserve=0.05)
    with pytest.raises(InputError, match="at least 4 for each client"):
        deal_extrapolated(DIGITS, split, alpha=0.1, seed=0, n_clients=50)
