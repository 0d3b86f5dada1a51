"""Small nets train in one row of numbers: to the last digit as they do tensor by tensor."""

import pytest
import torch

from latecomer.models.engine import local_steps
from latecomer.models.engine.local_steps import LocalSGD, Workspace, local_sgd
from latecomer.models.task import objectives
from latecomer.models.task.task import make_task

SHAPES = [(1, 8, 8), (3, 8, 8), (17,)]


def trained(shape, rule, workspace=None):
    """Return the weights that a few steps on a net of a few thousand weights lead to."""
    task = make_task(input_shape=shape, n_classes=10)
    draw = torch.Generator().manual_seed(1)
    start = task.initial(draw)
    if rule.apart:
        start |= {f"{rule.apart}.{key}": value + 0.1 for key, value in start.items()}
    x, y = torch.randn(8, *shape, generator=draw), torch.randint(10, (8,), generator=draw)
    if x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)

    def objective(params, step):
        own = {key: params[f"{rule.apart}.{key}" if rule.apart else key] for key in task.shapes}
        ridge = objectives.half_squared_distance(own, {key: start[key] for key in own})
        return task.loss(params, x, y) + (ridge if rule.apart else 0.0)

    return start, local_sgd(objective, start, n_steps=7, rule=rule, workspace=workspace)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "rule",
    [
        LocalSGD(0.05, 0.9, 1e-3),
        LocalSGD(0.05, 0.0, 0.0),
        LocalSGD(0.05, 0.9, 1e-3, clip=0.3),
        LocalSGD(0.05, 0.9, 1e-3, clip=0.3, apart="own"),
    ],
    ids=["momentum", "plain", "clipped", "clipped apart"],
)
def test_a_row_changes_no_digit(monkeypatch, shape, rule):
    start, (in_a_row, loss) = trained(shape, rule)
    monkeypatch.setattr(local_steps, "A_FEW", 0)
    _, (one_by_one, same_loss) = trained(shape, rule)
    assert torch.equal(loss, same_loss)
    assert [*in_a_row] == [*one_by_one] == [*start]
    for key, value in in_a_row.items():
        assert torch.equal(value, one_by_one[key])
        assert not torch.equal(value, start[key])


def test_what_is_reached_has_memory_of_its_own():
    _, (reached, _) = trained((17,), LocalSGD(0.05))
    for value in reached.values():
        assert value.is_contiguous()
        assert value.untyped_storage().nbytes() == value.nbytes


@pytest.mark.parametrize("shape", SHAPES)
def test_a_training_leaves_nothing_behind_for_the_next(shape):
    """Neither weights nor momentum, and what was reached before stays as it is."""
    rule, workspace = LocalSGD(0.05, 0.9, 1e-3), Workspace()
    _, (alone, loss) = trained(shape, rule)
    _, (first, _) = trained(shape, LocalSGD(0.5, 0.9), workspace)
    kept = {key: value.clone() for key, value in first.items()}
    _, (second, same_loss) = trained(shape, rule, workspace)
    assert torch.equal(loss, same_loss)
    for key, value in alone.items():
        assert torch.equal(second[key], value)
        assert torch.equal(first[key], kept[key])
        assert not torch.equal(first[key], value)


def test_weights_that_no_loss_hangs_on_stay():
    start = {"used": torch.ones(3), "idle": torch.ones(2)}
    rule = LocalSGD(0.1, momentum=0.0)
    reached, _ = local_sgd(lambda p, step: p["used"].sum(), start, n_steps=2, rule=rule)
    assert reached["idle"].tolist() == [1.0, 1.0]
    torch.testing.assert_close(reached["used"], torch.full((3,), 0.8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tensors_in_a_row_lie_as_tensors_do(monkeypatch, dtype):
    """Strides, and begins that products may count on: how they round hangs on both."""
    shapes = [(5, 1, 3, 3), (5,), (4, 3, 3, 3), (), (7, 13), (7,)]
    start = [torch.randn(shape).to(dtype) for shape in shapes]
    parts = [[0, 1, 2], [3, 4, 5]]
    table, gathered = Workspace().laid_out(start, parts)
    monkeypatch.setattr(local_steps, "A_FEW", 0)
    apart, _ = Workspace().laid_out(start, parts)
    assert len(table.lying) == 1
    assert len(apart.lying) == len(start)
    for there, alone, value in zip(table.tensors, apart.tensors, start, strict=True):
        assert torch.equal(there, value)
        assert there.stride() == alone.stride()
        assert there.data_ptr() % 64 == 0
    first, second = gathered(start), gathered([2 * value for value in start])
    assert torch.equal(first.tensors[4], start[4])
    assert torch.equal(second.tensors[4], 2 * start[4])
    for (row,), tensors in first.parts:
        assert int(row.count_nonzero()) == sum(int(value.count_nonzero()) for value in tensors)


def test_nets_of_several_types_and_large_ones_stay_as_they_are():
    several = [torch.zeros(2), torch.zeros(2, dtype=torch.float64)]
    assert len(Workspace().laid_out(several, [[0, 1]])[0].lying) == 2
    large = [torch.zeros(local_steps.A_FEW), torch.zeros(1)]
    assert len(Workspace().laid_out(large, [[0, 1]])[0].lying) == 2
