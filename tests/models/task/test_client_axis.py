"""Convolutions of a whole cohort: both ways compute the same, and so do their gradients."""

import pytest
import torch

from latecomer.models.task import client_axis
from latecomer.models.task.targets import ConvNet
from latecomer.models.task.task import make_task

COHORT, BATCH = 3, 4


@pytest.mark.parametrize(
    ("shape", "target", "padding"),
    [((3, 32, 32), "lenet", 0), ((1, 8, 8), "auto", 1), ((1, 28, 28), "auto", 0)],
)
def test_patches_give_what_groups_give(shape: tuple[int, ...], target: str, padding: int) -> None:
    task = make_task(input_shape=shape, n_classes=5, target=target, dtype=torch.float64)
    net, draw = task.target, torch.Generator().manual_seed(0)
    assert isinstance(net, ConvNet)
    assert net.padding == padding
    own = [task.initial(draw) for _ in range(COHORT)]
    weights = {
        key: torch.stack([one[key] for one in own]).requires_grad_()
        for key in own[0]
        if key.startswith("conv")
    }
    x = torch.randn(COHORT, BATCH, *shape, generator=draw, dtype=torch.float64)
    groups, patches = (
        way(net, weights, x) for way in (client_axis._group_by_group, client_axis._patch_by_patch)
    )
    torch.testing.assert_close(patches, groups, rtol=1e-10, atol=1e-12)
    pulled = torch.randn(groups.shape, generator=draw, dtype=torch.float64)
    for one, other in zip(
        *(
            torch.autograd.grad((made * pulled).sum(), list(weights.values()))
            for made in (groups, patches)
        ),
        strict=True,
    ):
        torch.testing.assert_close(other, one, rtol=1e-10, atol=1e-12)
