"""Measures of trained models: descriptors along a training, heads on other bodies, serving."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from latecomer.eval.federation.groups import Group, build_federation
from latecomer.eval.measures.likeness import (
    class_proportions,
    descriptors,
    rank_correlations,
)
from latecomer.eval.measures.of_a_model import choice_rows, next_client
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.routes.registry import read_cell
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.settings.cell import federation_settings
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training.setup import setup_of
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.task.task import make_task
from latecomer.models.traffic import random_population

RAW = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 12, "classes_per_client": 2, "novel": 3},
    "train": {"rounds": 4, "cohort": 2, "local_steps": 2, "batch_size": 4},
}
SEEN, NOVEL = 9, 3
# What is measured of seen clients does not hang on how long newcomers train.
QUICK = {"novel_rounds": 1, "novel_steps": 2}
WEIGHTS = 4 * make_task(input_shape=(1, 8, 8), n_classes=10).n_parameters


def config(method, **changed):
    study = parse_study({**RAW, "methods": [method], **changed})
    return next(cell.config for cell in study.cells() if cell.kind == "method")


def outcome(method, measures, **evaluation):
    return evaluate_cell(config(method, evaluation={"measures": measures, **evaluation}))


@pytest.fixture(scope="module")
def federation():
    return build_federation(federation_settings(parse_study({**RAW, "methods": ["fedavg"]})))


def test_cells_without_measures_are_what_they_were():
    assert "measures" not in config("fedavg")["evaluation"]


def test_rank_correlation_of_a_perfect_and_a_reversed_order():
    places = np.array([[1.0], [2.0], [4.0], [8.0]])
    here = np.zeros((1, 1))
    for described, expected in ((places**3, 1.0), (-1 / places, -1.0)):
        found = rank_correlations(
            novel_descriptors=here,
            seen_descriptors=described,
            novel_proportions=here,
            seen_proportions=places,
        )
        assert found == pytest.approx([expected])


def test_rank_correlation_is_undefined_where_all_descriptors_agree():
    found = rank_correlations(
        novel_descriptors=np.zeros((2, 1)),
        seen_descriptors=np.ones((3, 1)),
        novel_proportions=np.zeros((2, 1)),
        seen_proportions=np.arange(3.0)[:, None],
    )
    assert np.isnan(found).all()


def test_class_proportions_are_of_all_samples_of_a_client(federation):
    shares = class_proportions(federation.seen, 10)
    assert shares.shape == (SEEN, 10)
    assert shares.sum(axis=1) == pytest.approx(1)
    assert ((shares > 0).sum(axis=1) == 2).all()


@pytest.mark.parametrize("method", ["pefll", "odpfl_hn"])
def test_descriptors_and_their_correlation_along_the_training(method):
    found = outcome(method, ["descriptors"], every=2)
    held = found.artifacts["descriptors"].arrays
    assert held["descriptor"].shape[0] == SEEN + NOVEL == len(held["class_proportions"])
    assert held["novel"].sum() == NOVEL
    rows = [row for row in found.rows if row["metric"] == "spearman"]
    clients = [row["value"] for row in rows if row.get("client", "") != ""]
    (mean,) = [row["value"] for row in rows if row.get("client", "") == ""]
    assert mean == pytest.approx(np.mean(clients))
    assert len(clients) == NOVEL
    curve = found.artifacts["training_curve"].table
    points = {r["round"]: r["spearman"] for r in curve if r["group"] == "novel"}
    assert sorted(points) == [2, 4]
    assert points[4] == pytest.approx(mean)
    assert points[2] != points[4]
    assert {r["spearman"] for r in curve if r["group"] != "novel"} == {""}


@pytest.mark.slow
def test_embeddings_are_of_seen_clients_only():
    found = outcome({"name": "pfedhn", **QUICK}, ["descriptors"], every=2)
    held = found.artifacts["descriptors"].arrays
    assert held["descriptor"].shape == (SEEN, 1 + SEEN // 4)
    assert not held["novel"].any()
    assert not [row for row in found.rows if row["metric"] == "spearman"]
    assert "spearman" not in found.artifacts["training_curve"].table[0]


class Sizes:
    """Describes a client by how much support data it has."""

    def describe(self, task, state, support, member):
        return torch.tensor([float(len(support))])


def test_descriptors_name_superclasses_where_the_data_have_some(federation):
    task = make_task(input_shape=(1, 8, 8), n_classes=10)
    model = SimpleNamespace(method=Sizes(), task=task, state=None, federation=federation)
    _, made = descriptors(model)
    assert "superclass" not in made["descriptors"].arrays
    dataset = replace(federation.dataset, coarse=federation.dataset.y // 2)
    model.federation = replace(federation, dataset=dataset)
    _, made = descriptors(model)
    assert made["descriptors"].arrays["superclass"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.slow
def test_mixed_heads_and_bodies_have_own_accuracy_on_the_diagonal():
    found = outcome({"name": "pfedhn_pc", **QUICK}, ["mix_and_match"])
    accuracy = found.artifacts["mix_and_match"].arrays["accuracy"]
    assert accuracy.shape == (SEEN, SEEN)
    own = {
        row["client"]: 1 - row["value"]
        for row in found.rows
        if row["group"] == "seen" and row["metric"] == "error" and row.get("client", "") != ""
    }
    ids = found.artifacts["mix_and_match"].ids["client of the head"]
    assert np.diag(accuracy) == pytest.approx([own[client] for client in ids])
    stretched = found.artifacts["mix_and_match"].arrays["normalised"]
    assert np.nanmax(stretched) == 1


@pytest.mark.parametrize("measure", ["descriptors", "mix_and_match"])
def test_methods_that_a_measure_is_not_about_leave_it_out(measure):
    assert measure not in outcome("fedavg", [measure]).artifacts


@pytest.mark.parametrize(
    ("method", "rounds", "down", "up"),
    [
        ({"name": "fedavg"}, 1, WEIGHTS, 0),
        ({"name": "local", "novel_steps": 2}, 0, 0, 0),
        ({"name": "pfedhn", "novel_rounds": 3, "novel_steps": 1}, 3, 4 * WEIGHTS, 3 * WEIGHTS),
        # A head of 10 classes on 32 units is the newcomer's own.
        ({"name": "fedrep", "novel_steps": 2}, 1, WEIGHTS - 4 * 33 * 10, 0),
    ],
)
def test_serving_cost(method, rounds, down, up):
    torch.manual_seed(0)
    table = outcome(method, ["serving_cost"]).artifacts["serving_cost"].table
    assert len(table) == NOVEL
    for record in table:
        assert (record["rounds"], record["down_bytes"], record["up_bytes"]) == (rounds, down, up)
        assert record["personalize_seconds"] > 0
        assert record["predict_seconds"] > 0


def test_what_a_method_with_an_encoder_sends():
    pefll = {"name": "pefll", "descriptor_dim": 5}
    record = outcome(pefll, ["serving_cost"]).artifacts["serving_cost"].table[0]
    assert record["up_bytes"] == 4 * 5
    assert record["down_bytes"] > WEIGHTS


def test_no_timing_is_in_the_rows():
    found = outcome("fedavg", ["serving_cost"])
    assert not [row for row in found.rows if "second" in row["metric"]]


def test_the_error_on_training_data_is_that_of_the_served_model_on_its_support():
    """FedAvg serves its weights: one model, scored by hand on each seen client's support."""
    found = outcome("fedavg", ["training_error"])
    told = [row for row in found.rows if row["metric"] == "training_error"]
    assert [row["group"] for row in told] == ["seen"] * SEEN
    setup = setup_of(read_cell(config("fedavg")))
    clients = setup.federation.seen.clients
    state = train(setup.method, setup.task, clients, setup.budget, seed=setup.seed)
    model = setup.method.serve(
        setup.task, state, 0, clients.support_of(0), predictor="deterministic",
        generator=torch.Generator(),
    )  # fmt: skip
    for index, row in enumerate(told):
        support = clients.support_of(index)
        with torch.no_grad():
            wrong = model(support.x).argmax(dim=1) != support.labels()
        assert row["value"] == pytest.approx(wrong.double().mean().item())
        assert row["n_query"] == len(support)


