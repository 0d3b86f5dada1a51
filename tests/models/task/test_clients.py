"""Populations: what is stored, what is shown, what is refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from latecomer.models.task.clients import Clients, Minibatches


def test_bytes_are_scaled_and_standardised() -> None:
    x = torch.tensor([[[[0, 255]]], [[[51, 102]]]], dtype=torch.uint8)
    clients = Clients(
        x=x,
        y=torch.tensor([3, 4]),
        support=torch.tensor([[1, 0]]),
        support_sizes=torch.tensor([1]),
        query=torch.tensor([[0]]),
        query_sizes=torch.tensor([1]),
        ids=torch.tensor([7]),
        mean=torch.tensor([0.2]),
        sd=torch.tensor([0.4]),
    )
    own = clients.support_of(0)
    assert own.x.dtype == torch.float32
    assert torch.allclose(own.x, torch.tensor([[[[0.0, 0.5]]]]), atol=1e-6)
    assert own.labels().tolist() == [4]
    assert clients.query_of(0).labels().tolist() == [3]
    assert torch.equal(x[0], torch.tensor([[[0, 255]]], dtype=torch.uint8))
    rows = torch.zeros(2, 3, dtype=torch.int64)
    assert clients.inputs(rows).shape == (2, 3, 1, 1, 2)


def test_padding_is_never_shown(make_population: Callable[..., Clients]) -> None:
    clients = make_population((3, 7))
    assert len(clients.support_of(0)) == 3
    assert len(clients.support_of(1)) == 7


def test_unlabelled_clients_show_no_labels(make_population: Callable[..., Clients]) -> None:
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
    make_population: Callable[..., Clients], change: dict[str, torch.Tensor], message: str
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
    clients = Clients(
        x=x,
        y=torch.arange(9) % 4,
        support=rows,
        support_sizes=torch.tensor([3, 2, 1]),
        query=rows,
        query_sizes=torch.tensor([3, 3, 3]),
        ids=torch.arange(3),
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
    clients = Clients(
        x=torch.randn(6, width, generator=draw),
        y=torch.arange(6),
        support=rows,
        support_sizes=torch.tensor([6]),
        query=rows,
        query_sizes=torch.tensor([6]),
        ids=torch.zeros(1, dtype=torch.int64),
        mean=torch.rand(width, generator=draw),
        sd=torch.rand(width, generator=draw) + 0.5,
    )
    drawn = torch.randint(6, (3, 2, 1, 3), generator=draw)
    for fetch, own in zip(Minibatches.of_each(clients, drawn), drawn, strict=True):
        one = fetch()
        alone = Minibatches(clients, own)
        assert few == 0 or one[0][0].x.data_ptr() % 64 == 0
        for step in range(2):
            for left, right in zip(one[step], alone[step], strict=True):
                assert torch.equal(left.x, right.x)
                assert torch.equal(left.labels(), right.labels())
