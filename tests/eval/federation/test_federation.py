from dataclasses import replace

import numpy as np
import pytest
import torch

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.federation.groups import build_federation, standardisation
from latecomer.eval.settings.cell import FederationSettings
from latecomer.eval.splits.split import ClientRows

CONFIG = {
    "data": {"name": "digits"},
    "split": {
        "kind": "by_class",
        "clients": 20,
        "certify": 4,
        "novel": 4,
        "seed": 3,
        "query": 0.25,
        "validation": 0.1,
        "reserve": 0.2,
        "classes_per_client": 2,
    },
    "shifts": {"blur": [1.0], "rotation": [90], "extrapolation": [0.5]},
}
NATURAL = {"kind": "natural", "certify": 2, "novel": 2}


@pytest.fixture(scope="module")
def federation():
    return build_federation(FederationSettings(**CONFIG))


def test_data_of_one_class_are_refused_by_that_class(tmp_path) -> None:
    lines = [f"{client},{point},well\n" for client in range(6) for point in range(4)]
    (tmp_path / "one.csv").write_text("site,age,outcome\n" + "".join(lines))
    data = {"name": "table", "path": str(tmp_path / "one.csv"), "client": "site"}
    told = "^data must have labels of at least 2 classes, got 'well' alone in one$"
    with pytest.raises(InputError, match=told):
        build_federation(FederationSettings(data=data | {"label": "outcome"}, split=NATURAL))


def test_groups_have_the_sizes_asked_for(federation) -> None:
    sizes = [len(g.clients) for g in (federation.seen, federation.certification, federation.novel)]
    assert sizes == [12, 4, 4]
    assert [(g.shift, g.severity, len(g.clients)) for g in federation.shifted] == [
        ("blur", 1.0, 4),
        ("extrapolation", 0.5, 4),
        ("rotation", 90.0, 4),
    ]


def test_standardisation_comes_from_the_seen_clients_support_alone(federation) -> None:
    rows = np.concatenate([c.support for c in federation.split.seen])
    x = federation.dataset.x[rows].astype(np.float64)
    seen = federation.seen.clients
    assert float(seen.mean.squeeze()) == pytest.approx(x.mean(), abs=1e-6)
    assert float(seen.sd.squeeze()) == pytest.approx(x.std(), abs=1e-6)
    for group in federation.evaluated():
        assert torch.equal(group.clients.mean, seen.mean)


def test_standardisation_does_not_depend_on_the_block(federation) -> None:
    whole = standardisation(federation.dataset, federation.split.seen)
    for block in (1, 7, 100):
        parts = standardisation(federation.dataset, federation.split.seen, block=block)
        np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-6)
        np.testing.assert_allclose(parts.sd, whole.sd, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_inputs_are_scaled_in_whatever_unit_they_come_unless_constant(unit: float) -> None:
    drawn = np.random.default_rng(0).normal(1, 2, (50, 2))
    x = unit * np.column_stack([drawn, np.full(50, 0.3), np.zeros(50)])
    data = replace(load_dataset({"name": "digits"}), x=x.astype(np.float32), y=np.arange(50) % 10)
    nothing = np.zeros(0, dtype=np.int64)
    scale = standardisation(data, [ClientRows(0, np.arange(50), nothing, nothing)])
    assert scale.sd[:2] == pytest.approx(x[:, :2].std(axis=0), rel=1e-5)
    assert scale.sd[2:].tolist() == [1.0, 1.0]


def test_rotated_clients_hold_the_same_samples_turned(federation) -> None:
    turned = federation.shifted[2].clients
    for index in range(len(turned)):
        for part in ("support_of", "query_of"):
            plain = getattr(federation.novel.clients, part)(index)
            moved = getattr(turned, part)(index)
            assert torch.equal(plain.labels(), moved.labels())
            assert torch.allclose(torch.rot90(plain.x, 1, (2, 3)), moved.x)


def test_no_sample_of_a_training_client_occurs_in_an_evaluated_client(federation) -> None:
    x = federation.dataset.x
    trained = {x[row].tobytes() for c in federation.split.seen for row in c.rows("all")}
    distinct = {x[row].tobytes() for row in range(len(x))}
    assert len(distinct) == len(x), "digits has no duplicates, so bytes identify a sample"
    unturned = [g for g in federation.evaluated() if g.shift in ("none", "extrapolation")]
    for group in unturned:
        if group.name == "seen":
            continue
        clients = group.clients
        for index in range(len(clients)):
            rows = torch.cat(
                [
                    clients.support[index, : clients.support_sizes[index]],
                    clients.query[index, : clients.query_sizes[index]],
                ]
            )
            assert not trained & {clients.x[row].numpy().tobytes() for row in rows}
