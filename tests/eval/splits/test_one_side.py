"""No client is on both sides of a split, however it is spelt, and no sample in any kind."""

import numpy as np
import pandas as pd
import pytest
from doors import arrays, tables

from latecomer.errors import InputError
from latecomer.eval.datasets import make_dataset
from latecomer.eval.datasets.from_objects import clients_from
from latecomer.eval.splits.build import make_split
from latecomer.eval.splits.registry import SPLITS

SPELT = ("c{:02d}", "c{:02d} ", "\u00a0c{:02d}", "c{:02d}\u200b", "\ufeffc{:02d}\t")
OPTIONS = {
    "natural": {},
    "by_class": {"classes_per_client": 2},
    "pathological": {"shards_per_client": 2},
    "dirichlet": {"alpha": 1.0},
    "coarse": {},
    "iid": {},
    "environment": {"classes_per_client": 2, "held_out": 0.5},
    "client_types": {"types": [[0, 1], [2, 3]], "weights": [0.5, 0.5], "held_out": 0.5},
    "client_mixtures": {"concentrations": [1.0, 1.0, 1.0, 1.0], "held_out": 0.5},
}


def samples():
    """Twenty clients with thirty samples each, whose ids are written in five ways."""
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(20), 30)
    names = [SPELT[i % 5].format(one) for i, one in enumerate(owner)]
    frame = pd.DataFrame({"a": rng.normal(size=600), "b": rng.normal(size=600)})
    return frame.assign(label=rng.integers(0, 4, 600), client=names), owner


def test_a_client_is_on_one_side_however_it_is_spelt(tmp_path):
    frame, owner = samples()
    for door, make in (*tables(frame, tmp_path), *arrays(frame, tmp_path)):
        data = make()
        assert (door, len(data.client_names)) == (door, 20)
        for seed in range(3):
            split = make_split(data, kind="natural", certify=5, novel=5, seed=seed)
            sides = [
                {int(owner[row]) for client in group for row in client.rows("all")}
                for group in (split.seen, split.certification, split.novel)
            ]
            assert [len(side) for side in sides] == [10, 5, 5]
            assert len(set.union(*sides)) == 20


@pytest.mark.parametrize("kind", SPLITS)
def test_a_sample_is_on_one_side_in_every_kind_of_split(kind):
    frame, owner = samples()
    x, y, client = frame[["a", "b"]].to_numpy(), frame.label.to_numpy(), list(frame.client)
    data = make_dataset("made", x, y, client=np.array(client), coarse=y // 2, provenance="")
    clients = None if SPLITS[kind].natural else 10
    split = make_split(data, kind=kind, clients=clients, certify=2, novel=2, **OPTIONS[kind])
    trained = {int(row) for client in split.seen for row in client.rows("all")}
    others = (*split.certification, *split.novel)
    held = {int(row) for client in others for row in client.rows("all")}
    assert len(others) == 4
    assert trained
    assert trained.isdisjoint(held)
    if SPLITS[kind].natural:
        assert {owner[row] for row in trained}.isdisjoint({owner[row] for row in held})


def test_a_split_that_finds_fewer_clients_says_which_became_one():
    frame, _ = samples()
    with pytest.raises(InputError, match=r"leave no seen client: 15 . 5 of 20 .*are one client"):
        make_split(clients_from(frame), kind="natural", certify=15, novel=5)
