"""Shares of a newcomer's classes from its inputs alone, and what they are worth."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor

from latecomer.eval.scoring.label_shift import (
    SINGULAR,
    ByBbse,
    ByEm,
    corrected,
    pooled_shares,
    shares_by_em,
    weights_by_bbse,
)
from latecomer.models.engine.method import DrawnModel
from latecomer.models.task.clients import Clients, Samples
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


@pytest.mark.slow
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


def test_a_newcomers_shares_are_found() -> None:
    support, _ = drawn([0.05, 0.9, 0.05], 400, seed=1)
    found = shares_by_em(logits(support).softmax(dim=1), TRAINED)
    assert found.tolist() == pytest.approx([0.05, 0.9, 0.05], abs=0.07)


def test_shares_as_in_training_and_no_inputs_change_nothing() -> None:
    none = torch.zeros(0, 3, dtype=torch.float64)
    assert torch.equal(shares_by_em(none, TRAINED), TRAINED)
    x = torch.zeros(0, 2, dtype=torch.float64)
    model = corrected(logits, Samples(x, None), ByEm(TRAINED))
    some, _ = drawn([0.2, 0.3, 0.5], 9, seed=3)
    torch.testing.assert_close(model(some), logits(some))


def test_each_of_several_drawn_models_has_shares_of_its_own() -> None:
    support, _ = drawn([0.05, 0.9, 0.05], 50, seed=4)

    def other(x: Tensor) -> Tensor:
        return logits(x) + torch.tensor([1.0, 0.0, 0.0])

    several = DrawnModel(2, 1, lambda number: (logits, other)[number])
    model = corrected(several, Samples(support, None), ByEm(TRAINED))
    assert isinstance(model, DrawnModel)
    alone = [corrected(one, Samples(support, None), ByEm(TRAINED)) for one in (logits, other)]
    for number in (0, 1):
        assert torch.equal(model.model(number)(support), alone[number](support))


def test_classes_of_nobody_have_a_share_above_zero() -> None:
    clients = random_population(make_task(input_shape=(6,), n_classes=4), 5)
    clients.y[clients.y == 3] = 0
    shares = pooled_shares(clients, 4)
    assert 0 < float(shares[3]) < float(shares.min(dim=0).values) + 1e-12
    assert float(shares.sum()) == pytest.approx(1)


@given(seed=st.integers(0, 2**32 - 1), n_classes=st.integers(2, 6), n=st.integers(1, 200))
def test_weights_are_those_of_plain_numpy(seed: int, n_classes: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    truth, told = rng.integers(0, n_classes, size=(2, 400))
    told = np.where(rng.random(400) < 0.7, truth, told)
    joint = np.zeros((n_classes, n_classes))
    for one, other in zip(told, truth, strict=True):
        joint[one, other] += 1 / 400
    answers = rng.dirichlet(np.ones(n_classes))
    found = weights_by_bbse(torch.from_numpy(joint), torch.from_numpy(answers), n)
    plain = np.maximum(np.linalg.solve(joint, answers), 0)
    plain /= plain @ np.bincount(truth, minlength=n_classes) * (1 / 400)
    assert not found.ridge
    assert np.allclose(found.values.numpy(), plain)
    assert float(found.values @ torch.from_numpy(joint.sum(axis=0))) == pytest.approx(1)


def test_what_is_negative_is_clipped_and_the_rest_scaled() -> None:
    confusion = torch.tensor([[0.4, 0.2], [0.1, 0.3]], dtype=torch.float64)
    # Solved: 2.5 and -.5, for no shares of the classes could give as many answers of class 0.
    found = weights_by_bbse(confusion, torch.tensor([0.9, 0.1], dtype=torch.float64), 50)
    assert found.values.tolist() == pytest.approx([2.0, 0.0])


def test_a_matrix_that_cannot_be_inverted_is_bent_as_the_authors_do() -> None:
    """Classes 1 and 2 are told apart by nobody: a ridge shares what is answered between them."""
    joint = np.array([[0.3, 0.05, 0.05], [0.05, 0.15, 0.15], [0.05, 0.1, 0.1]])
    answers = np.array([0.2, 0.5, 0.3])
    found = weights_by_bbse(torch.from_numpy(joint), torch.from_numpy(answers), 40)
    assert found.ridge
    plain = np.linalg.solve(joint.T @ joint + np.eye(3) / 40, joint.T @ answers)
    assert (plain > 0).all()
    assert np.allclose(found.values.numpy(), plain / (plain @ joint.sum(axis=0)))
    assert float(found.values[1]) == pytest.approx(float(found.values[2]))
    singular = np.linalg.svd(joint, compute_uv=False)
    assert singular[-1] < SINGULAR * singular[0]


def test_classes_without_labelled_samples_keep_their_weight() -> None:
    joint = torch.tensor([[0.5, 0, 0.0], [0, 0.5, 0.0], [0, 0, 0.0]], dtype=torch.float64)
    found = weights_by_bbse(joint, torch.tensor([0.6, 0.2, 0.2], dtype=torch.float64), 40)
    assert not found.ridge
    assert found.values.tolist() == pytest.approx([1.5, 0.5, 1.0])


def test_answers_of_classes_that_nobody_has_change_nothing() -> None:
    joint = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    found = weights_by_bbse(joint, torch.tensor([0.0, 1.0], dtype=torch.float64), 9)
    assert found.values.tolist() == [1.0, 1.0]


def held_out(n: int, seed: int) -> Clients:
    """Return two clients whose query data are labelled samples of the trained shares."""
    x, y = drawn(TRAINED.tolist(), n, seed)
    rows, sizes = torch.arange(n).view(2, -1), torch.tensor([n // 2, n // 2])
    none = torch.zeros((), dtype=torch.float64)
    return Clients(
        **{"x": x, "y": y, "support": rows, "support_sizes": sizes},
        **{"query": rows, "query_sizes": sizes, "ids": torch.arange(2)},
        **{"mean": none, "sd": none + 1},
    )


@pytest.mark.parametrize("shares", [[0.05, 0.9, 0.05], [0.6, 0.3, 0.1], [0.0, 0.5, 0.5]])
def test_shares_are_recovered_from_a_models_answers(shares: list[float]) -> None:
    support, _ = drawn(shares, 4000, seed=5)
    found = ByBbse(held_out(8000, seed=6), 3).found(logits, support)
    assert not found.ridge
    assert (found.values * TRAINED).tolist() == pytest.approx(shares, abs=0.04)
    uncorrected = torch.bincount(logits(support).argmax(dim=1), minlength=3) / 4000
    off = (uncorrected - torch.tensor(shares)).abs().max()
    assert float(off) > float((found.values * TRAINED - torch.tensor(shares)).abs().max())


@pytest.mark.parametrize("by", [ByEm(TRAINED), ByBbse(held_out(2000, seed=7), 3)])
def test_shares_lower_a_newcomers_error(by: ByEm | ByBbse) -> None:
    support, _ = drawn([0.05, 0.9, 0.05], 400, seed=1)
    model = corrected(logits, Samples(support, None), by)
    x, y = drawn([0.05, 0.9, 0.05], 4000, seed=2)
    before, after = ((one(x).argmax(dim=1) != y).double().mean() for one in (logits, model))
    assert after < 0.5 * before


def test_without_inputs_all_weigh_the_same_and_logits_stay_finite() -> None:
    none = torch.zeros(0, 2, dtype=torch.float64)
    by = ByBbse(held_out(200, seed=8), 3)
    some, _ = drawn([1.0, 0.0, 0.0], 9, seed=3)
    assert torch.equal(corrected(logits, Samples(none, None), by)(some), logits(some))
    assert torch.isfinite(corrected(logits, Samples(some, None), by)(some)).all()
