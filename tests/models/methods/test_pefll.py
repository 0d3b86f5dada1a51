"""PeFLL: gradients by the chain rule, regularisers, standardisation, posteriors, serving."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from formula_federation import Population, generator
from torch import Tensor

from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.generators.hypernetworks import describe, generate
from latecomer.models.methods.pefll import PeFLL
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, detached, part, row
from latecomer.models.task.task import Task, make_task

CONFIG = TrainConfig(rounds=3, cohort=3, local_steps=4, batch_size=5)


def tiny_task() -> Task:
    return make_task(
        input_shape=(6,),
        n_classes=4,
        encoder="mlp",
        hypernetwork={"hidden": 1, "width": 3},
        dtype=torch.float64,
    )


def random_deltas(task: Task, count: int) -> Params:
    draw = generator(5)
    return {
        key: torch.randn(count, *shape, generator=draw, dtype=task.dtype)
        for key, shape in task.shapes.items()
    }


def one_round(
    method: PeFLL, task: Task, clients: Clients, deltas: Params
) -> tuple[State, State, "Schedule"]:
    """State before and after a round in which the clients send ``deltas``."""
    schedule = Schedule(0, clients, CONFIG)
    cohort = schedule.cohort(0)
    before = method.init(task, clients, cohort, generator(1))
    start = method.start(task, before, clients, cohort, generator(2))
    return before, method.aggregate(task, before, cohort, start, deltas), schedule


def generated(task: Task, table: Params, support: Samples) -> Params:
    """Make the target weights of one client from its whole support."""
    with torch.no_grad():
        return row(generate(task, detached(table), support.x[None], support.labels()[None]), 0)


def test_one_round_equals_finite_differences_through_the_whole_encoder(
    make_population: Population,
) -> None:
    clients, task = make_population(dtype=torch.float64), tiny_task()
    method = PeFLL(clip_norm=1e9)
    deltas = random_deltas(task, 3)
    before, after, schedule = one_round(method, task, clients, deltas)
    cohort = schedule.cohort(0)

    def agreement(server: Params) -> float:
        total = 0.0
        for place in range(3):
            rows = cohort.descriptor_rows[place]
            theta = generated(task, server, Samples(clients.inputs(rows), clients.labels(rows)))
            total -= sum(float((theta[k] * deltas[k][place]).sum()) for k in theta) / 3
        return total

    for key in ("encoder.dense1.weight", "encoder.head.bias", "hyper.trunk0.weight"):
        draw = generator(7)
        direction = torch.randn(before.server[key].shape, generator=draw, dtype=torch.float64)
        ends = [
            agreement({**before.server, key: before.server[key] + step * direction})
            for step in (1e-6, -1e-6)
        ]
        section, _, name = key.partition(".")
        slope = after.server[f"{section}_adamw.mean.{name}"] / 0.1
        assert float((slope * direction).sum()) == pytest.approx(
            (ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-9
        )


def test_regularisers_act_without_any_gradient(make_population: Population) -> None:
    clients, task = make_population(dtype=torch.float64), tiny_task()
    method = PeFLL(server_lr=0.5, lambda_h=0.125, lambda_v=0.25)
    nothing = {key: torch.zeros_like(value) for key, value in random_deltas(task, 3).items()}
    before, after, _ = one_round(method, task, clients, nothing)
    for section, factor in (("hyper", 0.875), ("encoder", 0.75)):
        for key, value in part(before.server, section).items():
            assert torch.equal(part(after.server, section)[key], value * factor)
    assert method.local.weight_decay == 2 * method.lambda_theta == 5e-5


def test_server_gradient_is_clipped_jointly(make_population: Population) -> None:
    clients, task = make_population(dtype=torch.float64), tiny_task()
    deltas = random_deltas(task, 3)
    _, free, _ = one_round(PeFLL(clip_norm=1e9), task, clients, deltas)
    _, held, _ = one_round(PeFLL(clip_norm=1e-3), task, clients, deltas)

    def moments(state: State) -> Tensor:
        kept = [v.flatten() for k, v in state.server.items() if "_adamw.mean." in k]
        return torch.cat(kept) / 0.1

    assert float(moments(held).norm()) == pytest.approx(1e-3, rel=1e-9)
    ratio = float(moments(free).norm()) / 1e-3
    torch.testing.assert_close(moments(held) * ratio, moments(free), rtol=1e-9, atol=1e-12)


def test_standardisation_is_the_first_descriptors_and_stays(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population(), PeFLL(server_lr=0.05)
    first = Schedule(0, clients, CONFIG).cohort(0)
    state = method.init(task, clients, first, generator(1))
    rows = first.descriptor_rows[:1]
    descriptor = describe(task, state.server, clients.inputs(rows), clients.labels(rows))
    assert descriptor.shape == (1, 1 + 8 // 4)
    assert float(descriptor.mean()) == pytest.approx(0, abs=1e-6)
    assert float(descriptor.std()) == pytest.approx(1, rel=1e-5)
    trained = train(method, task, clients, CONFIG, seed=0).server
    untrained = train(method, task, clients, replace(CONFIG, rounds=1), seed=0).server
    for key in ("descriptor.mean", "descriptor.sd"):
        assert torch.equal(trained[key], untrained[key])
        assert trained[key].shape == ()
    assert not torch.equal(trained["encoder.head.bias"], untrained["encoder.head.bias"])


def test_descriptor_of_length_one_is_not_divided_by_zero(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population(), PeFLL(descriptor_dim=1)
    state = train(method, task, clients, CONFIG, seed=0)
    assert float(state.server["descriptor.sd"]) == 1.0
    assert all(bool(value.isfinite().all()) for value in state.server.values())


def test_posterior_without_spread_is_deterministic_pefll(
    task: Task, make_population: Population
) -> None:
    clients = make_population()
    sharp = PeFLL(posterior="gaussian", alpha_h=0.0, alpha_v=0.0, alpha_theta=0.0)
    plain = PeFLL()
    one = train(sharp, task, clients, CONFIG, seed=4)
    other = train(plain, task, clients, CONFIG, seed=4)
    assert set(one.server) == set(other.server)
    assert all(torch.equal(one.server[key], other.server[key]) for key in one.server)
    x = clients.query_of(0).x
    support = clients.support_of(0)
    gibbs = sharp.personalize(task, one, support, predictor="gibbs", generator=generator())
    mean = plain.personalize(task, other, support, generator=generator())
    assert torch.equal(gibbs(x), mean(x))


@pytest.mark.parametrize("which", ["alpha_h", "alpha_v", "alpha_theta"])
def test_every_variance_reaches_training_and_the_gibbs_predictor(
    task: Task, make_population: Population, which: str
) -> None:
    clients = make_population()
    alphas = {"alpha_h": 0.0, "alpha_v": 0.0, "alpha_theta": 0.0} | {which: 1e-2}
    method = PeFLL(posterior="gaussian", **alphas)
    state = train(method, task, clients, CONFIG, seed=4)
    plain = train(PeFLL(), task, clients, CONFIG, seed=4)
    name = "hyper.heads.dense1.bias.bias"
    assert not torch.equal(state.server[name], plain.server[name])
    support, x = clients.support_of(0), clients.query_of(0).x

    def gibbs(seed: int) -> Tensor:
        draw = generator(seed)
        return method.personalize(task, state, support, predictor="gibbs", generator=draw)(x)

    mean = method.personalize(task, state, support, generator=generator(1))(x)
    assert torch.equal(gibbs(1), gibbs(1))
    assert not torch.equal(gibbs(1), gibbs(2))
    assert not torch.equal(gibbs(1), mean)


def test_target_noise_has_the_stated_variance(task: Task, make_population: Population) -> None:
    clients = make_population()
    method = PeFLL(posterior="gaussian", alpha_h=0.0, alpha_v=0.0, alpha_theta=0.04)
    cohort = Schedule(0, clients, CONFIG).cohort(0)
    state = method.init(task, clients, cohort, generator(1))
    start = method.start(task, state, clients, cohort, generator(2))
    noise = torch.cat(
        [(start.params[k] - made).detach().flatten() for k, made in start.memory[1].items()]
    )
    # About 14,700 draws: the standard error of the variance is 1.2 %.
    assert float(noise.var()) == pytest.approx(0.04, rel=0.06)
    assert float(noise.mean()) == pytest.approx(0, abs=0.01)


def test_norms_are_exact(task: Task, make_population: Population) -> None:
    clients = make_population((12, 3, 1))
    method = PeFLL(posterior="gaussian", alpha_h=0.1, alpha_v=0.2, alpha_theta=0.3)
    state = train(method, task, clients, CONFIG, seed=0)
    norms = method.posterior_norms(task, state, clients)
    flat = {
        section: np.concatenate(
            [v.double().numpy().ravel() for v in part(state.server, section).values()]
        )
        for section in ("hyper", "encoder")
    }
    assert norms.eta_h_squared == pytest.approx(flat["hyper"] @ flat["hyper"], rel=1e-12)
    assert norms.eta_v_squared == pytest.approx(flat["encoder"] @ flat["encoder"], rel=1e-12)
    assert norms.theta_squared.shape == (3,)
    theta = generated(task, state.server, clients.support_of(2))
    expected = sum(float((value.double() ** 2).sum()) for value in theta.values())
    assert norms.theta_squared[2] == pytest.approx(expected, rel=1e-12)
    assert (norms.alpha_h, norms.alpha_v, norms.alpha_theta) == (0.1, 0.2, 0.3)
    with pytest.raises(ValueError, match="posterior must be gaussian"):
        PeFLL().posterior_norms(task, state, clients)


def test_serving_takes_the_whole_support_and_its_labels(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population(), PeFLL(server_lr=0.01)
    state = train(method, task, clients, CONFIG, seed=0)
    support, x = clients.support_of(0), clients.query_of(0).x

    def served(samples: Samples) -> Tensor:
        return method.personalize(task, state, samples, generator=generator())(x)

    whole = served(support)
    labels = support.labels()
    assert not torch.allclose(whole, served(Samples(support.x[:5], labels[:5])))
    assert not torch.allclose(whole, served(Samples(support.x, (labels + 1) % 4)))
    order = torch.randperm(len(support), generator=generator())
    torch.testing.assert_close(whole, served(Samples(support.x[order], labels[order])))


def test_a_ball_holds_mean_weights_wherever_they_are_made(
    task: Task, make_population: Population
) -> None:
    clients = make_population((12, 3, 1))
    free = PeFLL(posterior="gaussian", alpha_h=0.0, alpha_v=0.0, alpha_theta=0.0)
    wide, tight = replace(free, weight_radius=1e6), replace(free, weight_radius=0.5)
    states = {m.weight_radius: train(m, task, clients, CONFIG, seed=0) for m in (free, wide, tight)}
    for key, value in states[None].server.items():
        assert torch.equal(states[1e6].server[key], value)
    assert any(not torch.equal(states[0.5].server[k], v) for k, v in states[None].server.items())
    support, x = clients.support_of(0), clients.query_of(0).x
    made = generated(task, states[0.5].server, support)
    length = sum(float(v.double().square().sum()) for v in made.values()) ** 0.5
    assert length > 0.5
    inside = {key: value * (0.5 / length) for key, value in made.items()}
    for predictor in tight.predictors:
        served = tight.personalize(
            task, states[0.5], support, predictor=predictor, generator=generator()
        )
        torch.testing.assert_close(served(x), task.logits(inside, x))
    norms = tight.posterior_norms(task, states[0.5], clients).theta_squared
    assert max(norms) <= 0.25 * (1 + 1e-5)
    by_table = tight.weights_for(task, states[0.5].server, support)
    torch.testing.assert_close({k: v.detach() for k, v in by_table.items()}, inside)


def test_training_starts_inside_the_ball_and_its_gradient_passes(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population(), PeFLL(posterior="gaussian", weight_radius=0.5)
    deltas = {k: v.float() for k, v in random_deltas(task, 3).items()}
    before, after, schedule = one_round(method, task, clients, deltas)
    start = method.start(task, before, clients, schedule.cohort(0), generator())
    _, made = start.memory
    squares = torch.stack([v.detach().flatten(1).square().sum(1) for v in made.values()]).sum(0)
    torch.testing.assert_close(squares.sqrt(), torch.full_like(squares, 0.5))
    assert any(not torch.equal(after.server[k], v) for k, v in before.server.items())


def test_a_ball_needs_a_posterior() -> None:
    with pytest.raises(ValueError, match="weight_radius needs a gaussian posterior, got 1"):
        PeFLL(weight_radius=1.0)
    with pytest.raises(ValueError, match="weight_radius must be above 0"):
        PeFLL(posterior="gaussian", weight_radius=0.0)
