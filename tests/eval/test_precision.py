"""``train.precision``: a cell of its own where it is set, nothing at all where it is not."""

import pandas as pd
import pytest
import torch

from latecomer.errors import InputError
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.runs.directory import check_directory, declare
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import settled
from latecomer.eval.training.setup import budget_of

STUDY = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 30, "classes_per_client": 5, "novel": 10},
    "methods": [{"name": "fedavg", "local_lr": 0.05}],
    "train": {"rounds": 15, "cohort": 8, "local_steps": 8, "batch_size": 16},
}


def at(precision, **train):
    return parse_study({**STUDY, "train": {**STUDY["train"], "precision": precision, **train}})


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_float32_is_the_study_that_says_nothing():
    plain, ids = parse_study(STUDY), []
    assert plain.resolved() == at("float32").resolved()
    assert "precision" not in plain.resolved()["train"]
    for study in (plain, at("float32"), at("bf16"), at("tf32")):
        split, method = study.cells("x")
        assert split.id == plain.cells("x")[0].id
        ids.append(method.id)
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert budget_of(plain.train).precision is None
    assert budget_of(at("bf16").train).precision == "bf16"


def test_what_it_may_be():
    said = r"^train.precision: must be 'float32', 'bf16' or 'tf32', got 'fp16'"
    with pytest.raises(InputError, match=said):
        at("fp16")


@pytest.mark.parametrize("device", [None, "cpu", "auto"])
def test_a_cpu_has_no_tf32(no_gpu, device):
    with pytest.raises(InputError) as caught:
        settled(at("tf32", device=device))
    assert str(caught.value) == "train.precision must be float32 or bf16 on the CPU, got tf32"
    assert settled(at("bf16", device=device)).train.precision == "bf16"
    assert settled(at("tf32", device="auto"), gpus_elsewhere=1).train.precision == "tf32"


def test_a_directory_stays_at_its_precision(tmp_path):
    declare(tmp_path, at(None), at(None).cells("x"))
    check_directory(tmp_path, at("float32"))
    with pytest.raises(InputError) as caught:
        check_directory(tmp_path, at("bf16"))
    said = str(caught.value).split("; ")[1:]
    assert said == ['train.precision: "float32" there, "bf16" asked for']


@pytest.mark.slow
def test_digits_are_learnt_as_well_and_measured_in_float32():
    """Pooled accuracy within two standard errors of what so many test samples can tell."""
    found = []
    for precision in (None, "bf16"):
        rows = pd.DataFrame(evaluate_cell(at(precision).cells("")[1].config).rows)
        pooled = rows[(rows["metric"] == "error") & (rows["aggregation"] == "pooled")]
        found.append(pooled.set_index("group")[["value", "n_query"]].astype(float))
    for group in ("seen", "novel"):
        (exact, n), (rounded, _) = (table.loc[group] for table in found)
        assert exact < 0.4
        assert abs(rounded - exact) <= 2 * (exact * (1 - exact) / n) ** 0.5
