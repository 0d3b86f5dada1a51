"""Populations: what is stored, what is shown, what is refused."""

from dataclasses import replace

import pytest
import torch
from formula_federation import Population, holding

from latecomer.models.task.clients import Minibatches


def test_bytes_are_scaled_and_standardised() -> None:
    x = torch.tensor([[[[0, 255]]], [[[51, 102]]]], dtype=torch.uint8)
    scale = {"mean": torch.tensor([0.2]), "sd": torch.tensor([0.4])}
    rows, query, one = torch.tensor([[1, 0]]), torch.tensor([[0]]), torch.tensor([1])
    clients = holding(x, torch.tensor([3, 4]), rows, one, query=query, **scale)
    own = clients.support_of(0)
    assert own.x.dtype == torch.float32
    assert torch.allclose(own.x, torch.tensor([[[[0.0, 0.5]]]]), atol=1e-6)
    assert own.labels().tolist() == [4]
    assert clients.query_of(0).labels().tolist() == [3]
    assert torch.equal(x[0], torch.tensor([[[0, 255]]], dtype=torch.uint8))
    rows = torch.zeros(2, 3, dtype=torch.int64)
    assert clients.inputs(rows).shape == (2, 3, 1, 1, 2)


def test_padding_is_never_shown(make_population: Population) -> None:
    clients = make_population((3, 7))
    assert len(clients.support_of(0)) == 3
    assert len(clients.support_of(1)) == 7


def test_unlabelled_clients_show_no_labels(make_population: Population) -> None:
    clients = replace(make_population(), labelled=False)
    support = clients.support_of(0)
    assert support.y is None
    with pytest.raises(ValueError, match="support must be labelled"):
        support.labels()
    assert clients.query_of(0).y is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"support": torch.zeros(8, 3)}, "support must be int64"),
        ({"query_sizes": torch.ones(7, dtype=torch.int64)}, "query_sizes must be int64"),
        ({"y": torch.zeros(3, dtype=torch.int64)}, "x and y"),
        ({"support_sizes": torch.zeros(8, dtype=torch.int64)}, "support_sizes must be at least 1"),
    ],
)
def test_inconsistent_tables_are_refused(
    make_population: Population, change: dict[str, torch.Tensor], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(make_population(), **change)


@pytest.mark.parametrize("shape", [(6,), (1, 4, 5), (3, 4, 5)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
@pytest.mark.parametrize("few", [True, False])
def test_inputs_and_minibatches_are_the_rows_standardised(
    shape: tuple[int, ...], dtype: torch.dtype, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not few:
        monkeypatch.setattr("latecomer.models.task.clients._A_FEW", 0)
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (9, *shape), generator=draw, dtype=torch.uint8)
    x = x if dtype == torch.uint8 else x.to(dtype)
    scale = torch.float32 if dtype == torch.uint8 else dtype
    sides = (shape[0], *(1,) * (len(shape) - 1))
    before = x.clone()
    rows = torch.arange(9).view(3, 3)
    clients = holding(
        x,
        torch.arange(9) % 4,
        rows,
        torch.tensor([3, 2, 1]),
        mean=torch.rand(sides, generator=draw, dtype=scale),
        sd=torch.rand(sides, generator=draw, dtype=scale) + 0.5,
    )
    wanted = x.to(scale) / 255 if dtype == torch.uint8 else x
    wanted = (wanted - clients.mean) / clients.sd
    drawn = torch.tensor([[[0, 5, 5], [7, 1, 1]], [[2, 8, 0], [3, 4, 6]]])
    assert clients.inputs(drawn).dtype == scale
    torch.testing.assert_close(clients.inputs(drawn), wanted[drawn])
    torch.testing.assert_close(clients.support_of(1).x, wanted[rows[1, :2]])
    minibatches = Minibatches(clients, drawn)
    for step in range(2):
        for place, batch in enumerate(minibatches[step]):
            torch.testing.assert_close(batch.x, wanted[drawn[step, place]])
            assert torch.equal(batch.labels(), clients.y[drawn[step, place]])
            if len(shape) == 3:
                assert batch.x.stride()[1] == 1
                assert batch.x.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x, before)


@pytest.mark.parametrize("width", [8, 3])
@pytest.mark.parametrize("few", [2**18, 0])
def test_minibatches_of_each_client_are_those_it_would_have_alone(
    monkeypatch: pytest.MonkeyPatch, width: int, few: int
) -> None:
    """Number by number, and each client's begin as memory of its own would."""
    monkeypatch.setattr("latecomer.models.task.clients._A_FEW", few)
    draw = torch.Generator().manual_seed(0)
    rows = torch.arange(6).reshape(1, 6)
    x, mean, sd = torch.randn(6, width, generator=draw), *torch.rand(2, width, generator=draw)
    clients = holding(x, torch.arange(6), rows, torch.tensor([6]), mean=mean, sd=sd + 0.5)
    drawn = torch.randint(6, (3, 2, 1, 3), generator=draw)
    for fetch, own in zip(Minibatches.of_each(clients, drawn), drawn, strict=True):
        one = fetch()
        alone = Minibatches(clients, own)
        assert few == 0 or one[0][0].x.data_ptr() % 64 == 0
        for step in range(2):
            for left, right in zip(one[step], alone[step], strict=True):
                assert torch.equal(left.x, right.x)
                assert torch.equal(left.labels(), right.labels())
