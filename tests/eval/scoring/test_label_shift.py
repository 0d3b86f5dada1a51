"""Shares of a newcomer's classes from its inputs alone, and what they are worth."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor

from latecomer.eval.scoring.label_shift import corrected, pooled_shares, shares_by_em
from latecomer.models.engine.method import DrawnModel
from latecomer.models.task.clients import Samples
from latecomer.models.task.task import make_task
from latecomer.models.traffic import random_population

MEANS = torch.tensor([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]], dtype=torch.float64)
TRAINED = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)


def drawn(shares: list[float], n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw inputs and labels of classes that are normal around their means."""
    rng = np.random.default_rng(seed)
    y = torch.from_numpy(rng.choice(3, size=n, p=shares))
    return MEANS[y] + torch.from_numpy(rng.normal(size=(n, 2))), y


def logits(x: Tensor) -> Tensor:
    """Return the right logits of those classes under the shares in training."""
    return -(torch.cdist(x, MEANS) ** 2) / 2 + TRAINED.log()


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60))
def test_no_other_shares_are_likelier(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    probabilities = torch.from_numpy(rng.dirichlet(np.ones(3), size=n))
    found = shares_by_em(probabilities, TRAINED)
    assert float(found.sum()) == pytest.approx(1)

    def lost(z: np.ndarray) -> float:
        shares = np.exp(z) / np.exp(z).sum()
        return -float(np.log((probabilities.numpy() * shares / TRAINED.numpy()).sum(axis=1)).mean())

    best = minimize(lost, np.zeros(3), method="BFGS").fun
    with np.errstate(divide="ignore"):
        own = lost(np.log(np.maximum(found.numpy(), 1e-12)))
    assert own <= best + 1.1e-3


def test_a_newcomers_shares_are_found_and_lower_its_error() -> None:
    support, _ = drawn([0.05, 0.9, 0.05], 400, seed=1)
    found = shares_by_em(logits(support).softmax(dim=1), TRAINED)
    assert found.tolist() == pytest.approx([0.05, 0.9, 0.05], abs=0.07)
    x, y = drawn([0.05, 0.9, 0.05], 4000, seed=2)
    model = corrected(logits, Samples(support, None), TRAINED)
    before, after = ((one(x).argmax(dim=1) != y).double().mean() for one in (logits, model))
    assert after < 0.5 * before


def test_shares_as_in_training_and_no_inputs_change_nothing() -> None:
    none = torch.zeros(0, 3, dtype=torch.float64)
    assert torch.equal(shares_by_em(none, TRAINED), TRAINED)
    x = torch.zeros(0, 2, dtype=torch.float64)
    model = corrected(logits, Samples(x, None), TRAINED)
    some, _ = drawn([0.2, 0.3, 0.5], 9, seed=3)
    torch.testing.assert_close(model(some), logits(some))


def test_each_of_several_drawn_models_has_shares_of_its_own() -> None:
    support, _ = drawn([0.05, 0.9, 0.05], 50, seed=4)

    def other(x: Tensor) -> Tensor:
        return logits(x) + torch.tensor([1.0, 0.0, 0.0])

    several = DrawnModel(2, 1, lambda number: (logits, other)[number])
    model = corrected(several, Samples(support, None), TRAINED)
    assert isinstance(model, DrawnModel)
    alone = [corrected(one, Samples(support, None), TRAINED) for one in (logits, other)]
    for number in (0, 1):
        assert torch.equal(model.model(number)(support), alone[number](support))


def test_classes_of_nobody_have_a_share_above_zero() -> None:
    clients = random_population(make_task(input_shape=(6,), n_classes=4), 5)
    clients.y[clients.y == 3] = 0
    shares = pooled_shares(clients, 4)
    assert 0 < float(shares[3]) < float(shares.min(dim=0).values) + 1e-12
    assert float(shares.sum()) == pytest.approx(1)
