"""PeFLL trained on a bound: strengths of the regularisers, and the gradient they amount to."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from formula_federation import Population, kept_rounds
from torch import Tensor

from latecomer.bounds import pefll_b1, two_step_kl
from latecomer.models.engine.optimizers import adamw, adamw_memory
from latecomer.models.engine.training import Checkpoint, TrainConfig, initial_state, train
from latecomer.models.families.generated_clients import GeneratedClients
from latecomer.models.methods import make_method
from latecomer.models.methods.pefll import PeFLL
from latecomer.models.posteriors import DELTA, LOSS_MAX, STRONGEST, bounded_loss, strengths
from latecomer.models.task.state import Params, State, part
from latecomer.models.task.task import Task, make_task
from latecomer.models.traffic import random_population

SQUARES, VARIANCES = (3.0, 2.0, 0.4), (0.1, 0.2, 0.5)
N, M = 30, 80
CALCULATORS = {"bound": pefll_b1, "bound_kl": two_step_kl}


def value(objective: str, risk: float, squares: Sequence[float]) -> float:
    hyper, encoder, theta = squares
    return float(
        CALCULATORS[objective](
            empirical_risk=risk,
            kl_hyper=hyper / 0.2 + encoder / 0.4,
            sum_kl=N * theta / 1.0,
            n_clients=N,
            n_samples=M,
            delta=DELTA,
        )
    )


@pytest.mark.parametrize("objective", list(CALCULATORS))
def test_risk_and_ridges_fall_as_the_bound_does(objective: str) -> None:
    """Moving each quantity a little changes the bound as it changes the ridge-regularised loss."""
    risk, step = 0.2, 1e-5
    found = strengths(objective, risk, SQUARES, VARIANCES, n_clients=N, n_samples=M)

    def slope(up: float, down: float) -> float:
        return (up - down) / (2 * step)

    by_risk = slope(*(value(objective, risk + s * step, SQUARES) for s in (1, -1)))
    assert max(found.values()) < STRONGEST, "nothing is cut here"
    for place, name in enumerate(("hyper", "encoder", "theta")):
        along = step * np.eye(3)[place]
        ends = [value(objective, risk, SQUARES + s * along) for s in (1, -1)]
        # A mean loss in nats is LOSS_MAX times the risk.
        expected = slope(*ends) / (by_risk / LOSS_MAX)
        assert found[name] == pytest.approx(expected, rel=1e-4)


def test_a_saturated_bound_gives_finite_strengths() -> None:
    found = strengths("bound_kl", 0.5, (1e9, 2.0, 1e9), VARIANCES, n_clients=N, n_samples=M)
    assert all(0 <= one <= STRONGEST for one in found.values())


@pytest.mark.thinned
@pytest.mark.slow
@pytest.mark.parametrize("path", ["serial", "vectorised"])
@pytest.mark.parametrize("objective", ["bound", "bound_kl"])
def test_training_on_a_bound_learns_and_holds_weights_down(
    objective: str, path: str, task: Task, make_population: Population
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


@dataclass(frozen=True, kw_only=True)
class AtItsMeans(PeFLL):
    """PeFLL whose draws are their means, so that its objective is a number."""

    def draw_networks(self, eta: Params, generator: torch.Generator) -> Params:
        return eta

    def draw_target(self, theta: Params, generator: torch.Generator) -> Params:
        return theta


RIDGE = 0.3


@dataclass(frozen=True, kw_only=True)
class Quadratic(AtItsMeans):
    """All clients' weights are one vector w of the server's; loss ``|w - 2|^2 / 2`` and ridges.

    With a ridge on w as the hypernetwork and as the target the sum is least at ``2 / (1 + 4 s)``.
    """

    def make(self, task: Task, table: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Params:
        w = table["hyper.w"] + 0 * table["encoder.v"].sum()
        return {"w": w.expand(len(x), -1)}

    def start(self, task, state, clients, cohort, generator):  # type: ignore[no-untyped-def]
        begun = GeneratedClients.start(self, task, state, clients, cohort, generator)
        kinds = ("hyper", "encoder", "theta")
        return replace(
            begun, shared={kind: torch.tensor(RIDGE, dtype=torch.float64) for kind in kinds}
        )

    def objective(self, task, params, context, batches, step):  # type: ignore[no-untyped-def]
        w = params["w"]
        return (w - 2).square().sum() / 2 + context.shared["theta"] * w.square().sum()


def quadratic_after(w: float, rounds: int, **settings: float) -> Tensor:
    """Return the vector after rounds that begin at w."""
    task = make_task(input_shape=(3,), n_classes=2, dtype=torch.float64)
    clients = random_population(task, 4)
    method = Quadratic(training_objective="bound", posterior="gaussian", **settings)
    config = TrainConfig(rounds=rounds, cohort=4, local_steps=1, batch_size=2)
    begun = initial_state(method, task, clients, config, seed=0)
    table = {
        "hyper.w": torch.full((5,), w, dtype=torch.float64),
        "encoder.v": torch.ones(2).double(),
    }
    memory = {
        f"{kind}_adamw.{key}": value
        for kind in ("hyper", "encoder")
        for key, value in adamw_memory(part(table, kind)).items()
    }
    kept = {key: v for key, v in begun.server.items() if key.startswith("descriptor")}
    state = State(table | memory | kept)
    after = train(method, task, clients, config, seed=0, resume=Checkpoint(0, state))
    found: Tensor = after.server["hyper.w"]
    return found


@pytest.mark.slow
def test_a_minimiser_of_risk_and_ridges_is_where_training_stays_and_ends() -> None:
    least = 2 / (1 + 4 * RIDGE)
    at_least = torch.full((5,), least, dtype=torch.float64)
    stayed = quadratic_after(least, 1, server_lr=1e-2, local_lr=0.01)
    torch.testing.assert_close(stayed, at_least, rtol=0, atol=1e-9)
    # Adam makes much of the last bits, but less than a step.
    stayed = quadratic_after(least, 30, server_lr=1e-2, local_lr=0.01)
    torch.testing.assert_close(stayed, at_least, rtol=0, atol=2e-3)
    for begun in (least - 0.2, least + 0.2):
        ended = quadratic_after(begun, 200, server_lr=1e-2, local_lr=0.01)
        torch.testing.assert_close(ended, at_least, rtol=0, atol=2e-3)


def test_decoupled_decays_of_the_same_strength_leave_the_minimiser() -> None:
    w = {"w": torch.full((5,), 2 / (1 + 4 * RIDGE), dtype=torch.float64)}
    memory = adamw_memory(w)
    for _ in range(600):
        slope = {"w": 0.01 * (w["w"] - 2 + 2 * RIDGE * w["w"])}
        w, memory = adamw(w, slope, memory, lr=1e-2, weight_decay=2 * RIDGE)
    assert float((w["w"] - 2 / (1 + 4 * RIDGE)).abs().min()) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("objective", list(CALCULATORS))
def test_the_bound_falls_with_every_full_batch_step_of_small_rate(
    objective: str, make_population: Population
) -> None:
    task = make_task(
        input_shape=(6,), n_classes=4, dtype=torch.float64, hypernetwork={"hidden": 1, "width": 20}
    )
    clients = make_population(dtype=torch.float64)
    settings = {"alpha_h": 50.0, "alpha_v": 50.0, "alpha_theta": 50.0}
    method = AtItsMeans(
        training_objective=objective,
        posterior="gaussian",
        server_lr=1e-4,
        local_lr=1e-3,
        **settings,
    )
    config = TrainConfig(rounds=25, cohort=8, local_steps=1, batch_size=12)
    parts = method, task, clients, config
    _, kept = kept_rounds(*parts, seed=0)
    begun = initial_state(*parts, seed=0)

    def bound(server: Params) -> float:
        state, risk = State(server), 0.0
        for index in range(8):
            support = clients.support_of(index)
            served = method.personalize(
                task, state, support, predictor="deterministic", generator=torch.Generator()
            )
            risk += float(bounded_loss(served(support.x), support.labels())) / LOSS_MAX / 8
        norms = method.posterior_norms(task, state, clients)
        return float(
            CALCULATORS[objective](
                empirical_risk=risk,
                kl_hyper=(norms.eta_h_squared + norms.eta_v_squared) / 100,
                sum_kl=float(norms.theta_squared.sum()) / 100,
                n_clients=8,
                n_samples=12,
                delta=DELTA,
            )
        )

    values = [bound(begun.server), *(bound(done.state.server) for done in kept)]
    assert all(after < before for before, after in itertools.pairwise(values))
    assert values[0] - values[-1] > 1e-3
