"""What a run says at its start of the network and the path that ``auto`` stands for."""

from typing import Any

import pytest

from latecomer.eval.federation.groups import build_federation
from latecomer.eval.runs.runner import _chosen_told
from latecomer.eval.settings.cell import federation_settings
from latecomer.eval.studies.loading import parse_study

ONE, ALL = "one after another", "all at once"


def study_of(**changed: Any) -> Any:
    return parse_study(
        {
            "study": "chosen",
            "data": {"name": "digits"},
            "split": {
                "kind": "by_class",
                "clients": 20,
                "certify": 4,
                "novel": 4,
                "classes_per_client": 2,
            },
            "methods": ["fedavg", "fedem"],
            "train": {"rounds": 2},
            **changed,
        }
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, [f"auto: network small, clients of a round train {ONE}"]),
        (
            {"model": {"target": "mlp"}},
            [f"auto: clients of a round train {ALL} (fedavg) and {ONE} (fedem)"],
        ),
        ({"train": {"rounds": 2, "path": "serial"}}, ["auto: network small"]),
        ({"model": {"target": "mlp"}, "train": {"rounds": 2, "path": "serial"}}, []),
    ],
)
def test_it_names_what_the_study_left_open(changed: dict[str, Any], told: list[str]) -> None:
    study = study_of(**changed)
    assert [*_chosen_told(study, build_federation(federation_settings(study)))] == told
