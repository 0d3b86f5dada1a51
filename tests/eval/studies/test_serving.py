"""``serving`` of a method: whose models it corrects, and where it is refused."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from latecomer.errors import InputError
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.results.rows import load_run
from latecomer.eval.runs.runner import run
from latecomer.eval.studies.checking import parse_study

CORRECTED = {"name": "fedavg", "label": "em", "local_lr": 0.05, "serving": {"prior": "em"}}
STUDY: dict[str, Any] = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 12, "classes_per_client": 2, "novel": 4},
    "methods": [{"name": "fedavg", "local_lr": 0.05}, CORRECTED],
    "train": {"rounds": 40, "cohort": 4, "local_steps": 5, "batch_size": 16},
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory, here: Any) -> pd.DataFrame:
    """Rows of a model as it is, and corrected in both ways."""
    own = [CORRECTED | {"label": prior, "serving": {"prior": prior}} for prior in ("em", "bbse")]
    study = parse_study(STUDY | {"methods": [STUDY["methods"][0], *own]})
    assert parse_study(study.resolved()) == study
    folder = tmp_path_factory.mktemp("corrected") / "run"
    run(study, out=folder, executor=here)
    return load_run(folder).rows


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["em", "bbse"])
def test_new_clients_alone_are_served_corrected_models(rows: pd.DataFrame, prior: str) -> None:
    errors = rows.loc[(rows["metric"] == "error") & (rows["client"] == "")]
    error = errors.set_index(["label", "group", "aggregation"])["value"].astype(float)
    plain, corrected = error["fedavg"]["seen"], error[prior]["seen"]
    assert plain.to_dict() == corrected.to_dict()
    # Clients of two classes of ten: their shares are far from the seen clients'.
    assert error[prior, "novel", "per-client"] < error["fedavg", "novel", "per-client"]
    assert set(rows.loc[rows["label"] == prior, "personalization"]) == {"unlabelled"}
    told = rows[rows["metric"] == "bbse_ridge"]
    assert told["label"].tolist() == ["bbse"]
    assert (told["value"].astype(float).between(0, 1)).all()


def test_seen_clients_without_validation_data_are_told_before_training(tmp_path: Path) -> None:
    own = {"name": "fedavg", "serving": {"prior": "bbse"}}
    few = {**STUDY["split"], "validation": 0.001}
    cells = parse_study(STUDY | {"methods": [own], "split": few}).cells()
    with pytest.raises(InputError, match="needs validation data of every seen client"):
        evaluate_cell(next(cell.config for cell in cells if cell.kind == "method"))


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
            {"methods": [CORRECTED | {"serving": {"prior": "emm"}}]},
            "methods.0.serving.prior: must be 'em' or 'bbse'",
        ),
        (
            {
                "methods": [CORRECTED | {"serving": {"prior": "bbse"}}],
                "split": STUDY["split"] | {"validation": 0.0},
            },
            "serving.prior=bbse needs split.validation above 0, got 0.0",
        ),
    ],
)
def test_where_it_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        parse_study(STUDY | changed)
