"""What a run says at its start: what ``auto`` stands for, and which networks nobody reads."""

import pytest

from latecomer.eval.runs.runner import _prepare
from latecomer.eval.studies.loading import load_study

ONE, ALL = "one after another", "all at once"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["model.target=auto"], [f"auto: network small, clients of a round train {ONE}"]),
        ([], [f"auto: clients of a round train {ALL} (fedavg) and {ONE} (fedem)"]),
        (["model.target=auto", "train.path=serial"], ["auto: network small"]),
        (["train.path=serial"], []),
    ],
)
def test_it_names_what_the_study_left_open(asked: list[str], told: list[str]) -> None:
    study = load_study("quickstart", ["methods=[fedavg, fedem]", "shifts={}", *asked])
    prepared = _prepare(study)
    lines = prepared.data.splitlines()
    assert [line for line in lines if line.startswith("auto: ")] == told
    assert prepared.found == ({"network": "small"} if "model.target=auto" in asked else {})


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["methods=[pefll]"], []),
        (
            ["model.encoder=label-linear", "methods=[fedavg]"],
            ["warning: model.encoder is read by no method of the study"],
        ),
        (
            ["model.encoder=label-linear", "methods=[fedavg, pefll]"],
            ["model.encoder is read by pefll alone"],
        ),
        (["model.encoder=label-linear", "methods=[pefll]"], []),
        (
            ["model.hypernetwork.width=5", "methods=[fedavg, odpfl_hn]"],
            ["model.hypernetwork is read by odpfl_hn alone"],
        ),
    ],
)
def test_it_says_which_networks_are_not_read(asked: list[str], told: list[str]) -> None:
    study = load_study("quickstart", ["shifts={}", *asked])
    lines = _prepare(study).data.splitlines()
    assert [line for line in lines if " is read by " in line] == told
