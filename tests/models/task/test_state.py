"""Tables of tensors: sections, rows, and that nothing is written in place."""

import torch

from latecomer.models.task.state import (
    gather,
    leaves,
    nest,
    part,
    repeat,
    row,
    scatter,
    weighted_mean,
)


def test_sections_come_back_under_their_short_names() -> None:
    table = nest("hyper", {"a.b": torch.ones(1)}) | nest("hyper_sgd", {"a.b": torch.zeros(1)})
    assert list(table) == ["hyper.a.b", "hyper_sgd.a.b"]
    assert torch.equal(part(table, "hyper")["a.b"], torch.ones(1))
    assert list(part(table, "hyper")) == ["a.b"]


def test_scatter_replaces_rows_in_a_copy() -> None:
    table = {"w": torch.arange(6.0).view(3, 2), "other": torch.ones(3)}
    members = torch.tensor([2, 0])
    changed = scatter(table, members, {"w": torch.tensor([[20.0, 21.0], [0.5, 1.5]])})
    assert changed["w"].tolist() == [[0.5, 1.5], [2.0, 3.0], [20.0, 21.0]]
    assert changed["other"] is table["other"]
    assert table["w"].tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert gather(changed, members)["w"].tolist() == [[20.0, 21.0], [0.5, 1.5]]
    assert row(changed, 1)["w"].tolist() == [2.0, 3.0]


def test_leaves_are_new_points_with_the_old_values() -> None:
    weight = torch.ones(2)
    point = leaves({"w": weight})["w"]
    assert point.requires_grad
    assert point.is_leaf
    assert not weight.requires_grad


def test_weighted_mean_of_whole_numbers_of_samples() -> None:
    table = {"w": torch.tensor([[1.0, 0.0], [5.0, 4.0]], dtype=torch.float64)}
    assert weighted_mean(table, torch.tensor([3, 1]))["w"].tolist() == [2.0, 1.0]
    assert weighted_mean(repeat({"w": torch.tensor(7.0)}, 2), torch.tensor([3, 9]))["w"] == 7.0
