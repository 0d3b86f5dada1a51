"""Training with nobody held out: what a certificate of held-out clients gave up."""

from typing import Any

import numpy as np
import pytest

from latecomer.eval.federation.groups import standardisation
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.routes.arrivals import joined
from latecomer.eval.scoring.label_shift import pooled_shares
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training import setup
from latecomer.eval.training.setup import federation_of

STUDY: dict[str, Any] = {
    "study": "small",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 24, "certify": 6, "novel": 10,
              "classes_per_client": 2, "validation": 0.0},
    "methods": ["fedavg"],
    "train": {"rounds": 2, "cohort": 3, "local_steps": 2, "batch_size": 8},
    "evaluation": {"given_up": True},
}  # fmt: skip


def test_certification_clients_train_and_novel_ones_alone_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = next(c for c in parse_study(STUDY).cells("") if c.kind == "whole")
    trained: list[Any] = []
    original = setup.train

    def watched(method: Any, task: Any, clients: Any, *args: Any, **kwargs: Any) -> Any:
        trained.append(clients)
        return original(method, task, clients, *args, **kwargs)

    monkeypatch.setattr(setup, "train", watched)
    rows = evaluate_cell(cell.config).rows
    federation = federation_of(cell.settings)
    split = federation.split
    (clients,) = trained
    everyone = [*split.seen, *split.certification]
    assert clients.ids.tolist() == [client.id for client in everyone]
    scale = standardisation(federation.dataset, everyone)
    assert np.array_equal(clients.mean.numpy(), scale.mean)
    assert {row["group"] for row in rows} == {"novel"}
    each = [
        row["client"] for row in rows if row["metric"] == "error" and row.get("client", "") != ""
    ]
    assert each == [client.id for client in split.novel]
    assert not {row.get("bound") for row in rows} - {None, ""}


@pytest.mark.parametrize("prior", ["em", "bbse"])
def test_models_are_corrected_by_the_clients_that_trained_scaled_as_they_are(
    monkeypatch: pytest.MonkeyPatch, prior: str
) -> None:
    method = {"name": "fedavg", "serving": {"prior": prior}}
    split = {**STUDY["split"], "certify": 13, "validation": 0.2}
    study = parse_study(STUDY | {"methods": [method], "split": split})
    cell = next(c for c in study.cells("") if c.kind == "whole")
    assert cell.config["numbers_version"]["whole"] == 2
    told: list[Any] = []
    original = setup.score_group

    def watched(*args: Any, reweigh: Any, **kwargs: Any) -> Any:
        told.append(reweigh)
        return original(*args, reweigh=reweigh, **kwargs)

    monkeypatch.setattr(setup, "score_group", watched)
    evaluate_cell(cell.config)
    everyone, _, validation = joined(federation_of(cell.settings))
    (reweigh,) = told
    if prior == "em":
        assert reweigh.trained.equal(pooled_shares(everyone, 10))
    else:
        assert reweigh.held_out.query.equal(validation.query)
        assert reweigh.held_out.mean.equal(everyone.mean)
        assert reweigh.held_out.sd.equal(everyone.sd)


def test_support_stays_with_its_client_where_groups_are_joined() -> None:
    cell = next(c for c in parse_study(STUDY).cells("") if c.kind == "whole")
    federation = federation_of(cell.settings)
    everyone, *_ = joined(federation)
    held = federation.certification.clients
    first = len(federation.seen.clients)
    for place in range(len(held)):
        assert (
            everyone.support_of(first + place).labels() == held.support_of(place).labels()
        ).all()
