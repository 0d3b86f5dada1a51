"""A study with target networks of several sizes, from its file to accuracy by size."""

import numpy as np
import pandas as pd
import pytest
import yaml

from latecomer.errors import InputError
from latecomer.eval.results.rows import load_run
from latecomer.eval.runs.runner import run
from latecomer.eval.studies.loading import load_study

STUDY = yaml.safe_load("""
study: sizes
data: {name: npz, path: own.npz}
split: {kind: by_class, clients: 12, certify: 3, novel: 3, classes_per_client: 2}
model: {hypernetwork: {hidden: 1, width: 8}}
methods:
- fedavg
- {name: pfedhn, sizes: [lenet-s, lenet], novel_rounds: 1, novel_steps: 2}
- {name: pfl_ensemble, sizes: [lenet-s, lenet, lenet-l]}
train: {rounds: 2, cohort: 3, local_steps: 2, batch_size: 4}
bounds: [pfedhn_eps]
""")


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    y = np.arange(240) % 4
    x = (60 * y[:, None, None] + draw.integers(0, 60, (240, 18, 18))).astype(np.uint8)
    np.savez(tmp_path / "own.npz", x=x, y=y)

    def save(**sections):
        (tmp_path / "own.yaml").write_text(yaml.safe_dump({**STUDY, **sections}))
        return load_study(tmp_path / "own.yaml")

    return save


@pytest.mark.slow
def test_a_study_of_sizes_tells_accuracy_by_size(write, tmp_path, here):
    result = run(write(), out=tmp_path / "out", executor=here)
    assert (result.n_done, result.n_failed) == (4, 0)
    record = load_run(tmp_path / "out")
    found = {
        a.cell: pd.DataFrame(a.load().table) for a in record.artifacts if a.kind == "target_sizes"
    }
    labels = {cell.id: cell.config["method"] for cell in record.cells}
    by_label = {labels[cell]["label"]: (cell, table) for cell, table in found.items()}
    # A method without sizes has no such artifact.
    assert set(by_label) == {"pfedhn", "pfl_ensemble"}
    cell, table = by_label["pfedhn"]
    assert table.groupby("group").size().to_dict() == {"seen": 6, "certification": 3, "novel": 3}
    seen = table[table.group == "seen"]
    assert seen.target.tolist() == ["lenet-s", "lenet"] * 3
    # 18 pixels: 16 or 32 channels of 1 x 1 reach the dense layers.
    small = 208 + 3216 + (16 * 120 + 120) + (120 * 84 + 84) + (84 * 4 + 4)
    large = 416 + 12_832 + (32 * 120 + 120) + (120 * 84 + 84) + (84 * 4 + 4)
    assert seen.weights.tolist() == [small, large] * 3
    assert set(table[table.group != "seen"].target) == {"lenet"}
    rows = record.rows[(record.rows.cell == cell) & (record.rows.metric == "error")]
    rows = rows[rows.client != ""].astype({"client": int, "value": float})
    joined = rows.merge(table.astype({"client": int}), on=["group", "client"], validate="m:1")
    assert len(joined) == len(rows) == 12
    by_size = joined[joined.group == "seen"].groupby("target").value.agg(["size", "mean"])
    assert by_size["size"].to_dict() == {"lenet-s": 3, "lenet": 3}
    _, table = by_label["pfl_ensemble"]
    assert table[table.group == "seen"].target.tolist() == ["lenet-s", "lenet", "lenet-l"] * 2
    assert set(table[table.group == "novel"].target) == {""}
    bound = record.rows[(record.rows.bound == "pfedhn_eps") & (record.rows.term == "")]
    assert set(bound.cell) == {cell}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "pfedhn", "sizes": ["lenet", "lenet-xl"]}, "methods.0: sizes must be a list of "),
        ({"name": "pfedhn", "sizes": ["small", "lenet"]}, "methods.0: sizes must be nets of which"),
        (
            {"name": "pfedhn", "sizes": "lenet"},
            "methods.0: sizes must be a list of different names",
        ),
        ({"name": "pfedhn", "novel_size": "lenet"}, "methods.0: novel_size must be largest, "),
        ({"name": "pefll", "sizes": ["lenet"]}, "methods.0: pefll has no hyper-parameter 'sizes'"),
        ({"name": "pfl_nearest", "novel_size": "lenet"}, "methods.0: pfl_nearest has no hyper-"),
    ],
)
def test_mistakes_are_one_line(write, entry, message):
    with pytest.raises(InputError) as caught:
        write(methods=[entry])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
