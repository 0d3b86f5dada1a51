"""The programs that train baselines with an older library's habits take the steps they say."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from latecomer.models.task.targets import build


@pytest.fixture(scope="module")
def program(example):
    return example("published_baselines/handicapped_fedavg.py")


@pytest.fixture(scope="module")
def local(program, example):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "handicapped_fedavg", program)
        return example("published_baselines/handicapped_local.py")


def plain(values, images):
    """LeNet of one net by torch's own convolutions."""
    x = images
    for layer, (before, after) in enumerate(((3, 16), (16, 32))):
        kernel = values[2 * layer].T.reshape(after, before, 5, 5)
        x = torch.nn.functional.conv2d(x, kernel, values[2 * layer + 1][0])
        x = torch.relu(torch.nn.functional.max_pool2d(x, 2))
    x = x.flatten(1)
    for layer in (2, 3, 4):
        x = x @ values[2 * layer] + values[2 * layer + 1]
        x = torch.relu(x) if layer < 4 else x
    return x


def test_its_net_is_lenet(program):
    values = program.first_weights(0, 2, torch.device("cpu"))
    images = torch.rand(2, 4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    out = program.logits(values, images)
    for net in range(2):
        expected = plain([value[net] for value in values], images[net])
        torch.testing.assert_close(out[net], expected, rtol=1e-4, atol=1e-5)
    sizes = sum(value[0].numel() for value in values)
    target = build("lenet", (3, 32, 32), 10)
    assert sizes == sum(parameter.numel() for parameter in target.parameters())


def test_batches_in_class_order_hold_a_class_each_and_drawn_ones_do_not(program):
    labels = np.repeat([3, 7], 64)[np.random.default_rng(0).permutation(128)]
    support, random = np.arange(128), np.random.default_rng(1)
    ordered = program.minibatches(support, labels, True, random)
    drawn = program.minibatches(support, labels, False, random)
    assert ordered.shape == drawn.shape == (program.STEPS, program.BATCH)
    assert all(len(set(labels[batch])) == 1 for batch in ordered)
    assert all(len(set(batch)) == program.BATCH for batch in drawn)
    assert any(len(set(labels[batch])) == 2 for batch in drawn)


def test_a_step_is_clipped_sgd_with_momentum_on_pixels_that_may_be_unscaled(program):
    x = torch.randint(0, 256, (64, 3, 32, 32), dtype=torch.uint8)
    y = torch.randint(0, 10, (64,))
    rates, unscaled = torch.tensor([0.01, 0.001]), torch.tensor([False, True])
    rounds = program.Rounds(x, y, rates, unscaled)
    before = [value.clone() for value in rounds.values]
    rows = torch.stack([torch.arange(32), torch.arange(32, 64)])
    rounds.take(rows)
    for net, factor in enumerate((1.0, 255.0)):
        pixels = x[rows[net]].double() / 255 * factor
        mean, sd = (torch.tensor(v).view(1, 3, 1, 1).double() for v in (program.MEAN, program.SD))
        leaves = [value[net].double().requires_grad_() for value in before]
        loss = torch.nn.functional.cross_entropy(plain(leaves, (pixels - mean) / sd), y[rows[net]])
        slopes = torch.autograd.grad(loss, leaves)
        norm = torch.sqrt(sum(slope.square().sum() for slope in slopes))
        shrink = min(1.0, program.CLIP / float(norm))
        for value, slope, after in zip(leaves, slopes, rounds.values, strict=True):
            moved = -rates[net].double() * (slope * shrink + program.DECAY * value)
            torch.testing.assert_close(
                after[net].double(), (value + moved).detach(), rtol=1e-3, atol=1e-5
            )


def test_locals_net_is_lenet(local):
    target = build("lenet", (3, 32, 32), 10)
    shapes = [parameter.shape for parameter in target.parameters()]
    assert [parameter.shape for parameter in local.lenet().parameters()] == shapes


def test_unscaled_pixels_are_255_times_as_far_from_each_other(local):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 4), np.uint8)
    one, other = (local.standardised(pixels, way) for way in (False, True))
    apart, wider = one[0] - one[1], other[0] - other[1]
    torch.testing.assert_close(255 * apart, wider, rtol=1e-4, atol=1e-2)
    black = local.standardised(np.zeros((1, 3, 1, 1), np.uint8), False).flatten()
    assert black.tolist() == pytest.approx((-np.array(local.MEAN) / local.SD).tolist())


def test_a_client_is_looked_at_every_so_often_and_learns(local):
    x = torch.rand(64, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    y = torch.arange(64) % 2
    x[y == 1] *= -1
    client = SimpleNamespace(validation=np.arange(40, 52), query=np.arange(52, 64))
    batches = np.random.default_rng(0).integers(0, 40, (90, 8))
    curve = list(local.trained(client, x, y, 0.02, batches, 30))
    assert [number for number, *_ in curve] == [30, 60, 90]
    assert curve[-1][1:] == (1.0, 1.0)
    assert list(local.trained(client, x, y, 0.02, batches, 30)) == curve
    still = [right for _, *right in local.trained(client, x, y, 0.0, batches, 30)]
    assert still[0] == still[1] == still[2]
