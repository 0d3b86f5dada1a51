"""Relations between Baxter's theorems, covering numbers and pFedHN's Theorem 1.

No simulation: these capacity bounds exceed any measured deviation by orders of magnitude.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.bounds.uniform_convergence import (
    baxter_eps_const,
    baxter_thm2_eps,
    baxter_thm2_m,
    baxter_thm2_n,
    baxter_thm4_m,
    log_cover_ball,
    pfedhn_eps,
    pfedhn_M,
)

SETTINGS = settings(max_examples=40, deadline=None, derandomize=True)
CAPACITY = st.floats(0.0, 1e6)
COUNT = st.integers(1, 10**5)
DELTA = st.floats(1e-9, 0.999)
EPSILON = st.floats(1e-3, 1.0)
PFEDHN: dict[str, Any] = {
    **dict(n_clients=90, descriptor_dim=25, hypernetwork_dim=1000, radius=1.0, delta=0.05),
    **dict(loss_lipschitz=1.0, weight_lipschitz=1.0, descriptor_lipschitz=1.0),
}


@SETTINGS
@given(CAPACITY, COUNT, EPSILON, DELTA)
def test_theorem_2_is_theorem_4_twice(c: float, n: int, eps: float, delta: float) -> None:
    second = baxter_thm2_m(log_capacity_samples=c, n_clients=n, epsilon=eps, delta=delta)
    fourth = baxter_thm4_m(log_capacity_samples=c, n_clients=n, epsilon=eps / 2, delta=delta / 2)
    assert float(second) == pytest.approx(float(fourth), rel=1e-13)


@pytest.mark.slow
@SETTINGS
@given(CAPACITY, CAPACITY, COUNT, COUNT, DELTA)
def test_epsilon_with_constant_capacities(a: float, b: float, n: int, m: int, delta: float) -> None:
    eps = float(
        baxter_eps_const(
            log_capacity_clients=a, log_capacity_samples=b, n_clients=n, n_samples=m, delta=delta
        )
    )

    def enough(at: float) -> bool:
        clients = baxter_thm2_n(log_capacity_clients=a, epsilon=at, delta=delta)
        samples = baxter_thm2_m(log_capacity_samples=b, n_clients=n, epsilon=at, delta=delta)
        return bool(clients <= n and samples <= m)

    assert enough(eps * (1 + 1e-12))
    assert not enough(eps * (1 - 1e-9))
    found = baxter_thm2_eps(
        log_capacity_clients=lambda radius: np.full_like(radius, a),
        log_capacity_samples=lambda radius: np.full_like(radius, b),
        n_clients=n,
        n_samples=m,
        delta=delta,
        largest=1e6,
    )
    assert float(found) == pytest.approx(eps, rel=1e-9)


def test_epsilon_with_ball_covers() -> None:
    def capacity(dimension: int) -> Any:
        return lambda radius: log_cover_ball(
            dimension=dimension, ball_radius=1.0, cover_radius=radius
        )

    n, m = np.array([10**5, 10**7]), 10**4
    eps = baxter_thm2_eps(
        log_capacity_clients=capacity(5),
        log_capacity_samples=capacity(5000),
        n_clients=n,
        n_samples=m,
        delta=0.05,
    )
    for at, clients in zip(eps, n, strict=True):
        need = baxter_thm2_n(
            log_capacity_clients=capacity(5)(np.asarray(at / 32)), epsilon=at, delta=0.05
        )
        assert float(need) <= clients
    assert eps[1] < eps[0] < 1.0
    lost = baxter_thm2_eps(
        log_capacity_clients=lambda radius: np.full_like(radius, 1e9),
        log_capacity_samples=lambda radius: np.full_like(radius, 1e9),
        n_clients=10,
        n_samples=10,
        delta=0.05,
    )
    assert math.isinf(float(lost))


def test_known_numbers() -> None:
    clients = baxter_thm2_n(log_capacity_clients=20.0, epsilon=0.2, delta=0.05)
    assert math.ceil(float(clients)) == 160_481 or round(float(clients)) == 160_481
    real = PFEDHN | {"hypernetwork_dim": 12_000_000}
    assert float(pfedhn_M(**real, epsilon=0.1)) == pytest.approx(5.6e9, rel=0.02)
    assert float(pfedhn_eps(**real, n_samples=400)) >= 32.0
    assert bool(pfedhn_eps(**real, n_samples=400).vacuous)


@pytest.mark.slow
@SETTINGS
@given(
    st.integers(1, 10**9), st.integers(1, 500), st.integers(1, 10**6), st.floats(0.1, 10.0), DELTA
)
def test_pfedhn_eps_inverts_m(m: int, n: int, dim: int, radius: float, delta: float) -> None:
    call = PFEDHN | dict(n_clients=n, hypernetwork_dim=dim, radius=radius, delta=delta)
    eps = float(pfedhn_eps(**call, n_samples=m))
    assert float(pfedhn_M(**call, epsilon=eps)) <= m * (1 + 1e-9)
    # At the radius where one ball covers everything the capacity jumps: from the left it is more.
    assert float(pfedhn_M(**call, epsilon=eps * (1 - 1e-7))) >= m * (1 - 1e-6)


def test_pfedhn_directions() -> None:
    base = float(pfedhn_M(**PFEDHN, epsilon=0.1))
    for larger in ("n_clients", "radius", "loss_lipschitz", "weight_lipschitz"):
        moved = float(pfedhn_M(**PFEDHN | {larger: 2 * PFEDHN[larger]}, epsilon=0.1))
        assert (moved < base) == (larger == "n_clients")
    assert float(pfedhn_M(**PFEDHN, epsilon=0.2)) < base


def test_a_huge_ball_costs_its_logarithm_and_no_more() -> None:
    call = PFEDHN | {"radius": 1e149}
    eps = float(pfedhn_eps(**call, n_samples=10**9))
    assert float(pfedhn_M(**call, epsilon=eps)) <= 10**9
    assert float(pfedhn_M(**call, epsilon=eps * (1 - 1e-7))) > 10**9 * (1 - 1e-6)
    largest = pfedhn_M(**PFEDHN | {"radius": 1e308}, epsilon=0.1)
    assert 1 < float(largest) / float(pfedhn_M(**PFEDHN | {"radius": 1e306}, epsilon=0.1)) < 1.01
    for radius in (1e-151, 1e151):
        with pytest.raises(ValueError, match=r"radius must lie in \[1e-150, 1e\+150\], got"):
            pfedhn_eps(**PFEDHN | {"radius": radius}, n_samples=100)


def test_a_constant_descriptor_is_legitimate() -> None:
    """A hypernetwork that makes the same of every descriptor has L_V = 0; only the sum counts."""
    none = PFEDHN | {"weight_lipschitz": 2.0, "descriptor_lipschitz": 0.0}
    both = PFEDHN | {"weight_lipschitz": 1.0, "descriptor_lipschitz": 1.0}
    assert float(pfedhn_M(**none, epsilon=0.1)) == float(pfedhn_M(**both, epsilon=0.1))
    assert float(pfedhn_eps(**none, n_samples=10**6)) == float(pfedhn_eps(**both, n_samples=10**6))
    # A head has weights of its own to cover, and they move the loss beside the generated ones.
    larger = PFEDHN | {"descriptor_dim": PFEDHN["descriptor_dim"] + 5}
    through = PFEDHN["weight_lipschitz"] + PFEDHN["descriptor_lipschitz"]
    larger["loss_lipschitz"] = PFEDHN["loss_lipschitz"] * (through + 1) / through
    assert float(pfedhn_M(**PFEDHN, epsilon=0.1, head_dim=5)) == pytest.approx(
        float(pfedhn_M(**larger, epsilon=0.1))
    )
    # The paper's radius is half as large as needed; at twice the epsilon inside it would agree.
    halved = log_cover_ball(dimension=3250, ball_radius=1.0, cover_radius=0.1 / 64)
    ours = log_cover_ball(dimension=3250, ball_radius=1.0, cover_radius=0.1 / 32)
    assert float(ours) < float(halved) < float(ours) + 3250 * math.log(2.0)
    risk = pfedhn_eps(**PFEDHN, n_samples=10**7, empirical_risk=0.1)
    gap = pfedhn_eps(**PFEDHN, n_samples=10**7)
    assert float(risk) == pytest.approx(0.1 + float(gap), rel=1e-12)
    assert risk.population == "seen-clients"


def test_heads_that_learn_by_heart_are_not_certified() -> None:
    """One of 10^9 unit vectors, a coin as its label: a head of length 100 has them all by heart.

    40,000 samples, all different but for some: training loss 0, true loss 1/2.
    """
    call = PFEDHN | dict(n_clients=1, descriptor_dim=1, hypernetwork_dim=1, radius=1000.0)
    call |= dict(weight_lipschitz=1e-9, descriptor_lipschitz=0.0, head_dim=10**9)
    bound = pfedhn_eps(**call, n_samples=40_000)
    assert float(bound) > 0.5


def test_losses_on_another_scale() -> None:
    scaled = PFEDHN | {"loss_lipschitz": 5.0, "loss_max": 5.0}
    assert float(pfedhn_eps(**scaled, n_samples=10**6)) == pytest.approx(
        5.0 * float(pfedhn_eps(**PFEDHN, n_samples=10**6)), rel=1e-9
    )
    assert float(
        baxter_thm2_n(log_capacity_clients=3, epsilon=0.5, delta=0.1, loss_max=5)
    ) == pytest.approx(float(baxter_thm2_n(log_capacity_clients=3, epsilon=0.1, delta=0.1)))


def test_broadcasting() -> None:
    m, delta = np.array([10**6, 10**8]), np.array([[0.05], [0.2], [0.9]])
    table = pfedhn_eps(**PFEDHN | {"delta": delta}, n_samples=m).value
    assert table.shape == (3, 2)
    alone = pfedhn_eps(**PFEDHN | {"delta": 0.2}, n_samples=10**8)
    assert table[1, 1] == pytest.approx(float(alone), rel=1e-12)


@pytest.mark.parametrize(
    ("dimension", "ball", "cover", "expected"),
    [(3, 1.0, 1.0, 0.0), (3, 1.0, 2.0, 0.0), (0, 1.0, 0.1, 0.0), (2, 1.0, 0.5, 2 * math.log(5))],
)
def test_cover_of_a_ball(dimension: int, ball: float, cover: float, expected: float) -> None:
    found = log_cover_ball(dimension=dimension, ball_radius=ball, cover_radius=cover)
    assert float(found) == pytest.approx(expected, abs=1e-15)
