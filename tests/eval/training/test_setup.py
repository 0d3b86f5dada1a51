"""What a cell's configuration sets up."""

import pytest

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
