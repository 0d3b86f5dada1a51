"""Serving and scoring 1,000 clients, against bare PyTorch; newcomers that train, in both ways."""

from collections.abc import Callable

import pytest
import torch
from bare_nets import lenet
from contest import compare
from contestants import newcomers
from populations import N_CLASSES, SHAPE, SMALL, cifar_shaped
from torch import Tensor
from torch.nn.functional import linear, max_pool2d, one_hot, relu

from latecomer.eval.federation.groups import Group
from latecomer.eval.scoring.serving import score_group
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State, part
from latecomer.models.task.task import Task, make_task

CLIENTS, SUPPORT, QUERY = 40 if SMALL else 1_000, 50, 10
REPEATS = 2 if SMALL else 5
NHWC = torch.channels_last

NEWCOMERS = 8 if SMALL else 64
NETS = {"small net": (1, 8, 8), "dense net": (64,)}
SETTINGS = {
    "FedRep": {"novel_steps": 50},
    "Ditto": {"finetune_steps": 50},
    "Local": {"novel_steps": 50},
    "pFedHN": {"novel_rounds": 5, "novel_steps": 10, "novel_batch_size": 32},
}


@pytest.fixture(scope="module")
def clients() -> Clients:
    return cifar_shaped(CLIENTS, SUPPORT, QUERY)


def layered(table: dict[str, Tensor]) -> list[Tensor]:
    """Return a net's weights in the layers' order, filters channels-last."""
    return [v.contiguous(memory_format=NHWC) if v.dim() == 4 else v for v in table.values()]


def bare_fedavg(state: State, clients: Clients) -> Callable[[], list[int]]:
    """Return a loop that counts the mistakes of one model on every client's query data."""
    weights = layered(part(state.server, "target"))
    x = clients.inputs(clients.query.flatten()).contiguous(memory_format=NHWC)
    y = clients.labels(clients.query)

    def score() -> list[int]:
        with torch.no_grad():
            made = [lenet(weights, part, True).argmax(1) for part in x.split(1_000)]
        return (torch.cat(made).view(y.shape) != y).sum(1).tolist()

    return score


def bare_pefll(
    state: State, clients: Clients, task: Task, *, planes: bool = True
) -> Callable[[], list[int]]:
    """Return a loop that makes every client's weights from its support and counts mistakes.

    Labels are planes beside an image, as published, or what comes to the same: biases of filters.
    """
    encoder = layered(part(state.server, "encoder"))
    hyper = list(part(state.server, "hyper").values())
    mean, sd = state.server["descriptor.mean"], state.server["descriptor.sd"]
    shapes = list(task.shapes.values())
    x = clients.inputs(torch.arange(len(clients.x))).contiguous(memory_format=NHWC)
    onehot = one_hot(clients.y, N_CLASSES).to(x.dtype)
    batch = 20
    by_class = encoder[0][:, SHAPE[0] :].sum((2, 3)).T
    filters = encoder[0][:, : SHAPE[0]].contiguous(memory_format=NHWC)

    def embed(rows: Tensor) -> Tensor:
        if planes:
            labels = onehot[rows][:, :, None, None].expand(-1, -1, *SHAPE[1:])
            return lenet(encoder, torch.cat([x[rows], labels], 1), True)
        raised = by_class[clients.y[rows]][:, :, None, None]
        made = relu(max_pool2d(torch.conv2d(x[rows], filters, encoder[1]), 2) + raised)
        made = relu(max_pool2d(torch.conv2d(made, *encoder[2:4]), 2)).flatten(1)
        made = relu(linear(relu(linear(made, *encoder[4:6])), *encoder[6:8]))
        return linear(made, *encoder[8:10])

    def score() -> list[int]:
        wrong: list[int] = []
        with torch.no_grad():
            for first in range(0, len(clients), batch):
                embedded = embed(clients.support[first : first + batch].flatten())
                features = (embedded.view(-1, SUPPORT, embedded.shape[1]).mean(1) - mean) / sd
                for i in range(0, 8, 2):
                    features = linear(relu(features) if i else features, hyper[i], hyper[i + 1])
                made = [
                    linear(features, *hyper[8 + 2 * i : 10 + 2 * i]).view(-1, *shape)
                    for i, shape in enumerate(shapes)
                ]
                for place, query in enumerate(clients.query[first : first + batch]):
                    logits = lenet([layer[place] for layer in made], x[query], True)
                    wrong.append(int((logits.argmax(1) != clients.y[query]).sum()))
        return wrong

    return score


@pytest.mark.parametrize("name", ["fedavg", "pefll"])
def test_evaluation_of_a_thousand_clients(name, clients, task, take_turns, judge):
    """Counts the same mistakes as the bare loop."""
    method = make_method(name)
    config = TrainConfig(rounds=1, cohort=5, local_steps=2, batch_size=10)
    state = train(method, task, clients, config, seed=0)
    rivals = {
        "fedavg": lambda: {"bare": bare_fedavg(state, clients)},
        "pefll": lambda: {
            "bare": bare_pefll(state, clients, task),
            "bare, labels as biases": bare_pefll(state, clients, task, planes=False),
        },
    }[name]()
    group = Group("novel", "none", None, clients)

    def ours() -> list[int]:
        scores = score_group(
            method, task, state, group, classes="all", predictor="deterministic", seed=0
        )
        return [score.n_wrong for score in scores]

    # A logit may be the largest by less than what two ways of adding up differ by.
    for bare in rivals.values():
        differing = sum(a != b for a, b in zip(ours(), bare(), strict=True))
        assert differing <= max(CLIENTS // 100, 1)
    turns = take_turns({"ours": ours} | rivals, repeats=REPEATS)
    what = f"evaluating 1,000 clients, {name}"
    judge(*(compare(f"{what} / {rival}", turns["ours"], turns[rival]) for rival in rivals))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("kind", NETS)
def test_newcomers_side_by_side(kind, name, take_turns, judge):
    shape = NETS[kind]
    clients = cifar_shaped(NEWCOMERS, 24, 1, shape=shape, dtype=torch.float32)
    task = make_task(input_shape=shape, n_classes=N_CLASSES)
    method = make_method(name.lower(), **SETTINGS[name])
    config = TrainConfig(rounds=1, cohort=5, local_steps=2, batch_size=16)
    state = train(method, task, clients, config, seed=0)
    turns = take_turns(newcomers(method, task, state, clients), repeats=REPEATS)
    what = f"newcomers of {name}, {kind}, side by side / one by one"
    judge(compare(what, turns["together"], turns["alone"]))
