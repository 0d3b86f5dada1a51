"""Clients that train side by side get what each would alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from formula_federation import Population, dense_task, generator, model_of, quick

from latecomer.models.engine.fine_tuning import BESIDE
from latecomer.models.engine.method import Method
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.families.trained_newcomers import TrainedNewcomers
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

VARIANTS: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in METHODS]
VARIANTS += [
    ("fedrep", {"head_layers": 0}),
    ("fedbabu", {"finetuned": "head"}),
    ("pfedme", {"clip_norm": 0.1}),
    ("pfedhn", {"descriptors": "class_proportions"}),
    ("pfedhn", {"warm": "nearest"}),
    ("pfedhn_pc", {"head_layers": 2}),
]
SIZES = (3, 20, 7, 11, 5, 1)
NIGHTLY = pytest.mark.nightly


def trained(
    name: str, settings: dict[str, Any], task: Task, clients: Clients
) -> tuple[Method, State]:
    method = quick(name, 5, **settings)
    # Two rounds of two: some clients have never been drawn.
    config = TrainConfig(rounds=2, cohort=2, local_steps=3, batch_size=6)
    return method, train(method, task, clients, config, seed=0)


def logits_of(
    method: Method,
    task: Task,
    state: State,
    clients: Clients,
    members: Sequence[int | None],
    *,
    alone: bool,
) -> torch.Tensor:
    supports = [clients.support_of(index) for index in range(len(clients))]
    x = clients.query_of(0).x
    if not alone:
        draws = map(generator, range(len(clients)))
        how = {"predictor": method.predictors[0], "generators": draws}
        task = replace(task, together=True)
        models = [*method.serve_each(task, state, members, supports, **how)]
        return torch.stack([model(x) for model in models])
    each = enumerate(zip(supports, members, strict=True))
    return torch.stack([model_of(method, task, state, *one, seed=seed)(x) for seed, one in each])


# Without dropout less happens: a landing tries one method of a kind so, and all with it.
KINDS = {"local", "fedavg", "fedper", "per_fedavg", "knn_per", "ifca", "pfedhn", "pefll"}
DROPPING = [
    pytest.param(name, settings, share, marks=() if share or name in KINDS else NIGHTLY)
    for share in (0.0, 0.2)
    for name, settings in VARIANTS
]


@pytest.mark.parametrize(("name", "settings", "dropout"), DROPPING)
def test_company_changes_nobody(
    make_population: Population, name: str, settings: dict[str, Any], dropout: float
) -> None:
    task = dense_task(dropout=dropout)
    clients = make_population(SIZES, dtype=torch.float64)
    method, state = trained(name, settings, task, clients)
    for members in ([None] * 6, [*range(6)], [0, None, 2, None, None, 5]):
        both = [
            logits_of(method, task, state, clients, members, alone=alone) for alone in (True, False)
        ]
        torch.testing.assert_close(*both, rtol=0, atol=1e-9)


def test_more_than_go_side_by_side(make_population: Population, task: Task) -> None:
    clients = make_population((4,) * (2 * BESIDE + 3))
    method, state = trained("fedavg_ft", {}, task, clients)
    members = [None] * len(clients)
    both = [
        logits_of(method, task, state, clients, members, alone=alone) for alone in (True, False)
    ]
    torch.testing.assert_close(*both)


def test_all_that_train_newcomers_can_train_several(task: Task) -> None:
    expected = {name for name, kind in METHODS.items() if issubclass(kind, TrainedNewcomers)}
    assert expected == {name for name in METHODS if make_method(name).trains_newcomers}