def test_a_mean_for_each_group_and_number_chosen():
    task = make_task(input_shape=(4,), n_classes=3)
    clients, method = random_population(task, 6), make_method("knn_per")
    state = train(method, task, clients, TrainConfig(2, 2, 2, 4), seed=0)
    groups = [Group(name, "none", None, clients) for name in ("seen", "novel")]
    rows = choice_rows(method, task, state, groups, classes="all")
    assert [(row["group"], row["metric"]) for row in rows] == [
        *(("seen", "knn_k"), ("seen", "knn_weight"), ("novel", "knn_k"), ("novel", "knn_weight")),
    ]
    for row in rows:
        chosen = [
            method.choices(
                task, state, clients.support_of(i), member=i if row["group"] == "seen" else None
            )[row["metric"]]
            for i in range(6)
        ]
        assert row["value"] == sum(chosen) / 6
        assert (row["n_clients"], row["aggregation"]) == (6, "per-client")


def test_no_rows_where_nothing_is_chosen():
    task = make_task(input_shape=(4,), n_classes=3)
    clients, method = random_population(task, 6), make_method("fedavg")
    state = train(method, task, clients, TrainConfig(1, 2, 1, 4), seed=0)
    seen = Group("seen", "none", None, clients)
    assert choice_rows(method, task, state, [seen], classes="all") == []


def intervals_of(wrong, n):
    scores = [ClientScore(i, n, n, int(w), 0.5) for i, w in enumerate(wrong)]
    rows, _ = next_client(SimpleNamespace(held_out={"deterministic": scores}))
    return rows


@pytest.mark.theory
def test_the_interval_holds_a_new_clients_true_error_about_as_often_as_it_says():
    rng, inside = np.random.default_rng(0), []
    for _ in range(400):
        true = np.clip(rng.normal(0.3, 0.07, 41), 0, 1)
        wrong = rng.binomial(200, true[:40])
        (row,) = intervals_of(wrong, 200)
        inside.append(row["lower"] <= true[40] <= row["upper"])
    assert 0.86 <= np.mean(inside) <= 0.94


def test_clients_without_any_error_have_an_interval_that_is_no_certificate():
    (row,) = intervals_of([0, 0, 0, 12], 12)
    assert 0 <= row["lower"] <= row["value"] <= row["upper"] <= 1
    assert row["rigorous"] is False
    assert intervals_of([1, 2], 12) == []


def test_spread_between_clients_widens_it():
    even = intervals_of([6] * 30, 24)[0]
    spread = intervals_of([0, 12] * 15, 24)[0]
    assert spread["upper"] - spread["lower"] > 2 * (even["upper"] - even["lower"])


def test_the_interval_of_a_few_counts():
    (row,) = intervals_of([2 + i % 3 for i in range(30)], 12)
    found = [round(row[name], 2) for name in ("lower", "value", "upper")]
    assert found == [0.24, 0.26, 0.28]
