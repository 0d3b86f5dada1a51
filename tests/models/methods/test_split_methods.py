"""FedPer, FedRep, FedBABU and LG-FedAvg: what is shared, what is personal, who trains what."""

from dataclasses import replace

import pytest
import torch
from formula_federation import Population, generator

from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import initial_state, train
from latecomer.models.methods import make_method
from latecomer.models.task.state import State, part, row
from latecomer.models.task.task import Task

CONFIG = TrainConfig(rounds=6, cohort=3, local_steps=4, batch_size=5)
HEAD = {"head.weight", "head.bias"}
BODY = {"dense1.weight", "dense1.bias", "dense2.weight", "dense2.bias"}


@pytest.mark.parametrize("name", ["fedper", "fedrep"])
def test_bodies_are_shared_and_heads_are_kept(
    task: Task, make_population: Population, name: str
) -> None:
    clients, method = make_population(), make_method(name, local_lr=0.05)
    state = train(method, task, clients, CONFIG, seed=0)
    assert set(part(state.server, "body")) == BODY
    assert set(state.clients) == HEAD
    support, x = clients.support_of(0), clients.query_of(0).x
    for index in (0, 3):
        own = {**part(state.server, "body"), **row(state.clients, index)}
        predict = method.serve(task, state, index, support, generator=generator())
        assert torch.equal(predict(x), task.logits(own, x))
    drawn = Schedule(0, clients, CONFIG).cohort(0).members
    assert not torch.equal(*state.clients["head.weight"][drawn[:2]])


@pytest.mark.parametrize("name", ["fedper", "fedrep"])
def test_a_newcomer_trains_a_head_of_its_own_on_the_body_as_it_is(
    task: Task, make_population: Population, name: str
) -> None:
    clients = make_population()
    method = make_method(name, local_lr=0.05, novel_steps=1)
    state = train(method, task, clients, CONFIG, seed=0)
    support = make_population(seed=1).support_of(0)
    x = support.x

    def served(state: State, seed: int) -> torch.Tensor:
        return method.personalize(task, state, support, generator=generator(seed))(x)

    swapped = State(state.server, {k: torch.full_like(v, 9.0) for k, v in state.clients.items()})
    assert torch.equal(served(state, 0), served(swapped, 0))
    assert not torch.equal(served(state, 0), served(state, 1))
    dead = {k: torch.zeros_like(v) for k, v in state.server.items()}
    # With a dead body, frozen, only the bias of the head can differ: the same logits everywhere.
    logits = served(State(dead, state.clients), 0)
    assert torch.equal(logits, logits[:1].expand_as(logits))


@pytest.mark.parametrize("finetuned", ["whole", "head"])
def test_fedbabu_trains_no_head_before_somebody_is_served(
    task: Task, make_population: Population, finetuned: str
) -> None:
    clients, method = make_population(), make_method("fedbabu", local_lr=0.05, finetuned=finetuned)
    begun = initial_state(method, task, clients, CONFIG, seed=0)
    state = train(method, task, clients, CONFIG, seed=0)
    assert set(part(state.server, "head")) == set(state.clients) == HEAD
    for name in HEAD:
        assert torch.equal(state.server[f"head.{name}"], begun.server[f"head.{name}"])
        assert torch.equal(state.clients[name], begun.clients[name])
    assert not any(torch.equal(state.server[f"body.{k}"], begun.server[f"body.{k}"]) for k in BODY)
    support = make_population(seed=1).support_of(0)
    # Under a dead body the trained head alone can tell: the same logits for every input.
    dead = {k: v * 0 if k.startswith("body") else v for k, v in state.server.items()}
    served = method.personalize(task, State(dead, state.clients), support, generator=generator())
    logits = served(support.x)
    assert bool(logits.any())
    frozen = torch.equal(logits, logits[:1].expand_as(logits))
    assert frozen or finetuned == "whole"
    seen = method.serve(task, state, 0, support, generator=generator())(support.x)
    novel = method.personalize(task, state, support, generator=generator())(support.x)
    assert torch.equal(seen, novel)


def test_lg_fedavg_is_fedavg_and_then_trains_bodies_under_a_shared_head(
    task: Task, make_population: Population
) -> None:
    clients = make_population()
    method = make_method("lg_fedavg", local_lr=0.05, local_share=0.5)
    state = train(method, task, clients, CONFIG, seed=0)
    fedavg = make_method("fedavg", local_lr=0.05)
    halfway = train(fedavg, task, clients, replace(CONFIG, rounds=3), seed=0)
    shared, global_ = part(state.server, "target"), part(halfway.server, "target")
    assert all(torch.equal(shared[k], global_[k]) for k in BODY)
    assert not any(torch.equal(shared[k], global_[k]) for k in HEAD)
    schedule = Schedule(0, clients, CONFIG)
    drawn = {int(m) for number in (3, 4, 5) for m in schedule.cohort(number).members}
    assert 3 <= len(drawn) < 8
    assert {i for i in range(8) if state.clients["has_body"][i]} == drawn
    support, x = clients.support_of(0), clients.query_of(0).x
    for index in range(8):
        served = method.serve(task, state, index, support, generator=generator())(x)
        assert torch.equal(served, task.logits(shared, x)) == (index not in drawn)
