"""Theorem 3.1's quantities along a training: the true gradient, honest estimates, rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from latecomer.bounds import pefll_31, pefll_31_minT
from latecomer.errors import InputError
from latecomer.eval.measures.theorem31 import RATE_TERMS, jacobian_norm, quantities, slope, steepest
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.studies.checking import parse_study
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import initial_state, subset, train
from latecomer.models.generators import hypernetworks
from latecomer.models.methods.pefll import PeFLL
from latecomer.models.task.clients import Clients
from latecomer.models.task.task import make_task

RAW = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 10, "classes_per_client": 2, "novel": 7},
    "model": {"hypernetwork": {"hidden": 1, "width": 8}},
    "train": {"rounds": 3, "cohort": 2, "local_steps": 2, "batch_size": 4},
    "methods": [{"name": "pefll", "descriptor_dim": 3}],
    "evaluation": {"every": 2, "measures": ["convergence"]},
    "seeds": [3],
}
CONSTANTS = (
    *("smoothness", "loss_smoothness", "loss_gradient", "generator_gradient"),
    *("loss_noise", "generator_noise", "model_noise", "client_dissimilarity"),
)
METHOD = PeFLL(descriptor_dim=2, lambda_h=0.01, lambda_v=0.02, lambda_theta=0.03)
BUDGET = TrainConfig(rounds=3, cohort=2, local_steps=2, batch_size=3)


def config(**changes):
    study = parse_study({**RAW, **changes})
    return next(cell.config for cell in study.cells() if cell.kind == "method")


@pytest.fixture(scope="module")
def tiny():
    """Return task, clients and trained state, all in float64: 4 features, 3 classes, 5 clients."""
    task = make_task(
        input_shape=(4,), n_classes=3, target="dense", hypernetwork={"hidden": 1, "width": 6},
        dtype=torch.float64,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    sizes = torch.tensor([5, 7, 4, 6, 8])
    rows = torch.zeros(5, 8, dtype=torch.int64)
    for i, n in enumerate(sizes.tolist()):
        rows[i, :n] = torch.arange(n) + int(sizes[:i].sum())
    clients = Clients(
        x=torch.from_numpy(rng.normal(size=(30, 4))),
        y=torch.from_numpy(rng.integers(0, 3, 30)),
        support=rows,
        support_sizes=sizes,
        query=rows[:, :1],
        query_sizes=torch.ones(5, dtype=torch.int64),
        ids=torch.arange(5),
        mean=torch.zeros(4, dtype=torch.float64),
        sd=torch.ones(4, dtype=torch.float64),
    )
    return task, clients, train(METHOD, task, clients, BUDGET, seed=1)


def objective_at(task, clients, state, eta):
    """Write the objective of the theorem down as one number with its graph."""
    total = 0.0
    for i in range(len(clients)):
        support = clients.support_of(i)
        theta = hypernetworks.generate(
            task, {**state.server, **eta}, support.x[None], support.y[None]
        )
        theta = {name: value[0] for name, value in theta.items()}
        ridge = sum(value.square().sum() for value in theta.values())
        total = total + task.loss(theta, support.x, support.y) + METHOD.lambda_theta * ridge
    total = total / len(clients)
    for name, value in eta.items():
        strength = METHOD.lambda_h if name.startswith("hyper") else METHOD.lambda_v
        total = total + strength * value.square().sum()
    return total


def test_the_gradient_is_autograds_of_the_whole_objective(tiny):
    task, clients, state = tiny
    eta = {k: v.clone().requires_grad_() for k, v in hypernetworks.weights_of(state.server).items()}
    whole = objective_at(task, clients, state, eta)
    expected = dict(zip(eta, torch.autograd.grad(whole, [*eta.values()]), strict=True))
    found = slope(METHOD, task, state, clients)
    assert found.objective == pytest.approx(whole.item(), rel=1e-12)
    assert found.gradient.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found.gradient[name], value, rtol=1e-10, atol=1e-13)


def test_dissimilarity_is_the_spread_of_single_clients_gradients(tiny):
    task, clients, state = tiny
    without = replace(METHOD, lambda_h=0.0, lambda_v=0.0)
    single = []
    for i in range(len(clients)):
        gradient = slope(without, task, state, subset(clients, [i])).gradient
        single.append(torch.cat([value.flatten() for value in gradient.values()]))
    table = torch.stack(single)
    spread = (table - table.mean(dim=0)).square().sum(dim=1).mean().sqrt().item()
    assert slope(METHOD, task, state, clients).dissimilarity == pytest.approx(spread, rel=1e-9)


def test_a_jacobians_norm_is_found_from_below():
    rng = np.random.default_rng(1)
    matrix = torch.from_numpy(np.diag([5.0, 1.0, 0.5]) @ np.linalg.qr(rng.normal(size=(3, 3)))[0])
    point = {"a": torch.from_numpy(rng.normal(size=3))}
    found = jacobian_norm(lambda place: {"b": matrix @ place["a"]}, point, rng)
    assert 4.5 < found <= 5 + 1e-12


def test_steepness_is_found_from_below():
    curvature = torch.tensor([4.0, 1.0, 0.1], dtype=torch.float64)
    point = {"a": torch.ones(3, dtype=torch.float64)}

    def gradient_at(place):
        return {"a": curvature * place["a"]}

    assert 3.9 < steepest(gradient_at, point, gradient_at(point)) <= 4 + 1e-9


def test_noise_vanishes_where_a_batch_is_the_whole_support(tiny):
    task, clients, state = tiny
    only = subset(clients, [1])
    found = quantities(METHOD, task, state, only, batch_size=7, seed=0, rounds_done=1)
    for name in ("loss_noise", "generator_noise", "model_noise"):
        assert found[name] == pytest.approx(0, abs=1e-12)
    found = quantities(METHOD, task, state, only, batch_size=3, seed=0, rounds_done=1)
    for name in ("loss_noise", "generator_noise", "model_noise"):
        assert found[name] > 1e-4
    # One client differs from no other.
    assert found["client_dissimilarity"] == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_measuring_changes_no_number_of_the_training(outcome):
    plain = evaluate_cell(config(evaluation={"every": 2}))
    names = {row["metric"] for row in plain.rows}
    assert [row for row in outcome.rows if row["metric"] in names] == plain.rows
    assert outcome.artifacts["training_curve"] == plain.artifacts["training_curve"]
    assert "squared_gradient_norm" not in names
    assert "squared_gradient_norm" in {row["metric"] for row in outcome.rows}


def rows_of(outcome, metric, term=None):
    rows = [row for row in outcome.rows if row["metric"] == metric]
    return {row["round"]: row for row in rows if term is None or row.get("term", "") == term}


@pytest.fixture(scope="module")
def outcome():
    return evaluate_cell(config())


@pytest.mark.slow
def test_rows_bear_the_round_they_were_measured_in(outcome):
    norms = rows_of(outcome, "squared_gradient_norm")
    assert sorted(norms) == [0, 2, 3]
    means = rows_of(outcome, "mean_squared_gradient_norm")
    assert sorted(means) == [2, 3]
    expected = np.mean([norms[t]["value"] for t in (2, 3)])
    assert means[3]["value"] == pytest.approx(expected, rel=1e-12)
    errors = {row["round"] for row in outcome.rows if row["metric"] == "error"}
    assert errors == {3}


def test_the_rate_is_the_theorems_at_the_largest_constants(outcome):
    largest = {name: max(r["value"] for r in rows_of(outcome, name).values()) for name in CONSTANTS}
    assert min(largest.values()) > 0
    inputs = {"initial_gap": rows_of(outcome, "objective")[0]["value"], **largest}
    for t, row in rows_of(outcome, "convergence_rate", "").items():
        rate = pefll_31(**inputs, cohort=2, local_steps=2, batch_size=4, n_rounds=t)
        assert row["value"] == pytest.approx(float(rate), rel=1e-12)
        assert row["rigorous"] is False
        assert "no bound" in row["message"]
        terms = [rows_of(outcome, "convergence_rate", term)[t]["value"] for term in RATE_TERMS]
        assert math.fsum(terms) == pytest.approx(row["value"], rel=1e-12)
        assert min(terms) > 0
    least = pefll_31_minT(
        **{name: largest[name] for name in ("smoothness", "loss_smoothness")},
        cohort=2,
        local_steps=2,
    )
    assert rows_of(outcome, "convergence_rounds")[3]["value"] == pytest.approx(float(least))


def test_steps_are_written_down(outcome):
    steps = {r["term"]: r["value"] for r in outcome.rows if r["metric"] == "step_size"}
    assert steps["server"] == PeFLL().server_lr
    assert steps["clients"] == PeFLL().local_lr
    assert steps["theorem"] == pytest.approx(2 * math.sqrt(2) / (2 * math.sqrt(3)))


def test_the_first_state_is_the_one_that_training_begins_with(tiny):
    task, clients, _ = tiny
    offered = []
    budget = replace(BUDGET, rounds=1)
    train(METHOD, task, clients, budget, seed=4, on_checkpoint=offered.append)
    first = initial_state(METHOD, task, clients, budget, seed=4)
    longer = initial_state(METHOD, task, clients, BUDGET, seed=4)
    moved = offered[0].state.server
    assert all(torch.equal(value, longer.server[key]) for key, value in first.server.items())
    # One step of AdamW moves no weight further than its learning rate, decay aside.
    for name, value in hypernetworks.weights_of(first.server).items():
        gap = (moved[name] - value).abs().max().item()
        assert 0 < gap < 1.1 * METHOD.server_lr


@pytest.mark.parametrize(
    "method",
    [{"name": "pefll", "posterior": "gaussian", "descriptor_dim": 3}, {"name": "fedavg"}],
)
def test_other_methods_leave_it_out(method):
    found = evaluate_cell(config(methods=[method]))
    assert "squared_gradient_norm" not in {row["metric"] for row in found.rows}


def test_it_is_measured_along_a_training_or_not_at_all():
    with pytest.raises(InputError, match=r"evaluation\.every must be at least 1"):
        config(evaluation={"measures": ["convergence"]})
