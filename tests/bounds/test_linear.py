"""pFedHN's Proposition 1: the closed form against descent, random rivals and wrong readings."""

from typing import Any

import numpy as np
import pytest

from latecomer.bounds.training import linear_optimum


@pytest.fixture
def solutions() -> np.ndarray:
    rng = np.random.default_rng(11)
    return rng.normal(size=(12, 5)) @ rng.normal(size=(5, 5)) + 3.0


def loss(solutions: np.ndarray, weights: np.ndarray) -> float:
    """Distance left after the best descriptors for the given weights."""
    descriptors = np.linalg.lstsq(weights, solutions.T, rcond=None)[0]
    return float(np.square(weights @ descriptors - solutions.T).sum())


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_no_rival_is_better(solutions: np.ndarray, k: int) -> None:
    best = linear_optimum(solutions=solutions, dimension=k)
    assert best.weights.shape == (5, k)
    assert best.descriptors.shape == (12, k)
    reached = np.square(best.descriptors @ best.weights.T - solutions).sum()
    assert float(best.loss) == pytest.approx(float(reached), rel=1e-10)
    assert float(best.loss) == pytest.approx(loss(solutions, best.weights), rel=1e-10)
    rng = np.random.default_rng(k)
    rivals = [loss(solutions, rng.normal(size=(5, k))) for _ in range(200)]
    near = [loss(solutions, best.weights + 0.05 * rng.normal(size=(5, k))) for _ in range(200)]
    assert min(rivals + near) > float(best.loss)
    # Alternating least squares from a random start reaches it.
    weights = rng.normal(size=(5, k))
    for _ in range(2000):
        descriptors = np.linalg.lstsq(weights, solutions.T, rcond=None)[0]
        weights = np.linalg.lstsq(descriptors.T, solutions, rcond=None)[0].T
    assert loss(solutions, weights) == pytest.approx(float(best.loss), rel=1e-6)


def test_it_minimises_the_clients_own_losses(solutions: np.ndarray) -> None:
    rng = np.random.default_rng(2)
    designs = [np.linalg.qr(rng.normal(size=(9, 5)))[0] for _ in solutions]
    targets = [
        design @ theta + (np.eye(9) - design @ design.T) @ rng.normal(size=9)
        for design, theta in zip(designs, solutions, strict=True)
    ]
    best = linear_optimum(solutions=solutions, dimension=2)

    def risk(models: np.ndarray) -> float:
        return sum(
            float(np.square(design @ model - target).sum())
            for design, model, target in zip(designs, models, targets, strict=True)
        )

    at_best = risk(best.descriptors @ best.weights.T)
    assert at_best == pytest.approx(risk(solutions) + float(best.loss), rel=1e-10)


def test_removing_the_mean_is_another_problem(solutions: np.ndarray) -> None:
    best = linear_optimum(solutions=solutions, dimension=1)
    centred = np.linalg.svd(solutions - solutions.mean(axis=0))[2][:1].T
    assert loss(solutions, centred) > 1.5 * float(best.loss)


def test_full_rank_loses_nothing_and_signs_are_fixed(solutions: np.ndarray) -> None:
    full = linear_optimum(solutions=solutions, dimension=5)
    assert float(full.loss) == 0.0
    np.testing.assert_allclose(full.descriptors @ full.weights.T, solutions, rtol=1e-10)
    np.testing.assert_allclose(full.weights.T @ full.weights, np.eye(5), atol=1e-12)
    turned = linear_optimum(solutions=-solutions, dimension=5)
    np.testing.assert_allclose(turned.weights, full.weights, atol=1e-10)


@pytest.mark.parametrize(
    ("table", "dimension", "message"),
    [
        ([[1.0, 2.0], [2.0, 4.0]], 2, r"dimension must lie in \[1, 1\], the rank of solutions"),
        ([[0.0, 0.0]], 1, r"dimension must lie in \[1, 0\]"),
        ([[1.0, 2.0]], [1], "dimension must be one whole number"),
    ],
)
def test_bad_input(table: Any, dimension: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        linear_optimum(solutions=table, dimension=dimension)
