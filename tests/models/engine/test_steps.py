"""Local SGD and server optimizers against torch's own, and the exact parts of their rules."""

from typing import Any

import pytest
import torch
from formula_federation import Population
from torch import Tensor

from latecomer.models.engine import local_steps
from latecomer.models.engine.fine_tuning import Tuning, tune_each
from latecomer.models.engine.local_steps import LocalSGD, clip_by_norm, local_sgd
from latecomer.models.engine.optimizers import adamw, adamw_memory, sgd, sgd_memory
from latecomer.models.task.state import Params
from latecomer.models.task.task import Task


def params(dtype: torch.dtype = torch.float64) -> Params:
    draw = torch.Generator().manual_seed(0)
    return {
        "a": torch.randn(3, 2, generator=draw, dtype=dtype),
        "b": torch.randn(4, generator=draw, dtype=dtype),
    }


def bumpy(p: Params, step: int) -> Tensor:
    return (step + 1) * (p["a"].sin().sum() + (p["b"] ** 4).sum())


@pytest.fixture(params=["in one row", "tensor by tensor"])
def lying(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the weights lie in both ways."""
    if request.param == "tensor by tensor":
        monkeypatch.setattr(local_steps, "A_FEW", 0)


@pytest.mark.usefixtures("lying")
@pytest.mark.parametrize("clip", [50.0, 0.5])
def test_local_sgd_is_torch_sgd_with_clipping(clip: float) -> None:
    rule = LocalSGD(lr=0.01, momentum=0.9, weight_decay=0.1, clip=clip)
    start = params()
    reached, loss = local_sgd(bumpy, start, n_steps=6, rule=rule)
    reference = {key: value.clone().requires_grad_() for key, value in start.items()}
    optimizer = torch.optim.SGD(reference.values(), lr=0.01, momentum=0.9, weight_decay=0.1)
    losses = []
    for step in range(6):
        optimizer.zero_grad()
        value = bumpy(reference, step)
        value.backward()
        # Not torch's clip_grad_norm_, which adds 1e-6 to the norm.
        slopes = [value.grad for value in reference.values() if value.grad is not None]
        norm = torch.cat([slope.flatten() for slope in slopes]).norm()
        for slope in slopes:
            slope *= min(1.0, clip / float(norm))
        optimizer.step()
        losses.append(value.item())
    for key, value in reference.items():
        torch.testing.assert_close(reached[key], value.detach(), rtol=1e-12, atol=1e-14)
    assert loss.item() == pytest.approx(sum(losses) / 6)
    assert all(torch.equal(start[key], value) for key, value in params().items())
    assert not any(value.requires_grad for value in reached.values())


@pytest.mark.usefixtures("lying")
def test_weight_decay_without_a_gradient_is_an_exact_factor() -> None:
    rule = LocalSGD(lr=0.25, momentum=0.0, weight_decay=0.5, clip=50.0)
    reached, _ = local_sgd(
        lambda p, _: 0.0 * (p["a"].sum() + p["b"].sum()), params(), n_steps=2, rule=rule
    )
    for key, value in params().items():
        torch.testing.assert_close(reached[key], value * 0.875**2, rtol=1e-15, atol=0)


def test_clipping_is_joint_and_only_downwards() -> None:
    slopes = [torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])]
    clipped = clip_by_norm(slopes, 1.0)
    assert torch.allclose(clipped[0], torch.tensor([0.6, 0.0]))
    assert torch.allclose(clipped[1], torch.tensor([[0.8]]))
    assert all(
        torch.equal(left, right)
        for left, right in zip(clip_by_norm(slopes, 5.1), slopes, strict=True)
    )


def test_weights_of_several_types_are_clipped_together() -> None:
    start = {
        "half": torch.zeros(2, dtype=torch.float32),
        "full": torch.zeros(1, dtype=torch.float64),
    }
    pull = {"half": torch.tensor([3.0, 0.0]), "full": torch.tensor([4.0], dtype=torch.float64)}

    def objective(p: Params, step: int) -> Tensor:
        return sum(
            ((pull[key] * value).sum().double() for key, value in p.items()), torch.zeros(())
        )

    reached, _ = local_sgd(objective, start, n_steps=1, rule=LocalSGD(lr=1.0, clip=1.0))
    assert [*reached] == ["half", "full"]
    assert reached["full"].dtype == torch.float64
    assert torch.allclose(reached["half"], torch.tensor([-0.6, 0.0]))
    assert torch.allclose(reached["full"], torch.tensor([-0.8], dtype=torch.float64))


@pytest.mark.usefixtures("lying")
def test_gradients_that_are_one_tensor_and_those_missing_are_kept_apart() -> None:
    """Steps write into gradients: two weights may be handed the same one, a third none at all."""
    draw = torch.Generator().manual_seed(2)
    start = {key: torch.randn(3, generator=draw, dtype=torch.float64) for key in "abc"}
    slope = torch.randn(3, generator=draw, dtype=torch.float64)
    rule = LocalSGD(lr=0.5, momentum=0.5, weight_decay=0.25)
    reached, _ = local_sgd(
        lambda p, _: ((p["a"] + p["b"]) * slope).sum(), start, n_steps=3, rule=rule
    )
    for key, value in start.items():
        way = torch.zeros_like(value)
        for _ in range(3):
            way = 0.5 * way + (slope if key != "c" else 0.0) + 0.25 * value
            value = value - 0.5 * way
        torch.testing.assert_close(reached[key], value, rtol=1e-14, atol=1e-14)


@pytest.mark.usefixtures("lying")
def test_filters_come_back_as_other_weights_lie() -> None:
    start = {"filters": torch.randn(4, 3, 2, 2, generator=torch.Generator().manual_seed(3))}
    rule = LocalSGD(lr=0.5, momentum=0.0)
    reached, _ = local_sgd(
        lambda p, _: p["filters"].square().sum() / 2, start, n_steps=1, rule=rule
    )
    assert reached["filters"].is_contiguous()
    assert torch.equal(reached["filters"], start["filters"] * 0.5)


def test_adamw_is_torch_adamw_and_pure() -> None:
    start = params()
    reference = {key: value.clone().requires_grad_() for key, value in start.items()}
    optimizer = torch.optim.AdamW(reference.values(), lr=0.02, weight_decay=0.3)
    current, memory = start, adamw_memory(start)
    for step in range(4):
        slopes = {key: value.cos() * (step + 1) for key, value in current.items()}
        before = {key: value.clone() for key, value in memory.items()}
        for key, value in reference.items():
            value.grad = slopes[key].clone()
        optimizer.step()
        current, after = adamw(current, slopes, memory, lr=0.02, weight_decay=0.3)
        assert all(torch.equal(memory[key], before[key]) for key in memory)
        memory = after
        for key, value in reference.items():
            torch.testing.assert_close(current[key], value.detach(), rtol=1e-12, atol=0)
    assert all(torch.equal(start[key], value) for key, value in params().items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_read_gradients_of_any_strides(dtype: torch.dtype) -> None:
    """A fused step of torch takes weights and gradients to lie alike in memory: it was caught once
    reading past the end of an expanded gradient, and channels-last ones came out permuted."""
    draw = torch.Generator().manual_seed(1)
    kernel = torch.randn(4, 3, 2, 2, generator=draw, dtype=dtype)
    image_like = torch.randn(4, 3, 2, 2, generator=draw, dtype=dtype)
    slopes = {
        "kernel": image_like.contiguous(memory_format=torch.channels_last),
        "row": torch.full((), 0.5, dtype=dtype).expand(7),
    }
    dense = {key: value.contiguous() for key, value in slopes.items()}
    assert not slopes["kernel"].is_contiguous()
    assert not slopes["row"].is_contiguous()
    start = {"kernel": kernel, "row": torch.randn(7, generator=draw, dtype=dtype)}

    class Given(torch.autograd.Function):
        """A loss whose gradients are exactly those, strides and all."""

        @staticmethod
        def forward(ctx: Any, kernel: Tensor, row: Tensor) -> Tensor:
            return kernel.new_zeros(())

        @staticmethod
        def backward(ctx: Any, *slope: Tensor) -> Any:
            return slopes["kernel"], slopes["row"]

    def given(p: Params, step: int) -> Tensor:
        loss: Tensor = Given.apply(p["kernel"], p["row"])  # type: ignore[no-untyped-call]
        return loss

    rule = LocalSGD(lr=0.5, momentum=0.5)
    reached, _ = local_sgd(given, start, n_steps=2, rule=rule)
    for key, value in start.items():
        torch.testing.assert_close(reached[key], value - 1.25 * dense[key])
    for layout in (torch.contiguous_format, torch.channels_last):
        laid = {**start, "kernel": kernel.contiguous(memory_format=layout)}
        found, _ = adamw(laid, slopes, adamw_memory(laid), lr=0.1, weight_decay=0.0)
        wanted, _ = adamw(start, dense, adamw_memory(start), lr=0.1, weight_decay=0.0)
        for key in start:
            torch.testing.assert_close(found[key], wanted[key])
            first = start[key] - 0.1 * dense[key].sign()
            torch.testing.assert_close(found[key], first, rtol=0, atol=1e-4)


def test_adamw_decay_without_a_gradient_is_an_exact_factor() -> None:
    start = params()
    zero = {key: torch.zeros_like(value) for key, value in start.items()}
    moved, _ = adamw(start, zero, adamw_memory(start), lr=0.5, weight_decay=0.25)
    assert all(torch.equal(moved[key], start[key] * 0.875) for key in start)


def test_server_sgd_is_torch_sgd() -> None:
    start = params()
    reference = {key: value.clone().requires_grad_() for key, value in start.items()}
    optimizer = torch.optim.SGD(reference.values(), lr=0.1, momentum=0.9, weight_decay=0.01)
    current, memory = start, sgd_memory(start)
    for _ in range(3):
        slopes = {key: value.cos() for key, value in current.items()}
        for key, value in reference.items():
            value.grad = slopes[key].clone()
        optimizer.step()
        current, memory = sgd(current, slopes, memory, 0.1, 0.9, 0.01)
    for key, value in reference.items():
        torch.testing.assert_close(current[key], value.detach(), rtol=1e-12, atol=1e-14)


def test_fine_tuning_lowers_the_loss_and_follows_its_generator(
    task: Task, make_population: Population
) -> None:
    support = make_population().support_of(0)
    start = task.initial(torch.Generator().manual_seed(0))

    def tune(seed: int) -> Params:
        tuning, draws = Tuning(LocalSGD(0.05), 30, 4), [torch.Generator().manual_seed(seed)]
        return tune_each(task, [start], [support], tuning, draws)[0]

    first, again, other = tune(1), tune(1), tune(2)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)
    before = task.loss(start, support.x, support.labels())
    assert task.loss(first, support.x, support.labels()) < 0.2 * before
