"""pFedMe, kNN-Per and Hessian-free Per-FedAvg: their own rules."""

from collections import OrderedDict
from dataclasses import replace

import pytest
import torch
from formula_federation import Population, generator

from latecomer.models.engine.method import Context
from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.methods.knn_per import KNNPer
from latecomer.models.methods.per_fedavg import PerFedAvg
from latecomer.models.methods.pfedme import PFedMe
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, add, nest, part, row, subtract
from latecomer.models.task.task import Task, make_task

CONFIG = TrainConfig(rounds=4, cohort=3, local_steps=4, batch_size=5)


@pytest.fixture
def exact() -> Task:
    return make_task(input_shape=(6,), n_classes=4, dtype=torch.float64)


def test_pfedme_moves_along_the_gradient_of_the_envelope(
    make_population: Population,
) -> None:
    # A linear net: the envelope of a loss with kinks has its minima at the kinks.
    exact = make_task(
        input_shape=(6,), n_classes=4, target=torch.nn.Linear(6, 4), dtype=torch.float64
    )
    batch = make_population(dtype=torch.float64).support_of(0)
    method = PFedMe(lam=2.0, inner_steps=400, inner_lr=0.05, inner_weight_decay=0.0)
    here = {k: v.requires_grad_() for k, v in exact.initial(generator()).items()}

    def envelope(at: Params) -> torch.Tensor:
        params = at | nest("theta_i.", {k: v.detach() for k, v in at.items()})
        return method.objective(exact, params, Context(), (batch,), 0)

    value = envelope(here)
    slopes = torch.autograd.grad(value, list(here.values()))
    # The minimum over theta is smooth in w: a finite difference must agree with the gradient.
    draw = generator(3)
    away = {k: torch.randn(v.shape, generator=draw, dtype=v.dtype) * 1e-4 for k, v in here.items()}
    centre = {k: v.detach() for k, v in here.items()}
    rise = envelope(add(centre, away)) - envelope(subtract(centre, away))
    along = sum(2 * (s * d).sum() for s, d in zip(slopes, away.values(), strict=True))
    assert float(rise.detach()) == pytest.approx(float(along), rel=1e-4)


@pytest.mark.slow
def test_pfedme_serves_seen_clients_what_they_kept_and_others_like_newcomers(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population(), PFedMe(local_lr=0.02)
    config = replace(CONFIG, rounds=2, cohort=2)
    state = train(method, task, clients, config, seed=0)
    drawn = {int(m) for n in range(2) for m in Schedule(0, clients, config).cohort(n).members}
    assert 2 <= len(drawn) < 8
    for index in range(8):
        support, x = clients.support_of(index), clients.query_of(index).x
        kept = row(part(state.clients, "theta_i"), index)
        served = method.serve(task, state, index, support, generator=generator())(x)
        newcomer = method.personalize(task, state, support, generator=generator())(x)
        assert torch.equal(served, task.logits(kept, x)) == (index in drawn)
        assert torch.equal(served, newcomer) == (index not in drawn)


def test_a_strong_tie_of_pfedme_holds_newcomers(task: Task, make_population: Population) -> None:
    clients, support = make_population(), make_population(seed=1).support_of(0)
    state = train(PFedMe(), task, clients, CONFIG, seed=0)
    glob = task.logits(part(state.server, "target"), support.x)

    def distance(lam: float) -> float:
        method = PFedMe(lam=lam, inner_lr=0.01, finetune_steps=100)
        served = method.personalize(task, state, support, generator=generator())
        return float((served(support.x) - glob).norm())

    assert distance(50.0) < distance(1.0) < distance(0.01)


def test_hessian_free_gradient_is_the_derivative_of_the_adapted_loss(
    exact: Task, make_population: Population
) -> None:
    clients = make_population(dtype=torch.float64)
    first, second = clients.support_of(0), clients.support_of(1)
    here = {k: v.requires_grad_() for k, v in exact.initial(generator()).items()}
    method = PerFedAvg(variant="hessian_free", inner_lr=0.3, hf_delta=1e-6)
    # With the same batch for the adaptation and the Hessian it is the exact derivative.
    loss = method.objective(exact, here, Context(), (first, second, first), 0)
    found = torch.autograd.grad(loss, list(here.values()))
    inner = torch.autograd.grad(
        exact.loss(here, first.x, first.labels()), list(here.values()), create_graph=True
    )
    adapted = {k: v - 0.3 * g for (k, v), g in zip(here.items(), inner, strict=True)}
    outer = exact.loss(adapted, second.x, second.labels())
    assert loss.item() == pytest.approx(outer.item(), rel=1e-12)
    expected = torch.autograd.grad(outer, list(here.values()))
    plain = PerFedAvg(inner_lr=0.3).objective(exact, here, Context(), (first, second), 0)
    first_order = torch.autograd.grad(plain, list(here.values()))
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-7)
    assert not all(
        torch.allclose(left, right, rtol=1e-2)
        for left, right in zip(first_order, expected, strict=True)
    )


