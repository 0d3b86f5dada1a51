"""Ditto and APFL: a global model that is FedAvg's, and what a client has beside it."""

from dataclasses import replace

import pytest
import torch
from formula_federation import Population, generator, kept_rounds, model_of

from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import initial_state, train
from latecomer.models.families.global_weights import own_weights
from latecomer.models.methods import make_method
from latecomer.models.methods.apfl import mixed
from latecomer.models.task.state import part
from latecomer.models.task.task import Task

CONFIG = TrainConfig(rounds=6, cohort=3, local_steps=4, batch_size=5)
SETTINGS = {"ditto": {"lam": 3.0}, "apfl": {"alpha": 0.7}}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("clip", [0.3, 50.0])
def test_the_global_model_is_fedavgs_whatever_the_own_weights_do(
    task: Task, make_population: Population, name: str, clip: float
) -> None:
    clients, step = make_population(), {"local_lr": 0.05, "clip_norm": clip}
    method, fedavg = make_method(name, **step, **SETTINGS[name]), make_method("fedavg", **step)
    found, wanted = (train(one, task, clients, CONFIG, seed=0) for one in (method, fedavg))
    assert list(found.server) == list(wanted.server)
    assert all(torch.equal(found.server[key], wanted.server[key]) for key in wanted.server)


@pytest.mark.parametrize(
    ("name", "settings"), [("ditto", {"lam": 0}), ("apfl", {"alpha": 1, "mixture": "fixed"})]
)
def test_untied_newcomers_are_fine_tuned(
    task: Task, make_population: Population, name: str, settings: dict[str, float]
) -> None:
    clients, support = make_population(), make_population(seed=1).support_of(0)
    logits = []
    for method in (make_method(name, **settings), make_method("fedavg_ft")):
        state = train(method, task, clients, CONFIG, seed=0)
        logits.append(method.personalize(task, state, support, generator=generator())(support.x))
    assert torch.equal(*logits)


@pytest.mark.slow
def test_a_stronger_tie_leaves_models_nearer_to_the_global_one(
    task: Task, make_population: Population
) -> None:
    clients, support = make_population(), make_population(seed=1).support_of(0)
    gaps = []
    for lam in (0.0, 1.0, 10.0):
        method = make_method("ditto", local_lr=0.02, lam=lam, local_weight_decay=0)
        state = train(method, task, clients, replace(CONFIG, rounds=40), seed=0)
        shared = task.logits(part(state.server, "target"), support.x)
        newcomer = method.personalize(task, state, support, generator=generator())(support.x)
        member = task.logits(own_weights(state, 0), support.x)
        gaps.append([float((made - shared).norm()) for made in (newcomer, member)])
    assert all(far > near for far, near in zip(gaps[0] + gaps[1], gaps[1] + gaps[2], strict=True))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_client_that_never_trained_is_served_as_a_newcomer(
    task: Task, make_population: Population, name: str
) -> None:
    clients, method = make_population(), make_method(name, local_lr=0.05)
    config = replace(CONFIG, rounds=2)
    state = train(method, task, clients, config, seed=0)
    drawn = {int(m) for n in range(2) for m in Schedule(0, clients, config).cohort(n).members}
    assert {i for i in range(8) if state.clients["has_own"][i]} == drawn < set(range(8))
    for index in range(8):
        support = clients.support_of(index)
        served, newcomer = (
            model_of(method, task, state, support, member)(support.x) for member in (index, None)
        )
        assert torch.equal(served, newcomer) == (index not in drawn)


def test_alpha_moves_along_its_gradient_once_a_round_and_stays_a_share(
    task: Task, make_population: Population
) -> None:
    # As if the clients had trained before: own and global weights differ.
    clients, config = make_population(dtype=torch.float64), replace(CONFIG, rounds=3)
    task = replace(task, target=task.target.to(torch.float64))
    method = make_method("apfl", local_lr=0.05)
    _, (_, second, third) = kept_rounds(method, task, clients, config, seed=0)
    before, state = second.state, third.state
    cohort = Schedule(0, clients, config).cohort(2)
    w, moved = part(before.server, "target"), 0
    for place, member in enumerate(cohort.members.tolist()):
        v, alpha = own_weights(before, member), before.clients["alpha"][member]
        point = {key: value.requires_grad_() for key, value in mixed(float(alpha), v, w).items()}
        rows = cohort.rows[place, 0, 0]
        task.loss(point, clients.inputs(rows), clients.labels(rows)).backward()
        slope = sum(float(((v[k] - w[k]) * p.grad).sum()) for k, p in point.items())
        wanted = float(alpha) - 0.05 * slope
        assert float(state.clients["alpha"][member]) == pytest.approx(wanted, rel=1e-9)
        moved += abs(slope) > 1e-3
    assert moved, "no client had anything to learn its share from"
    resting = [i for i in range(8) if i not in cohort.members.tolist()]
    assert torch.equal(state.clients["alpha"][resting], before.clients["alpha"][resting])
    fierce = train(make_method("apfl", local_lr=20.0), task, clients, config, seed=0)
    assert bool(((fierce.clients["alpha"] >= 0) & (fierce.clients["alpha"] <= 1)).all())
    assert bool((fierce.clients["alpha"] != 0.5).any())


def test_a_fixed_alpha_stays(task: Task, make_population: Population) -> None:
    clients, method = make_population(), make_method("apfl", alpha=0.25, mixture="fixed")
    begun = initial_state(method, task, clients, CONFIG, seed=0)
    state = train(method, task, clients, CONFIG, seed=0)
    assert torch.equal(state.clients["alpha"], begun.clients["alpha"])
    support = clients.support_of(0)
    served = method.serve(task, state, 0, support, generator=generator())(support.x)
    v, w = own_weights(state, 0), part(state.server, "target")
    mean = {key: 0.25 * value + 0.75 * w[key] for key, value in v.items()}
    torch.testing.assert_close(served, task.logits(mean, support.x))
