"""SCAFFOLD: what the control variates are, and what they do to drift."""

from dataclasses import replace

import pytest
import torch
from formula_federation import Population

from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State, part
from latecomer.models.task.task import Task

CONFIG = TrainConfig(rounds=3, cohort=4, local_steps=5, batch_size=12)


@pytest.fixture
def double(task: Task) -> Task:
    return replace(task, target=task.target.to(torch.float64))


def trained(
    task: Task, clients: Clients, rounds: int, name: str = "scaffold", **own: float
) -> State:
    settings = {"local_lr": 0.05, "local_weight_decay": 0.0, **own}
    config = replace(CONFIG, rounds=rounds)
    return train(make_method(name, **settings), task, clients, config, seed=0)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_first_round_is_fedavgs_for_clients_of_one_size(
    double: Task, make_population: Population, momentum: float
) -> None:
    clients = make_population((9,) * 8, dtype=torch.float64)
    for rounds, alike in ((1, True), (2, False)):
        found, wanted = (
            trained(double, clients, rounds, name, local_momentum=momentum)
            for name in ("scaffold", "fedavg")
        )
        near = all(
            torch.allclose(found.server[key], value, rtol=1e-10, atol=1e-13)
            for key, value in wanted.server.items()
        )
        assert near == alike


def test_clients_weigh_the_same_whatever_they_hold(
    double: Task, make_population: Population
) -> None:
    clients = make_population((2, 40, 5, 9), dtype=torch.float64)
    start = double.initial(Schedule(0, clients, CONFIG).initial_noise())
    state = trained(double, clients, 1, local_momentum=0.0)
    for key, value in start.items():
        # In the first round a client's control variate is its change, divided by its steps.
        changes = -CONFIG.local_steps * 0.05 * state.clients[f"control.{key}"]
        torch.testing.assert_close(state.server[f"target.{key}"] - value, changes.mean(dim=0))


def test_the_servers_control_variate_is_the_mean_over_all_seen_clients(
    double: Task, make_population: Population
) -> None:
    state = trained(double, make_population((3, 20, 7, 11, 5, 1), dtype=torch.float64), 5)
    for key, value in part(state.server, "control").items():
        torch.testing.assert_close(value, state.clients[f"control.{key}"].mean(dim=0))
        assert bool(value.any())


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_control_variate_is_the_gradient_that_the_client_saw(
    double: Task, make_population: Population, momentum: float
) -> None:
    # Steps so short that the gradient stays what it was, on whole clients: one gradient for all.
    clients = make_population((12,) * 8, dtype=torch.float64)
    schedule = Schedule(0, clients, CONFIG)
    start = double.initial(schedule.initial_noise())
    state = trained(double, clients, 1, local_lr=1e-9, local_momentum=momentum)
    for index in schedule.cohort(0).members.tolist():
        point = {key: value.clone().requires_grad_() for key, value in start.items()}
        support = clients.support_of(index)
        double.loss(point, support.x, support.labels()).backward()
        for key, value in point.items():
            found = state.clients[f"control.{key}"][index]
            torch.testing.assert_close(found, value.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.nightly
def test_clients_without_drift_stay_where_all_agree(
    double: Task, make_population: Population
) -> None:
    """With every client in every round it comes to rest where FedAvg's clients pull apart."""
    clients = make_population((12,) * 8, dtype=torch.float64)
    config = replace(CONFIG, rounds=400, cohort=8, local_steps=10)
    norms = []
    for name in ("scaffold", "fedavg"):
        # The ridge gives the sum of the clients' losses a minimum to come to rest in.
        settings = {"local_lr": 0.1, "local_momentum": 0.0, "local_weight_decay": 0.02}
        state = train(make_method(name, **settings), double, clients, config, seed=0)
        point = {k: v.clone().requires_grad_() for k, v in part(state.server, "target").items()}
        losses = [
            double.loss(point, one.x, one.labels()) for one in map(clients.support_of, range(8))
        ]
        torch.stack(losses).mean().backward()
        slopes = [value.grad + 0.02 * value.detach() for value in point.values()]
        norms.append(float(torch.cat([slope.flatten() for slope in slopes]).norm()))
    assert norms[0] < 0.1 * norms[1]
