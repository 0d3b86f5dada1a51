"""A study of three rounds on each reader's small file."""

import pandas as pd
import pytest

from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.results.rows import make_row

BY_CLASS = {"kind": "by_class", "clients": 6, "classes_per_client": 2}
NATURAL = {"kind": "natural"}
SPLITS = {
    "cifar10": BY_CLASS,
    "cifar10-binary": BY_CLASS,
    "cifar100": {"kind": "by_class", "clients": 10, "classes_per_client": 10},
    "cifar100-binary": {"kind": "by_class", "clients": 10, "classes_per_client": 10},
    "mnist": BY_CLASS,
    "fashion_mnist": {"kind": "dirichlet", "clients": 6, "alpha": 10.0},
    "stl10": BY_CLASS,
    "femnist": NATURAL,
    "omniglot": NATURAL,
    "omniglot-zip": NATURAL,
    "inaturalist": NATURAL,
    "landmarks": NATURAL,
    "yahoo_answers": NATURAL,
}


@pytest.mark.parametrize("kind", SPLITS)
def test_three_rounds(kind, small_files, tmp_path):
    rounds = []
    config = {
        "study": "smoke",
        "kind": "method",
        "data": small_files(kind, tmp_path),
        "split": {"seed": 0, "query": 0.25, "validation": 0.0, "novel": 1} | SPLITS[kind],
        "model": {"target": "auto", "encoder": "auto", "hypernetwork": {"hidden": 1, "width": 8}},
        "method": {"name": "pefll", "label": "pefll"},
        "train": {"rounds": 3, "cohort": 2, "local_steps": 2, "batch_size": 4},
        "evaluation": {"classes": "all"},
        "shifts": {},
        "bounds": [],
        "certificates": [],
        "seed": 0,
    }
    outcome = evaluate_cell(config, rounds.append)
    assert [log.round for log in rounds] == [0, 1, 2]
    rows = pd.DataFrame([make_row(**row) for row in outcome.rows])
    novel = rows[(rows.group == "novel") & (rows.metric == "error") & (rows.client != "")]
    assert len(novel) == 1
    assert novel.value.astype(float).between(0, 1).all()
