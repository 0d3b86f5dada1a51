"""ODPFL-HN: sets without labels, and gradients by the chain rule."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from formula_federation import generator

from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import initial_state, train
from latecomer.models.generators.unlabelled_encoders import deep_sets
from latecomer.models.methods.odpfl_hn import ODPFLHN
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import State, part
from latecomer.models.task.task import Task

CONFIG = TrainConfig(rounds=3, cohort=3, local_steps=4, batch_size=5)


def test_half_the_units_are_averaged_and_of_half_the_largest_taken(task: Task) -> None:
    encoder = deep_sets(task, 4, 4)
    params = encoder.initial(generator()) | {"psi.weight": torch.eye(4), "psi.bias": torch.zeros(4)}
    x = torch.randn(1, 9, 6, generator=generator(1))
    units = torch.relu(
        torch.cat([encoder.phi.stateless(part(params, "phi"), one[None]) for one in x[0]])  # type: ignore[operator]
    )
    expected = torch.cat([units[:, :2].mean(0), units[:, 2:].amax(0)])
    torch.testing.assert_close(encoder(params, x)[0], expected)


SIZES = (12, 7, 12, 9, 3, 12, 12, 1)


def test_serving_and_generation_never_read_labels(
    task: Task, make_population: Callable[..., Clients]
) -> None:
    clients, method = make_population(), ODPFLHN(local_lr=0.05)
    poisoned = replace(clients, y=(clients.y + 1) % 4)
    cohort = Schedule(0, clients, CONFIG).cohort(0)
    state = method.init(task, clients, cohort, generator())
    made = [
        method.start(task, state, table, cohort, generator()).params
        for table in (clients, poisoned)
    ]
    assert all(torch.equal(made[0][key], made[1][key]) for key in made[0])
    trained = train(method, task, clients, CONFIG, seed=0)
    support, x = clients.support_of(2), clients.query_of(2).x
    served = [
        method.serve(task, trained, 2, Samples(support.x, y), generator=generator())(x)
        for y in (support.y, None)
    ]
    assert torch.equal(*served)


def test_descriptors_are_standardised_by_the_first_cohort_for_good(
    task: Task, make_population: Callable[..., Clients]
) -> None:
    clients, method = make_population(SIZES), ODPFLHN(local_lr=0.05)
    first = Schedule(0, clients, CONFIG).cohort(0)
    state = method.init(task, clients, first, Schedule(0, clients, CONFIG).initial_noise())
    found = torch.stack(
        [method.describe(task, state, clients.support_of(i)) for i in first.members.tolist()]
    )
    torch.testing.assert_close(found.mean(dim=0), torch.zeros(2), atol=1e-5, rtol=0)
    spread = found.std(dim=0)
    assert float(spread.max()) == pytest.approx(1, abs=1e-4)
    # A coordinate that hardly differs is not blown up beyond four times the coordinates' own size.
    raw = spread * state.server["descriptor.sd"]
    floor = raw.square().mean().sqrt() / 4
    torch.testing.assert_close(state.server["descriptor.sd"], raw.clamp_min(float(floor)))
    after = train(method, task, clients, CONFIG, seed=0)
    for key, value in part(state.server, "descriptor").items():
        assert torch.equal(after.server[f"descriptor.{key}"], value)
    # Of a single client there is nothing to standardise by, and nothing becomes infinite.
    alone = train(method, task, clients, replace(CONFIG, cohort=1), seed=0)
    assert bool((alone.server["descriptor.sd"] == 1).all())
    assert bool(torch.isfinite(method.describe(task, alone, clients.support_of(0))).all())


def test_clients_are_served_by_the_running_mean_of_the_networks(
    task: Task, make_population: Callable[..., Clients]
) -> None:
    clients = make_population(SIZES)
    method = ODPFLHN(local_lr=0.05, averaging=0.3)
    states: list[State] = []
    last = train(
        method, task, clients, CONFIG, seed=0, on_checkpoint=lambda c: states.append(c.copy().state)
    )
    mean = initial_state(method, task, clients, CONFIG, seed=0).server["hyper.trunk0.weight"]
    for number, state in enumerate(states):
        decay = min(0.3, (1 + number) / (10 + number))
        mean = decay * mean + (1 - decay) * state.server["hyper.trunk0.weight"]
    torch.testing.assert_close(last.server["mean.hyper.trunk0.weight"], mean)
    # Training itself knows nothing of it.
    plain = train(replace(method, averaging=0), task, clients, CONFIG, seed=0).server
    assert not any(key.startswith("mean.") for key in plain)
    assert all(torch.equal(last.server[key], value) for key, value in plain.items())
    support, x = clients.support_of(0), clients.query_of(0).x
    averaged = {**plain, **part(last.server, "mean")}
    bare = replace(method, averaging=0)
    expected = bare.personalize(task, State(averaged), support, generator=generator())(x)
    found = method.personalize(task, last, support, generator=generator())(x)
    assert torch.equal(found, expected)
    assert not torch.equal(
        found, bare.personalize(task, State(plain), support, generator=generator())(x)
    )


def test_every_sample_of_a_client_describes_it_in_training(
    task: Task, make_population: Callable[..., Clients]
) -> None:
    clients, method = make_population(), ODPFLHN()
    cohort = Schedule(0, clients, CONFIG).cohort(0)
    state = method.init(task, clients, cohort, generator())
    before = method.start(task, state, clients, cohort, generator()).params
    outside = set(clients.support[cohort.members[0]].tolist())
    outside -= set(cohort.descriptor_rows[0].tolist()) | set(cohort.rows[0].flatten().tolist())
    x = clients.x.clone()
    x[outside.pop()] += 3.0
    after = method.start(task, state, replace(clients, x=x), cohort, generator()).params
    moved = [not torch.equal(before["head.weight"][i], after["head.weight"][i]) for i in range(3)]
    assert moved == [True, False, False]
