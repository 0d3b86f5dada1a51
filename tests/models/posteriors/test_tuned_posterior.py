"""Gaussians over trained weights, tuned by minimising a bound."""

from dataclasses import replace

import pytest
import torch
from formula_federation import Population, generator
from torch import Generator, Tensor

from latecomer.bounds import gauss_kl_equal
from latecomer.models.engine.training import TrainConfig, train
from latecomer.models.methods import make_method
from latecomer.models.posteriors import Differentiable, TuneConfig, prior_around, surrogate, tune
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import Params
from latecomer.models.task.task import Task

SERVER = {
    "net.weight": torch.tensor([3.0, -4.0]),
    "net.bias": torch.tensor([0.1]),
    "net_adamw.weight": torch.tensor([7.0]),
}
CONFIG = TuneConfig(
    rule="product", steps=60, clients_per_step=4, rate=0.2, delta=0.05, n_priors=3, gamma=0.02
)


def test_a_prior_covers_the_named_weights_and_scales_with_them() -> None:
    prior = prior_around(SERVER, ["net"], 0.01)
    assert set(prior.centre) == {"net.weight", "net.bias"}
    assert prior.deviation["net.weight"].item() == pytest.approx(0.1 * 12.5**0.5)
    assert prior.deviation["net.bias"].item() == pytest.approx(0.01)
    assert prior.kl == 0
    trunk = {"hyper.trunk0.weight": torch.ones(2), "hyper.trunk12.bias": torch.ones(1)}
    assert set(prior_around(trunk, ["hyper.trunk"], 1.0).centre) == set(trunk)
    for wrong, said in ((["nte"], "got 'nte'"), (["zero"], "0 throughout")):
        with pytest.raises(ValueError, match=said):
            prior_around({**SERVER, "zero.bias": torch.zeros(2)}, wrong, 0.1)


def test_the_kl_is_that_of_gaussians_of_equal_covariance() -> None:
    prior = prior_around(SERVER, ["net.weight"], 0.04)
    moved = replace(prior, shift={"net.weight": torch.tensor([1.0, -2.0])})
    gap = (moved.mean["net.weight"] - prior.mean["net.weight"]).double().square().sum()
    variance = prior.deviation["net.weight"].double().item() ** 2
    assert moved.kl == pytest.approx(
        float(gauss_kl_equal(squared_distance=gap.item(), alpha=variance))
    )
    assert moved.kl == pytest.approx(2.5)


def test_draws_have_the_posteriors_mean_and_spread() -> None:
    prior = prior_around(SERVER, ["net.weight"], 0.04)
    moved = replace(prior, shift={"net.weight": torch.tensor([1.0, -2.0])})
    source = generator()
    drawn = torch.stack([moved.draw(source)["net.weight"] for _ in range(4000)])
    deviation = prior.deviation["net.weight"]
    assert torch.allclose(drawn.mean(0), moved.mean["net.weight"], atol=0.06 * deviation.item())
    assert torch.allclose(drawn.std(0), deviation, rtol=0.05)


@pytest.mark.parametrize("rule", ["product", "kl"])
def test_tuning_lowers_the_bound_and_pays_for_it(rule: str) -> None:
    prior = prior_around(SERVER, ["net.weight"], 0.04)

    def loss(weights: Params, place: int, source: Generator) -> Tensor:
        return torch.sigmoid(0.2 * (weights["net.weight"][0] - 6.0) + 0.02 * place)

    config = replace(CONFIG, rule=rule)
    found = tune(prior, loss, 40, config, generator())
    assert found.kl > 0.01
    assert found.shift["net.weight"][0] < 0
    assert abs(found.shift["net.weight"][1]) < 1e-6, "no gradient, no move"
    assert prior.kl == 0
    again = tune(prior, loss, 40, config, generator())
    assert torch.equal(found.shift["net.weight"], again.shift["net.weight"])


def test_a_loss_that_does_not_move_leaves_the_prior() -> None:
    prior = prior_around(SERVER, ["net"], 0.04)

    def flat(weights: Params, place: int, source: Generator) -> Tensor:
        return 0.3 + 0 * weights["net.weight"].sum() + 0 * weights["net.bias"].sum()

    assert tune(prior, flat, 40, CONFIG, generator()).kl == 0


@pytest.mark.parametrize("name", ["pefll", "fedavg"])
def test_surrogate_weights_are_those_that_serve(
    name: str, task: Task, make_population: Population
) -> None:
    clients, method = make_population(), make_method(name)
    config = TrainConfig(rounds=2, cohort=3, local_steps=2, batch_size=6)
    state = train(method, task, clients, config, seed=0)
    assert isinstance(method, Differentiable)
    support, query = clients.support_of(0), clients.query_of(0)
    made = method.weights_for(task, state.server, support)
    served = method.personalize(task, state, support, generator=generator())
    assert torch.allclose(task.logits(made, query.x), served(query.x), atol=1e-6)

    def unmasked(logits: Tensor, known: Tensor) -> Tensor:
        return logits

    section = "encoder" if name == "pefll" else "target"
    prior = prior_around(state.server, [section], 0.01)
    point = {k: v.clone().requires_grad_() for k, v in prior.centre.items()}
    value = surrogate(method, task, state, point, (support, Samples(query.x, query.y)), unmasked)
    slopes = torch.autograd.grad(value, list(point.values()))
    assert 0 <= value.item() <= 1
    assert sum(float(slope.abs().sum()) for slope in slopes) > 0
