"""Populations that grow while a method trains."""

from dataclasses import replace

import pytest
import torch
from formula_federation import Population, model_of, same

from latecomer.models.engine.schedule import Schedule
from latecomer.models.engine.training import TrainConfig, admit, subset, train, train_on
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

CONFIG = TrainConfig(rounds=4, cohort=3, local_steps=2, batch_size=6)
TWO = replace(CONFIG, rounds=2)


def test_a_subset_holds_the_clients_asked_for_in_that_order(
    make_population: Population,
) -> None:
    clients = make_population(sizes=(5, 6, 7, 8))
    chosen = subset(clients, [3, 1])
    assert chosen.ids.tolist() == [103, 101]
    assert chosen.support_sizes.tolist() == [8, 6]
    assert torch.equal(chosen.support_of(1).x, clients.support_of(1).x)
    assert torch.equal(chosen.query_of(0).x, clients.query_of(3).x)


@pytest.mark.parametrize("name", ["fedavg", "pefll", "fedper", "pfedhn"])
def test_training_on_goes_on_where_training_stopped(
    name: str, task: Task, make_population: Population
) -> None:
    clients, method = make_population(), make_method(name)
    whole = train(method, task, clients, CONFIG, seed=3)
    half = train(method, task, clients, TWO, seed=3)
    assert not same(whole, half)
    assert same(whole, train_on(method, task, half, clients, TWO, seed=3, first_round=2))


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_takes_in_clients_and_leaves_the_others_as_they_are(
    name: str, task: Task, make_population: Population
) -> None:
    clients, method = make_population(), make_method(name)
    config = replace(CONFIG, rounds=1)
    before = train(method, task, subset(clients, range(6)), config, seed=0)
    grown = admit(method, task, before, clients, config, seed=0)
    assert same(State(before.server), State(grown.server))
    for key, value in grown.clients.items():
        assert len(value) == 8
        assert torch.equal(value[:6], before.clients[key])
    after = train_on(method, task, grown, clients, config, seed=0, first_round=1, joined=[6, 7])
    model = model_of(method, task, after, clients.support_of(7), 7)
    assert model(clients.query_of(7).x).shape == (8, 4)


def test_what_joins_comes_from_the_joining_clients_data(
    task: Task, make_population: Population
) -> None:
    clients = make_population()
    method = make_method("pfedhn", descriptors="class_proportions")
    before = train(method, task, subset(clients, range(6)), CONFIG, seed=0)
    grown = admit(method, task, before, clients, CONFIG, seed=0)
    assert grown.clients["embedding"][7].tolist() == [0.5, 0, 0, 0.5]


def test_tables_that_cannot_grow_are_refused_in_one_line(
    task: Task, make_population: Population
) -> None:
    clients = make_population(sizes=(12,) * 7 + (40,))
    method = make_method("pfl_nearest")
    state = train(method, task, subset(clients, range(6)), CONFIG, seed=0)
    with pytest.raises(ValueError, match=r"pfl_nearest cannot take in a client .* inputs") as found:
        admit(method, task, state, clients, CONFIG, seed=0)
    assert "\n" not in str(found.value)


def test_clients_that_join_train_first(task: Task, make_population: Population) -> None:
    schedule = Schedule(0, make_population(), CONFIG)
    for number in range(20):
        plain = schedule.cohort(number).members.tolist()
        with_both = schedule.cohort(number, include=[7, 2]).members.tolist()
        assert with_both[:2] == [7, 2]
        assert len(set(with_both)) == 3
        assert with_both[2] == next(member for member in plain if member not in (7, 2))


def test_more_clients_than_places_are_refused(task: Task, make_population: Population) -> None:
    clients, method = make_population(), make_method("fedavg")
    state = train(method, task, clients, TWO, seed=0)
    with pytest.raises(ValueError, match=r"joined must be at most rounds x cohort = 6 clients"):
        train_on(
            method, task, state, clients, TWO, seed=0, first_round=2, joined=[0, 1, 2, 3, 4, 5, 6]
        )
