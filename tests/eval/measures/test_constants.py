import math

import pytest
import torch

from latecomer.eval.measures.published_bounds import (
    _descriptor_lipschitz,
    dense_dimension,
    hypernetwork_constants,
    joint_error,
)
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.generators.hypernetworks import cut, hypernetwork, sized_hypernetwork
from latecomer.models.methods import make_method
from latecomer.models.task.state import part, row
from latecomer.models.task.task import make_task
from latecomer.models.traffic import random_population


def test_dimension_counts_the_weights() -> None:
    task = make_task(input_shape=(1, 8, 8), n_classes=10)
    weights = sum(math.prod(shape) for shape in task.shapes.values())
    assert dense_dimension(task).value == pytest.approx(weights * math.log2(weights))
    assert dense_dimension(task).provenance.endswith("(estimate)")


def test_spectral_product_bounds_how_fast_weights_move_with_the_embedding() -> None:
    task = make_task(
        input_shape=(4,), n_classes=3, hypernetwork={"hidden": 2, "width": 16}, dtype=torch.float64
    )
    net = hypernetwork(task, 5)
    generator = torch.Generator().manual_seed(0)
    hyper = {k: v.double() for k, v in net.initial(generator).items()}
    bound = _descriptor_lipschitz(hyper)
    steepest = 0.0
    for _ in range(200):
        pair = torch.randn(2, 5, generator=generator, dtype=torch.float64)
        made = net(hyper, pair)
        moved = math.sqrt(sum(float((w[0] - w[1]).square().sum()) for w in made.values()))
        steepest = max(steepest, moved / float((pair[0] - pair[1]).norm()))
    assert 0 < steepest <= bound


SIZES = ("lenet-s", "lenet")


def task_of(shape, target="auto", **hypernetwork):
    layers = {"hidden": 1, "width": 8, **hypernetwork}
    return make_task(
        input_shape=shape, n_classes=3, target=target, hypernetwork=layers, dtype=torch.float64
    )


def trained(task, sizes=()):
    """Return six clients, pFedHN's state after a round, and its constants by name."""
    config, clients = TrainConfig(1, 2, 1, 2), random_population(task, 6)
    state = train(make_method("pfedhn", sizes=sizes), task, clients, config, seed=0)
    found = hypernetwork_constants(task, state, clients, seed=0, sizes=sizes)
    return clients, state, {one.name: one.value for one in found}


def test_constants_are_those_of_the_normalised_layers() -> None:
    task = task_of((4,), spectral=True)
    _, _, found = trained(task)
    # Every layer has norm 1, and the heads of one trunk add up in squares.
    assert found["descriptor_lipschitz"] == pytest.approx(math.sqrt(len(task.shapes)))


def test_joint_error_is_small_for_one_domain_and_large_for_contradicting_labels() -> None:
    task = make_task(input_shape=(2,), n_classes=2)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 2, generator=generator)
    y = (x[:, 0] > 0).long()
    same = joint_error(task, (x[:200], y[:200]), (x[200:], y[200:]), seed=0)
    swapped = joint_error(task, (x[:200], y[:200]), (x[200:], 1 - y[200:]), seed=0)
    assert same.value < 0.15
    # No hypothesis serves two domains with opposite labels: the errors add up to about 1.
    assert 0.8 < swapped.value < 1.2


def test_constants_of_several_sizes_hold_for_each() -> None:
    task = task_of((1, 20, 20), "lenet")
    clients, state, found = trained(task, SIZES)
    trunk = sum(v.numel() for k, v in state.server.items() if k.startswith("hyper.trunk"))
    per_weight = 9  # a row of eight weights and a bias of some head for every weight made
    small = make_task(input_shape=(1, 20, 20), n_classes=3, target="lenet-s")
    made = task.n_parameters + small.n_parameters
    assert found["hypernetwork_dim"] == trunk + per_weight * made
    net = sized_hypernetwork(task, 2, SIZES)
    hyper, draw = part(state.server, "hyper"), torch.Generator().manual_seed(0)
    steepest = [0.0, 0.0]
    for place in range(2):
        for _ in range(50):
            pair = torch.randn(2, 2, generator=draw, dtype=torch.float64)
            theta = net(hyper, pair, torch.tensor([place, place]))
            moved = math.sqrt(sum(float((w[0] - w[1]).square().sum()) for w in theta.values()))
            steepest[place] = max(steepest[place], moved / float((pair[0] - pair[1]).norm()))
    assert 0 < max(steepest) <= found["descriptor_lipschitz"]
    # A client's loss has the slope of its own net, without padding.
    alone = []
    for index in range(6):
        support = clients.support_of(index)
        name = SIZES[index % 2]
        own = make_task(input_shape=(1, 20, 20), n_classes=3, target=name, dtype=torch.float64)
        weights = row(
            net(hyper, state.clients["embedding"][index : index + 1], torch.tensor([index % 2])), 0
        )
        leaves = {k: v.requires_grad_() for k, v in cut(weights, own.shapes).items()}
        loss = own.loss(leaves, support.x, support.labels())
        slopes = torch.autograd.grad(loss, list(leaves.values()))
        alone.append(math.sqrt(sum(float(s.square().sum()) for s in slopes)))
    assert found["loss_lipschitz"] == pytest.approx(max(alone), rel=1e-9)


def test_normalised_heads_add_up_within_a_size_and_not_across() -> None:
    task = task_of((1, 20, 20), "lenet", spectral=True)
    _, _, found = trained(task, SIZES)
    assert found["descriptor_lipschitz"] == pytest.approx(math.sqrt(len(task.shapes)))
    assert found["weight_lipschitz"] > 0


def test_one_size_has_the_constants_of_none() -> None:
    task = task_of((1, 20, 20), "lenet")
    (*_, none), (*_, one) = trained(task), trained(task, ("lenet",))
    assert none == one
