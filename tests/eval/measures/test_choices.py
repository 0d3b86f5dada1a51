"""Rows of what serving chose for each client."""

from latecomer.eval.federation.groups import Group
from latecomer.eval.measures.of_a_model import choice_rows
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.task.task import make_task
from latecomer.models.traffic import random_population


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
