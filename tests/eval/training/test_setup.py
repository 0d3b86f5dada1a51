"""What a cell's configuration sets up."""

from pathlib import Path

import pytest

from latecomer.errors import InputError
from latecomer.eval.settings.cell import TrainingCell
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training.setup import setup_of

STUDY = {
    "study": "setups",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 24, "novel": 6, "classes_per_client": 2},
    "methods": ["fedrep"],
    "seeds": [0],
}


@pytest.mark.parametrize(
    ("path", "together"), [("auto", False), ("serial", False), ("vectorised", True)]
)
def test_newcomers_train_as_cohorts_do(path: str, together: bool) -> None:
    study = parse_study({**STUDY, "train": {"rounds": 1, "cohort": 2, "path": path}})
    cell = study.cells()[1].settings
    assert isinstance(cell, TrainingCell)
    assert setup_of(cell).task.together is together


@pytest.mark.parametrize("path", ["serial", "vectorised"])
def test_methods_of_a_study_share_what_is_computed_of_its_clients(path: str) -> None:
    """Constants of a shifted group, for one, are kept by federation and task."""
    study = parse_study(
        {
            **STUDY,
            "methods": ["fedrep", "fedavg"],
            "train": {"rounds": 1, "cohort": 2, "path": path},
        }
    )
    first, second = (setup_of(cell.settings) for cell in study.cells()[1:])
    assert first.federation is second.federation
    assert first.task is second.task


@pytest.mark.parametrize("place", ["data_hash", "method_source"])
def test_what_changed_since_the_run_was_planned_is_refused(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = (
        "from dataclasses import dataclass\nfrom latecomer.models.methods.fedavg import FedAvg\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Own(FedAvg):\n    name = 'own'\n"
    )
    (tmp_path / "own.py").write_text(own)
    study = parse_study({**STUDY, "methods": ["own.py:Own"], "train": {"rounds": 1, "cohort": 2}})
    planned = setup_of(study.cells()[1].settings).federation.data_hash
    cell = study.cells(planned)[1].settings
    assert isinstance(cell, TrainingCell)
    setup_of(cell)
    if place == "data_hash":
        cell = cell.model_copy(update={"data_hash": "another"})
    else:
        (tmp_path / "own.py").write_text(own + "# another\n")
    with pytest.raises(InputError, match="changed since this run was planned"):
        setup_of(cell)
