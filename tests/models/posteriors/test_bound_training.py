"""PeFLL trained on a bound: strengths of the regularisers, and the gradient they amount to."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from latecomer.bounds import pefll_b1, two_step_kl
from latecomer.models.engine.training import TrainConfig, train
from latecomer.models.methods import make_method
from latecomer.models.posteriors.bound_training import (
    DELTA,
    LOSS_MAX,
    STRONGEST,
    Norms,
    bounded_loss,
    strengths,
)
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import part
from latecomer.models.task.task import Task

NORMS = Norms(hyper=3.0, encoder=2.0, theta=0.4, alpha_h=0.1, alpha_v=0.2, alpha_theta=0.5)
N, M = 30, 80
CALCULATORS = {"bound": pefll_b1, "bound_kl": two_step_kl}


def value(objective: str, risk: float, norms: Norms) -> float:
    return float(
        CALCULATORS[objective](
            empirical_risk=risk,
            kl_hyper=norms.hyper / 0.2 + norms.encoder / 0.4,
            sum_kl=N * norms.theta / 1.0,
            n_clients=N,
            n_samples=M,
            delta=DELTA,
        )
    )


@pytest.mark.parametrize("objective", list(CALCULATORS))
def test_risk_and_ridges_fall_as_the_bound_does(objective: str) -> None:
    """Moving each quantity a little changes the bound as it changes the ridge-regularised loss."""
    risk, step = 0.2, 1e-5
    found = strengths(objective, risk, NORMS, n_clients=N, n_samples=M)

    def slope(up: float, down: float) -> float:
        return (up - down) / (2 * step)

    by_risk = slope(*(value(objective, risk + s * step, NORMS) for s in (1, -1)))
    assert max(found.hyper, found.encoder, found.theta) < STRONGEST, "nothing is cut here"
    for name in ("hyper", "encoder", "theta"):
        ends = [
            value(objective, risk, replace(NORMS, **{name: getattr(NORMS, name) + s * step}))
            for s in (1, -1)
        ]
        # A mean loss in nats is LOSS_MAX times the risk.
        expected = slope(*ends) / (by_risk / LOSS_MAX)
        assert getattr(found, name) == pytest.approx(expected, rel=1e-4)


def test_a_saturated_bound_gives_finite_strengths() -> None:
    huge = replace(NORMS, hyper=1e9, theta=1e9)
    found = strengths("bound_kl", 0.5, huge, n_clients=N, n_samples=M)
    assert all(0 <= one <= STRONGEST for one in (found.hyper, found.encoder, found.theta))


@pytest.mark.parametrize("path", ["serial", "vectorised"])
@pytest.mark.parametrize("objective", ["bound", "bound_kl"])
def test_training_on_a_bound_learns_and_holds_weights_down(
    objective: str, path: str, task: Task, make_population: Callable[..., Clients]
) -> None:
    clients = make_population()
    config = TrainConfig(rounds=40, cohort=4, local_steps=5, batch_size=6)
    settings = {
        "posterior": "gaussian",
        "alpha_h": 1e-3,
        "alpha_v": 1e-3,
        "alpha_theta": 1e-3,
        "server_lr": 2e-3,
        "local_lr": 0.05,
    }
    method = make_method("pefll", training_objective=objective, **settings)

    def loss(state: object, rounds: int) -> float:
        total = 0.0
        for index in range(len(clients)):
            support, query = clients.support_of(index), clients.query_of(index)
            model = method.personalize(task, state, support, generator=torch.Generator())
            total += float(bounded_loss(model(query.x), query.labels()))
        return total / len(clients)

    few = train(method, task, clients, replace(config, rounds=1), seed=0, path=path)
    many = train(method, task, clients, config, seed=0, path=path)
    assert loss(many, 40) < loss(few, 1)
    assert set(part(many.server, "hyper")) == set(part(few.server, "hyper"))


def test_a_bound_needs_a_posterior() -> None:
    for wrong in ({}, {"posterior": "gaussian", "alpha_h": 0.0}):
        with pytest.raises(ValueError, match="training_objective must be pefll without"):
            make_method("pefll", training_objective="bound", **wrong)


def test_the_usual_objective_is_untouched(
    task: Task, make_population: Callable[..., Clients]
) -> None:
    clients = make_population()
    config = TrainConfig(rounds=2, cohort=4, local_steps=2, batch_size=6)
    plain = train(make_method("pefll"), task, clients, config, seed=0)
    named = train(make_method("pefll", training_objective="pefll"), task, clients, config, seed=0)
    assert all(bool((plain.server[k] == named.server[k]).all()) for k in plain.server)
