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


OWN = {
    "methods": (
        "mine.py:Own",
        "from dataclasses import dataclass\nfrom latecomer.models.methods.fedavg import FedAvg\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Own(FedAvg):\n    name = 'own'\n",
    ),
    "target": (
        "mine.py:net",
        "from torch import nn\ndef net(shape, n_out):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, n_out))\n",
    ),
    "encoder": (
        "mine.py:Mean",
        "from torch import nn\nclass Mean(nn.Module):\n"
        "    def __init__(self, shape, n_classes, dim):\n"
        "        super().__init__()\n        self.out = nn.Linear(64 + n_classes, dim)\n",
    ),
    "bounds": ("mine.py:bound", "def bound(losses, delta):\n    return 1.0\n"),
    "rule": ("mine.py:bound", "def bound(losses, delta):\n    return 1.0\n"),
    "checkpoint": (
        "mine.py:Served",
        "class Served:\n    def __init__(self, checkpoint):\n        pass\n"
        "    def __call__(self, x, y, new):\n        return new\n",
    ),
}

INDEPENDENT = {
    **{"kind": "client_types", "clients": 24, "certify": 4, "novel": 6},
    **{"types": [[0, 1], [2, 3]], "weights": [0.5, 0.5], "held_out": 0.5},
}


def planned_with(place: str) -> TrainingCell:
    own = OWN[place][0] if place in OWN else ""
    asked = {
        "methods": {"methods": [own]},
        "target": {"model": {"target": own}},
        "encoder": {"model": {"encoder": own}},
        "bounds": {"bounds": [own], "split": {**STUDY["split"], "certify": 4}},
        "rule": {"certificates": [{"rule": own}], "split": INDEPENDENT},
        "checkpoint": {
            "methods": [{"name": own, "needs_training": False, "checkpoint": "weights.txt"}]
        },
    }.get(place, {})
    study = parse_study({**STUDY, "train": {"rounds": 1, "cohort": 2}, **asked})
    data = setup_of(study.cells()[1].settings).federation.data_hash
    cell = study.cells(data)[1].settings
    assert isinstance(cell, TrainingCell)
    return cell


@pytest.mark.parametrize("place", ["data", *OWN])
def test_what_changed_since_the_run_was_planned_is_refused(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for own, text in [OWN[place]] if place in OWN else ():
        (tmp_path / own.partition(":")[0]).write_text(text)
    (tmp_path / "weights.txt").write_text("1")
    cell = planned_with(place)
    setup_of(cell)
    if place == "data":
        cell = cell.model_copy(update={"data_hash": "another"})
    else:
        changed = tmp_path / ("weights.txt" if place == "checkpoint" else "mine.py")
        changed.write_text(changed.read_text() + "# another\n")
    with pytest.raises(InputError, match="changed since this run was planned"):
        setup_of(cell)