def test_knn_per_trains_like_fedavg_on_what_it_does_not_hold_back(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population((30, 12, 5, 2, 1)), KNNPer(local_lr=0.05)
    left = method.trained_on(clients)
    assert left.support_sizes.tolist() == [27, 10, 4, 1, 1]
    for index in range(5):
        rows = left.support[index, : int(left.support_sizes[index])].tolist()
        own = clients.support[index, : int(clients.support_sizes[index])].tolist()
        assert set(rows) <= set(own)
        assert len(set(rows)) == len(rows)
    states = [train(one, task, clients, CONFIG, seed=0) for one in (method, KNNPer(local_lr=0.05))]
    parent = train(make_method("fedavg", local_lr=0.05), task, left, CONFIG, seed=0)
    for key, value in parent.server.items():
        assert all(torch.equal(state.server[key], value) for state in states)


def test_what_knn_per_holds_back_moves_no_weight_but_the_choice(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population((30,) * 8), KNNPer(local_lr=0.05)
    left = method.trained_on(clients)
    held = sorted(set(clients.support.flatten().tolist()) - set(left.support.flatten().tolist()))
    assert len(held) == 24
    y = clients.y.clone()
    y[held] = (y[held] + 1) % task.n_classes
    changed = replace(clients, y=y)
    state, other = (train(method, task, one, CONFIG, seed=0) for one in (clients, changed))
    assert all(torch.equal(other.server[k], v) for k, v in state.server.items())
    chosen = [
        [method.choices(task, state, one.support_of(i), member=i) for i in range(8)]
        for one in (clients, changed)
    ]
    assert chosen[0] != chosen[1]
    y = clients.y.clone()
    y[left.support[0]] = (y[left.support[0]] + 1) % task.n_classes
    control = train(method, task, replace(clients, y=y), CONFIG, seed=0)
    assert any(not torch.equal(control.server[k], v) for k, v in state.server.items())


def test_seen_clients_of_knn_per_lean_on_neighbours_though_the_global_model_fits_them(
    make_population: Population,
) -> None:
    """The model knows every sample that it was trained on by heart, and nothing else.

    By those samples the weight of the neighbours, who are right about most, would be 0.
    """
    clients, method = make_population((60,) * 8), KNNPer()
    blurred = clients.x + 1.5 * torch.randn(clients.x.shape, generator=generator())
    clients = replace(clients, x=blurred)
    left = method.trained_on(clients)
    known = torch.full((len(clients.x), 4), -1e-3)
    known[torch.arange(len(clients.x)), (clients.y + 1) % 4] = 0
    rows = left.support.flatten()
    known[rows] = -1e-3
    known[rows, clients.y[rows]] = 0
    clients, left = (
        replace(one, x=torch.cat([clients.x, known], 1), mean=torch.zeros(10), sd=torch.ones(10))
        for one in (clients, left)
    )
    net = torch.nn.Sequential(OrderedDict(head=torch.nn.Linear(10, 4)))
    task = make_task(input_shape=(10,), n_classes=4, target=net)
    by_heart = torch.cat([torch.zeros(4, 6), 1e6 * torch.eye(4)], dim=1)
    state = State(nest("target", {"head.weight": by_heart, "head.bias": torch.zeros(4)}))

    def chosen(population: Clients, *, seen: bool) -> float:
        told = [
            method.choices(task, state, population.support_of(i), member=i if seen else None)
            for i in range(8)
        ]
        return sum(one["knn_weight"] for one in told) / 8

    assert chosen(left, seen=False) == 0
    assert chosen(clients, seen=True) > 0.5
    support, query = clients.support_of(0), clients.query_of(0)
    assert task.logits(part(state.server, "target"), query.x).argmax(1).ne(query.labels()).all()
    served = method.serve(task, state, 0, support, generator=generator())(query.x)
    assert (served.argmax(1) == query.labels()).float().mean() > 0.7


def test_knn_per_turns_to_neighbours_only_when_they_help(
    task: Task, make_population: Population
) -> None:
    clients = make_population()
    support = make_population(seed=2).support_of(0)
    method = KNNPer(local_lr=0.05)
    state = train(method, task, clients, replace(CONFIG, rounds=40), seed=0)
    weights = part(state.server, "target")

    def served(y: torch.Tensor) -> torch.Tensor:
        samples = Samples(support.x, y)
        return method.personalize(task, state, samples, generator=generator())(support.x)

    # Labels the global model knows nothing of, but neighbours agree on.
    swapped = (support.labels() + 2) % 4
    assert (served(swapped).argmax(1) == swapped).float().mean() > 0.9
    assert (task.logits(weights, support.x).argmax(1) == swapped).float().mean() < 0.1
    # Labels without any rule: every neighbour is wrong about the sample left out.
    one = Samples(support.x[:1], support.labels()[:1])
    alone = method.personalize(task, state, one, generator=generator())(support.x)
    torch.testing.assert_close(alone, task.logits(weights, support.x).log_softmax(1))


def test_pfedme_serves_a_kept_theta_or_one_fitted_to_the_present_weights(
    task: Task, make_population: Population
) -> None:
    clients = make_population()
    kept, refit = (make_method("pfedme", thetas=how, finetune_steps=4) for how in ("kept", "refit"))
    states = [train(one, task, clients, CONFIG, seed=0) for one in (kept, refit)]
    for section in ("server", "clients"):  # Training is the same.
        one, other = (getattr(state, section) for state in states)
        assert all(torch.equal(one[key], other[key]) for key in one)
    (state, _), support = states, clients.support_of(0)
    place = int(state.clients["has_theta"].nonzero()[0])
    own, anew = (
        one.serve(task, state, place, support, generator=generator()).weights  # type: ignore[attr-defined]
        for one in (kept, refit)
    )
    new = kept.personalize(task, state, support, generator=generator()).weights  # type: ignore[attr-defined]
    assert all(torch.equal(anew[key], new[key]) for key in new)
    assert not all(torch.equal(own[key], new[key]) for key in new)
