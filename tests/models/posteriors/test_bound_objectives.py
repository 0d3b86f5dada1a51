"""Differentiable twins of bounds: the calculators' values, and gradients that are right."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from latecomer import bounds
from latecomer.models import posteriors as twins

RISKS = (0.0, 0.01, 0.2, 0.7)
NATS = (0.0, 0.5, 30.0)
CLIENTS = (5, 90)


def tensor(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("risk", "nats", "n", "priors"), list(product(RISKS, NATS, CLIENTS, (1, 4)))
)
def test_single_level_twins_equal_the_calculators(
    risk: float, nats: float, n: int, priors: int
) -> None:
    shared: dict[str, Any] = {"n_clients": n, "delta": 0.04, "n_priors": priors}
    for name, first in (
        ("single_level_kl", "empirical_risk"),
        ("single_level_product", "mean_neg_log1m"),
    ):
        exact = getattr(bounds, name)(**{first: risk, "kl_hyper": nats, **shared})
        found = getattr(twins, name)(tensor(risk), tensor(nats), **shared)
        assert found.item() == pytest.approx(float(exact), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("risk", "nats", "n", "m"), list(product(RISKS, NATS, CLIENTS, (20, 400))))
def test_two_level_twins_equal_the_calculators(risk: float, nats: float, n: int, m: int) -> None:
    shared: dict[str, Any] = {"n_clients": n, "n_samples": m, "delta": 0.04}
    for name in ("pefll_b1", "two_step_kl"):
        exact = getattr(bounds, name)(
            empirical_risk=risk, kl_hyper=nats, sum_kl=10 * nats, **shared
        )
        found = getattr(twins, name)(tensor(risk), tensor(nats), tensor(10 * nats), **shared)
        assert found.item() == pytest.approx(float(exact), rel=1e-12, abs=1e-12)


SINGLE = {"n_clients": 30, "delta": 0.05, "n_priors": 3}
DOUBLE = {"n_clients": 30, "n_samples": 60, "delta": 0.05}


@pytest.mark.parametrize(
    ("twin", "point", "shared"),
    [
        (twins.kl_inverse, (0.1, 0.05), {}),
        (twins.kl_inverse, (0.001, 0.3), {}),
        (twins.single_level_kl, (0.1, 2.0), SINGLE),
        (twins.single_level_product, (0.1, 2.0), SINGLE),
        (twins.pefll_b1, (0.1, 2.0, 40.0), DOUBLE),
        (twins.two_step_kl, (0.1, 2.0, 40.0), DOUBLE),
    ],
)
def test_gradients_are_those_of_finite_differences(
    twin: Callable[..., Tensor], point: tuple[float, ...], shared: dict[str, Any]
) -> None:
    at = [tensor(value) for value in point]
    slopes = torch.autograd.grad(twin(*at, **shared), at)
    for place, slope in enumerate(slopes):
        step = 1e-5 * max(point[place], 1e-2)
        ends = []
        for sign in (1, -1):
            moved = [v + sign * step * (i == place) for i, v in enumerate(point)]
            ends.append(twin(*(tensor(v) for v in moved), **shared).item())
        assert slope.item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4)


def test_gradients_stay_finite_at_the_edges() -> None:
    for q, budget in ((0.0, 0.05), (0.3, 0.0), (1.0, 0.1)):
        at = [tensor(q), tensor(budget)]
        slopes = torch.autograd.grad(twins.kl_inverse(*at), at)
        assert all(torch.isfinite(slope) for slope in slopes)


def test_losses_are_bounded_and_fall_with_the_probability_of_the_label() -> None:
    y = torch.zeros(1, dtype=torch.int64)
    for loss in (twins.bounded_cross_entropy, twins.expected_error):
        values = [loss(torch.tensor([[gap, 0.0]]), y).item() for gap in (-1e4, -1.0, 0.0, 2.0, 1e4)]
        assert values == sorted(values, reverse=True)
        assert values[0] == pytest.approx(1)
        assert values[-1] == pytest.approx(0, abs=1e-6)
