"""The ways of the local loop that a GPU is timed with do the product's arithmetic."""

import pytest
import torch
from gpu_variants import CLIP, DECAY, KERNELS, LR, MOMENTUM, cut, local_loop, slopes_of

from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.vectorised import cohort_sgd
from latecomer.models.task import client_axis
from latecomer.models.task.task import make_task

SHAPE, COHORT, STEPS, BATCH = (3, 28, 28), 3, 2, 4


@pytest.fixture(scope="module")
def task():
    return make_task(input_shape=SHAPE, n_classes=5, target="lenet", dtype=torch.float64)


@pytest.fixture(scope="module")
def given(task):
    draw = torch.Generator().manual_seed(0)
    own = [task.initial(draw) for _ in range(COHORT)]
    values = torch.stack([torch.cat([v.flatten() for v in one.values()]) for one in own])
    x = torch.randn(COHORT, STEPS, BATCH, *SHAPE, generator=draw, dtype=torch.float64)
    return values, x, torch.randint(5, (COHORT, STEPS, BATCH), generator=draw)


@pytest.mark.parametrize("kernel", KERNELS)
def test_all_ways_take_the_products_steps(task, given, kernel):
    values, x, y = given
    reached, _ = cohort_sgd(
        lambda params, step: client_axis.losses(task.target, params, x[:, step], y[:, step]),
        cut(values, task.shapes),
        n_steps=STEPS,
        rule=LocalSGD(LR, MOMENTUM, DECAY, CLIP),
    )
    found = cut(local_loop(KERNELS[kernel], task.shapes)(*given), task.shapes)
    assert list(found) == list(reached)
    for name, value in reached.items():
        torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-12)


def test_bf16_rounds_and_points_the_same_way(task, given):
    values, x, y = (given[0].float(), given[1].float(), given[2])
    exact, near = (
        slopes_of(KERNELS["grouped"], task.shapes, values, x[:, 0], y[:, 0], bf16=bf16)
        for bf16 in (False, True)
    )
    assert not torch.equal(near, exact)
    assert float(torch.cosine_similarity(near.flatten(), exact.flatten(), dim=0)) > 0.95
