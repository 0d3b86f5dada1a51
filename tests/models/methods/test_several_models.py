"""IFCA and FedEM: rounds in plain torch, what they are with one model, groups that they find."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import plain_code
import pytest
import torch
from formula_federation import BATCH, STEPS, a_task, by_formula, federation, next_state
from torch import Tensor
from torch.nn import functional as F

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.families.global_weights import SeveralModels
from latecomer.models.methods import make_method
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import Params, State, nest

SIZES = (8, 16, 11, 6, 9)
CLIENTS = federation(SIZES)
ROUNDS = ((0, 2, 4), (1, 2, 3))
LR = 0.2
PLAIN = {"local_lr": LR, "local_momentum": 0.0, "local_weight_decay": 0.0, "n_models": 3}
CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}
PATHS = ("serial", "vectorised")


def several() -> list[Params]:
    """Return three models by formulas; each leans towards two classes of its own."""
    models = [by_formula(a_task().shapes, phase=0.7 * model) for model in range(3)]
    for number, model in enumerate(models):
        model["head.bias"][number : number + 2] += 1
    return models


def begun(extra: Params) -> State:
    table: Params = {}
    for number, model in enumerate(several()):
        table |= nest(f"models.{number}", model)
    return State(table, extra)


def owned(client: int) -> tuple[Tensor, Tensor]:
    support = CLIENTS.support_of(client)
    return support.x, support.labels()


def batches(client: int) -> list[tuple[Tensor, Tensor]]:
    """Return a client's minibatches, which follow each other through its samples."""
    x, y = owned(client)
    places = torch.arange(STEPS * BATCH).view(STEPS, BATCH) % len(y)
    return [(x[now], y[now]) for now in places]


def judged(models: Sequence[Params], x: Tensor, y: Tensor) -> Tensor:
    each = [F.cross_entropy(plain_code.net(one, x), y, reduction="none") for one in models]
    return torch.stack(each)


def assert_models(method: SeveralModels, state: State, wanted: Sequence[Params]) -> None:
    for found, told in zip(method.models(state), wanted, strict=True):
        torch.testing.assert_close(found, dict(told), **CLOSE)


@pytest.mark.parametrize("path", PATHS)
def test_rounds_of_ifca_are_the_papers(path: str) -> None:
    method: Any = make_method("ifca", **PLAIN)
    models, picked = several(), torch.full((5,), -1)
    state, seen = begun({"picked": picked}), set()
    for number, members in enumerate(ROUNDS):
        reached: list[list[Params]] = [[], [], []]
        for client in members:
            best = int(judged(models, *owned(client)).mean(1).argmin())
            seen.add(best)
            losses = [plain_code.loss_on(x, y) for x, y in batches(client)]
            reached[best].append(plain_code.descended(models[best], losses, lr=LR))
        models = [
            plain_code.mean(theirs, [1] * len(theirs)) if theirs else model
            for model, theirs in zip(models, reached, strict=True)
        ]
        state = next_state(method, state, CLIENTS, members, path, number=number)
        assert_models(method, state, models)
    # Not all clients pick the same, so that the test tells the models apart.
    assert len(seen) > 1


@pytest.mark.parametrize("path", PATHS)
def test_rounds_of_fedem_are_the_papers(path: str) -> None:
    method: Any = make_method("fedem", **PLAIN)
    models, mixture = several(), torch.full((5, 3), 1 / 3, dtype=torch.float64)
    state = begun({"mixture": mixture.clone()})
    for number, members in enumerate(ROUNDS):
        reached: list[list[Params]] = [[], [], []]
        for client in members:
            x, y = owned(client)
            joint = mixture[client].unsqueeze(1) * (-judged(models, x, y)).exp()
            share = joint / joint.sum(0)
            mixture[client] = share.mean(1)
            places = torch.arange(STEPS * BATCH).view(STEPS, BATCH) % len(y)
            for m, model in enumerate(models):

                def loss(w: Params, now: Tensor, m: int = m, x: Tensor = x, y: Tensor = y,
                         share: Tensor = share) -> Tensor:  # fmt: skip
                    each = F.cross_entropy(plain_code.net(w, x[now]), y[now], reduction="none")
                    return (share[m][now] * each).mean()

                losses = [lambda w, now=now, loss=loss: loss(w, now) for now in places]
                reached[m].append(plain_code.descended(model, losses, lr=LR))
        models = [plain_code.mean(theirs, [SIZES[one] for one in members]) for theirs in reached]
        state = next_state(method, state, CLIENTS, members, path, number=number)
        assert_models(method, state, models)
        torch.testing.assert_close(state.clients["mixture"], mixture, **CLOSE)


def test_with_one_model_they_are_fedavg(task: Any, make_population: Any) -> None:
    clients, config = make_population((9,) * 6), TrainConfig(4, 3, 5, 6)
    support, x = make_population(seed=3).support_of(0), clients.query_of(0).x
    served = {}
    for name, own in (("fedavg", {}), ("ifca", {"n_models": 1}), ("fedem", {"n_models": 1})):
        method = make_method(name, **own)
        state = train(method, task, clients, config, seed=2)
        how = {"generator": torch.Generator().manual_seed(0)}
        served[name] = method.personalize(task, state, support, **how)(x).softmax(dim=1)
    torch.testing.assert_close(served["ifca"], served["fedavg"], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(served["fedem"], served["fedavg"], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ifca", "fedem"])
def test_two_groups_that_name_classes_apart_are_found(
    name: str, task: Any, make_population: Any
) -> None:
    clients = make_population((24,) * 16, classes_per_client=4)
    # In every other client class 0 is called 1, 1 is called 2, and so on.
    turned = clients.y.clone()
    for client in range(1, 16, 2):
        own = torch.cat([clients.support[client], clients.query[client]])
        turned[own] = (turned[own] + 1) % task.n_classes
    method: Any = make_method(name, n_models=2, local_lr=0.05)
    mixed = replace(clients, y=turned)
    state = train(method, task, mixed, TrainConfig(60, 8, 5, 12), seed=1)
    best = [
        int(method.judged(task, state, mixed.support_of(client)).mean(dim=0).argmin())
        for client in range(16)
    ]
    assert best[::2] == [best[0]] * 8
    assert best[1::2] == [1 - best[0]] * 8


def test_without_points_a_client_gets_what_most_seen_clients_took(task: Any) -> None:
    nothing = Samples(torch.zeros(0, *task.input_shape), torch.zeros(0, dtype=torch.int64))
    ifca: Any = make_method("ifca", n_models=2)
    drawn = ifca.drawn(task, torch.Generator().manual_seed(0))
    state = State(drawn, {"picked": torch.tensor([-1, -1, -1, 1, 1, 0])})
    made = ifca.personalize(task, state, nothing, generator=torch.Generator())
    assert made.weights["head.bias"].tolist() == ifca.models(state)[1]["head.bias"].tolist()
    fedem: Any = make_method("fedem", n_models=2)
    state = State(drawn, {"mixture": torch.tensor([[0.2, 0.8], [0.6, 0.4]])})
    torch.testing.assert_close(fedem.describe(task, state, nothing), torch.tensor([0.4, 0.6]))
