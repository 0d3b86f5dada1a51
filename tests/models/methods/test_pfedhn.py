"""pFedHN: whose embedding moves, and by how much."""

import pytest
import torch
from formula_federation import Population, generator

from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import initial_state, train
from latecomer.models.generators.hypernetworks import hypernetwork
from latecomer.models.methods.pfedhn import PFedHN
from latecomer.models.methods.pfedhn_pc import PFedHNPC
from latecomer.models.task.state import State, part, row
from latecomer.models.task.task import Task

CONFIG = TrainConfig(rounds=2, cohort=3, local_steps=4, batch_size=5)


def test_a_seen_client_is_served_by_its_own_embedding(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population(), PFedHN(local_lr=0.05)
    state = train(method, task, clients, CONFIG, seed=0)
    x, support = clients.query_of(0).x, clients.support_of(0)
    for index in (0, 5):
        embedding = state.clients["embedding"][index : index + 1]
        theta = hypernetwork(task, embedding.shape[1])(part(state.server, "hyper"), embedding)
        predict = method.serve(task, state, index, support, generator=generator())
        assert torch.equal(predict(x), task.logits(row(theta, 0), x))
    assert state.clients["embedding"].shape == (8, 1 + 8 // 4)


@pytest.mark.parametrize("rounds", [0, 15])
def test_a_newcomer_fits_its_embedding_and_nothing_else(
    task: Task, make_population: Population, rounds: int
) -> None:
    clients = make_population()
    method = PFedHN(
        local_lr=0.05, server_lr=0.05, novel_rounds=rounds, novel_steps=5, novel_batch_size=6
    )
    state: State = train(method, task, clients, TrainConfig(30, 4, 5, 6), seed=0)
    before = {key: value.clone() for key, value in state.server.items()}
    support = make_population(seed=1).support_of(3)

    def support_loss(seed: int) -> float:
        logits = method.personalize(task, state, support, generator=generator(seed))(support.x)
        return torch.nn.functional.cross_entropy(logits, support.labels()).item()

    losses = [support_loss(seed) for seed in range(4)]
    assert all(torch.equal(state.server[key], before[key]) for key in before)
    assert len(set(losses)) == 4
    fresh = [
        PFedHN(novel_rounds=0)
        .personalize(task, state, support, generator=generator(seed))(support.x)
        .log_softmax(1)[torch.arange(len(support)), support.labels()]
        .mean()
        .neg()
        .item()
        for seed in range(4)
    ]
    if rounds == 0:
        assert losses == pytest.approx(fresh, rel=1e-5)
    else:
        assert sum(losses) < 0.7 * sum(fresh)


def test_a_personal_classifier_stays_with_its_client(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population(), PFedHNPC(local_lr=0.05, novel_rounds=12, novel_steps=5)
    state = train(method, task, clients, CONFIG, seed=0)
    assert not any("heads.head." in key for key in state.server)
    heads = part(state.clients, "head")
    assert set(heads) == {"head.weight", "head.bias"}
    schedule = Schedule(0, clients, CONFIG)
    drawn = {int(m) for number in range(2) for m in schedule.cohort(number).members}
    before = initial_state(method, task, clients, CONFIG, seed=0).clients["head.head.weight"]
    moved = {i for i in range(8) if not torch.equal(heads["head.weight"][i], before[i])}
    assert moved == drawn
    support, x = clients.support_of(0), clients.query_of(0).x
    flat = State(state.server, {k: v * 0 if "head." in k else v for k, v in state.clients.items()})
    assert not bool(method.serve(task, flat, 0, support, generator=generator())(x).any())
    # A newcomer takes nobody's head.
    served = method.personalize(task, state, support, generator=generator())(x)
    again = method.personalize(task, flat, support, generator=generator())(x)
    assert torch.equal(served, again)
    assert (served.argmax(1) == clients.query_of(0).labels()).float().mean() > 0.6


def test_every_client_begins_with_a_head_of_its_own(
    task: Task, make_population: Population
) -> None:
    clients = make_population((4,) * 60)
    state = initial_state(PFedHNPC(), task, clients, CONFIG, seed=0)
    head = state.clients["head.head.weight"]
    assert len({tuple(own.flatten().tolist()) for own in head}) == 60
    # Each by the layer's own rule, as every net begins.
    edge = head.shape[2] ** -0.5
    assert 0.99 * edge < float(head.abs().max()) <= edge
    assert abs(float(head.mean())) < 0.02 * edge
    other = initial_state(PFedHNPC(), task, clients, CONFIG, seed=1).clients["head.head.weight"]
    assert not torch.equal(head, other)


def test_a_head_of_all_layers_leaves_nothing_to_make(
    task: Task, make_population: Population
) -> None:
    message = "^head_layers must be below the 3 layers of the target, .* got head_layers=3$"
    with pytest.raises(ValueError, match=message):
        train(PFedHNPC(head_layers=3), task, make_population(), CONFIG, seed=0)


def test_a_warm_start_takes_the_seen_embedding_whose_model_fits_best(
    task: Task, make_population: Population
) -> None:
    clients = make_population()
    method = PFedHN(local_lr=0.05, server_lr=0.05, novel_rounds=0, warm="nearest")
    state = train(method, task, clients, TrainConfig(20, 4, 5, 6), seed=0)
    support, x = make_population(seed=1).support_of(3), clients.query_of(0).x
    losses = [
        task.loss(method.own_model(task, state, index), support.x, support.labels()).item()
        for index in range(len(clients))
    ]
    best = losses.index(min(losses))
    served = method.personalize(task, state, support, generator=generator())(x)
    assert torch.equal(served, method.serve(task, state, best, support, generator=generator())(x))
