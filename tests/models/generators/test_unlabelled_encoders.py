"""Encoders of unlabelled sets: invariance, independence of clients, batches, refusals."""

import pytest
import torch
from formula_federation import generator
from torch import Tensor

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.generators.encoders import encoder
from latecomer.models.generators.unlabelled_encoders import SET_ENCODERS, SetEncoder, set_encoder
from latecomer.models.methods import make_method
from latecomer.models.task.state import Params
from latecomer.models.task.task import Task, make_task
from latecomer.models.traffic import random_population

SHAPES = [(5,), (1, 8, 8), (3, 28, 29)]
EVERY = [(name, shape) for name in SET_ENCODERS for shape in SHAPES]


def built(name: str, shape: tuple[int, ...]) -> tuple[Task, SetEncoder, Params, Tensor]:
    task = make_task(input_shape=shape, n_classes=3, encoder=name, dtype=torch.float64)
    net = set_encoder(task, 4)
    x = torch.randn(2, 6, *shape, generator=generator(1), dtype=torch.float64)
    return task, net, net.initial(generator()), x


@pytest.mark.parametrize(("name", "shape"), EVERY)
def test_order_and_company_do_not_matter_content_does(name: str, shape: tuple[int, ...]) -> None:
    _, net, params, x = built(name, shape)
    found = net(params, x)
    assert (found.shape, found.dtype) == ((2, 4), torch.float64)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    assert torch.allclose(net(params, x[:, order]), found, atol=1e-12)
    assert torch.allclose(net(params, x[1:]), found[1:], atol=1e-12)
    assert not torch.allclose(found[0], found[1], atol=1e-6)
    changed = x.clone()
    changed[0, 2] += 3.0
    assert not torch.allclose(net(params, changed)[0], found[0], atol=1e-6)
    assert net(params, x[:, :1]).isfinite().all()  # a client with one sample


@pytest.mark.parametrize(("name", "shape"), EVERY)
def test_every_weight_counts(name: str, shape: tuple[int, ...]) -> None:
    _, net, params, x = built(name, shape)
    leaves = {key: value.requires_grad_() for key, value in params.items()}
    loss = net(leaves, x).pow(2).sum()
    slopes = torch.autograd.grad(loss, list(leaves.values()))
    still = [key for key, slope in zip(leaves, slopes, strict=True) if not slope.any()]
    # Softmax cancels what is added to all keys alike.
    assert all(key.endswith("key.bias") for key in still)


def test_samples_of_dss_and_set_transformer_see_the_rest_of_their_set() -> None:
    for name, shape in EVERY:
        _, net, params, x = built(name, shape)
        parts = (net(params, x[:, :3]) + net(params, x[:, 3:])) / 2
        assert not torch.allclose(parts, net(params, x), atol=1e-9)


@pytest.mark.parametrize("name", SET_ENCODERS)
def test_batches_are_averaged_by_their_size(name: str) -> None:
    _, whole, params, x = built(name, (5,))
    _, batched, same, _ = built(f"{name}:4", (5,))
    assert all(torch.equal(params[key], same[key]) for key in params)
    expected = (4 * whole(params, x[:, :4]) + 2 * whole(params, x[:, 4:])) / 6
    assert torch.allclose(batched(params, x), expected, atol=1e-12)
    _, large, _, _ = built(f"{name}:6", (5,))
    assert torch.allclose(large(params, x), whole(params, x), atol=1e-12)


@pytest.mark.parametrize("name", SET_ENCODERS)
def test_labels_are_not_looked_at(name: str) -> None:
    task, net, params, x = built(name, (1, 8, 8))
    labelled = encoder(task, 4)
    y = torch.zeros(2, 6, dtype=torch.int64)
    assert torch.equal(labelled(params, x, y), net(params, x))
    assert torch.equal(labelled(params, x, y + 2), net(params, x))


def test_dss_layer_by_hand() -> None:
    _, net, p, x = built("dss", (5,))
    for number in (1, 2):
        own = x @ p[f"own{number}.weight"].T + p[f"own{number}.bias"]
        common = x.mean(1, keepdim=True) @ p[f"set{number}.weight"].T
        x = (own + common).clamp(min=0)
    embedded = (x @ p["dense.weight"].T + p["dense.bias"]).clamp(min=0).mean(1)
    expected = embedded @ p["psi.weight"].T + p["psi.bias"]
    assert torch.allclose(net(p, built("dss", (5,))[3]), expected, atol=1e-12)


@pytest.mark.parametrize("name", [*SET_ENCODERS, "deepsets:2"])
def test_pefll_trains_with_them(name: str) -> None:
    task = make_task(
        input_shape=(1, 8, 8), n_classes=3, encoder=name, hypernetwork={"hidden": 1, "width": 8}
    )
    clients = random_population(task, 6)
    config = TrainConfig(rounds=2, cohort=2, local_steps=2, batch_size=3)
    method = make_method("pefll")
    state = train(method, task, clients, config, seed=0)
    assert all(value.isfinite().all() for value in state.server.values())
    support = clients.support_of(0)
    assert method.personalize(task, state, support, generator=generator())(support.x).shape == (
        4,
        3,
    )


def test_names_that_do_not_fit_are_refused() -> None:
    for name, message in (
        ("convnet", "encoder of unlabelled data must be one of auto, deepsets, dss"),
        ("dss:0", "batches must have at least 1 sample, as in dss:32, got encoder='dss:0'"),
        ("dss:x", "batches must have at least 1 sample"),
    ):
        with pytest.raises(ValueError, match=message):
            built(name, (5,))
    with pytest.raises(ValueError, match=r"must be one of auto, convnet, .*set-transformer"):
        encoder(make_task(input_shape=(5,), n_classes=3, encoder="dsss"), 2)
