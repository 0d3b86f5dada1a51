"""``serving`` of a method: whose models it corrects, and where it is refused."""

from pathlib import Path
from typing import Any

import pytest

from latecomer.errors import InputError
from latecomer.eval.results.rows import load_run
from latecomer.eval.runs.runner import run
from latecomer.eval.studies.checking import parse_study

CORRECTED = {"name": "fedavg", "label": "em", "local_lr": 0.05, "serving": {"prior": "em"}}
STUDY: dict[str, Any] = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 12, "classes_per_client": 2, "novel": 4},
    "methods": [{"name": "fedavg", "local_lr": 0.05}, CORRECTED],
    "train": {"rounds": 60, "cohort": 4, "local_steps": 5, "batch_size": 16},
}


def test_new_clients_alone_are_served_corrected_models(tmp_path: Path) -> None:
    study = parse_study(STUDY)
    assert parse_study(study.resolved()) == study
    run(study, out=tmp_path / "run", workers=1)
    rows = load_run(tmp_path / "run").rows
    errors = rows.loc[(rows["metric"] == "error") & (rows["client"] == "")]
    error = errors.set_index(["label", "group", "aggregation"])["value"].astype(float)
    plain, corrected = error["fedavg"]["seen"], error["em"]["seen"]
    assert plain.to_dict() == corrected.to_dict()
    # Clients of two classes of ten: their shares are far from the seen clients'.
    assert error["em", "novel", "per-client"] < error["fedavg", "novel", "per-client"]
    assert set(rows.loc[rows["label"] == "em", "personalization"]) == {"unlabelled"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"methods": [{"name": "local", "serving": {"prior": "em"}}]},
            "methods.0.serving must be left out for methods that read a new client's labels, "
            "got local",
        ),
        (
            {
                "certificates": [{"route": "r5", "first": 4, "clients": 4, "weights": ["target"]}],
                "methods": [CORRECTED],
            },
            "certificates.0: route r5 trains and serves models of its own, without "
            "methods.0.serving: name its methods, or leave methods.0.serving out",
        ),
        (
            {"methods": [CORRECTED | {"serving": {"prior": "bbse"}}]},
            "methods.0.serving.prior: must be 'em'",
        ),
    ],
)
def test_where_it_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_study(STUDY | changed)
    assert message in str(refused.value)
