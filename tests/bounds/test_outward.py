"""No certificate is rounded inward: values against 50-digit evaluations of the same floats."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

import latecomer.bounds as bounds

mp: Any = mpmath
TIGHT = 2e-12
N_CALLS = 60


def inverse(q: Any, budget: Any) -> Any:
    """kl^-1(q | budget) at 50 digits by bisection in -ln(1-p)."""

    def excess(p: Any) -> Any:
        if p >= 1:
            return mp.inf
        first = q * mp.log(q / p) if q > 0 else mpf(0)
        return first + ((1 - q) * mp.log((1 - q) / (1 - p)) if q < 1 else mpf(0)) - budget

    if q >= 1:
        return mpf(1)
    low, high = -mp.log(1 - q), (budget + mp.log(2)) / (1 - q) - mp.log(1 - q)
    for _ in range(190):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(1 - mp.exp(-middle)) < 0 else (low, middle)
    return 1 - mp.exp(-high)


def exact_xi(n: int) -> Any:
    return mp.exp(mp.log(mp.factorial(n)) + n - n * mp.log(n)) * mp.gammainc(
        n + 1, n, regularized=True
    )


def b(kl: Any, n: int, delta: Any) -> Any:
    return kl + mp.log(2 * mp.sqrt(n) / delta)


def thiemann(r: Any, top: Any, price: Any, n: int, lam: Any) -> Any:
    return (r + top * price / (n * lam)) / (1 - lam / 2)


def bernstein(r: Any, var: Any, n: int, delta: Any, top: Any) -> Any:
    log_term = mp.log(2 / delta)
    return r + mp.sqrt(2 * var * log_term / n) + 7 * top * log_term / (3 * (n - 1))


def quadratic(r: Any, kl: Any, n: int, d: Any, m: Any) -> Any:
    half = m * b(kl, n, d) / (2 * n)
    return (mp.sqrt(r + half) + mp.sqrt(half)) ** 2


Exact = Callable[..., Any]
# Further arguments, and the value from r, kl, n, delta and top as 50-digit numbers.
FORMS: dict[str, tuple[dict[str, float], Exact]] = {
    "hoeffding": ({}, lambda r, kl, n, d, m: r + m * mp.sqrt(mp.log(1 / d) / (2 * n))),
    "chernoff_kl": ({}, lambda r, kl, n, d, m: m * inverse(r / m, mp.log(1 / d) / n)),
    "emp_bernstein": (
        {"variance": 0.1},
        lambda r, kl, n, d, m: bernstein(r, mpf(0.1), n, d, m),
    ),
    "maurer": ({}, lambda r, kl, n, d, m: r + m * mp.sqrt(b(kl, n, d) / (2 * n))),
    "mcallester03": (
        {},
        lambda r, kl, n, d, m: r + m * mp.sqrt((kl + mp.log(n / d)) / (2 * (n - 1))),
    ),
    "seeger": ({}, lambda r, kl, n, d, m: m * inverse(r / m, b(kl, n, d) / n)),
    "seeger_exact": (
        {},
        lambda r, kl, n, d, m: m * inverse(r / m, (kl + mp.log(exact_xi(n) / d)) / n),
    ),
    "catoni": (
        {"c": 0.75},
        lambda r, kl, n, d, m: (
            m * mp.expm1(-mpf(0.75) * r / m - (kl + mp.log(1 / d)) / n) / mp.expm1(-mpf(0.75))
        ),
    ),
    "thiemann": (
        {"lam": 0.3},
        lambda r, kl, n, d, m: thiemann(r, m, b(kl, n, d), n, mpf(0.3)),
    ),
    "pbb_quad": ({}, quadratic),
    "thiemann_opt": ({}, quadratic),
    "mc_then_kl": (
        {"n_draws": 70, "delta_draws": 0.001},
        lambda r, kl, n, d, m: (
            m * inverse(inverse(r / m, mp.log(2 / mpf(0.001)) / 70), b(kl, n, d) / n)
        ),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_closed_and_inverted_forms(form: str) -> None:
    rng = np.random.default_rng(31)
    more, exact = FORMS[form]
    calculator = getattr(bounds, form)
    takes = signature(calculator).parameters
    with mpmath.workdps(50):
        for call in range(N_CALLS):
            top = 1.0 if call % 3 else float(rng.uniform(0.7, 40))
            r = float(top * rng.choice([0.0, rng.random(), rng.beta(1, 30)]))
            kl, n = float(rng.choice([0.0, rng.uniform(0, 90)])), int(10 ** rng.uniform(0.4, 5))
            delta = float(10 ** rng.uniform(-9, -0.1))
            given = {"empirical_risk": r, "monte_carlo_risk": r, "kl": kl, "n_samples": n, **more}
            given |= {"delta": delta, "loss_max": top}
            asked = {name: one for name, one in given.items() if name in takes}
            value = mpf(float(calculator(**asked)))
            true = exact(mpf(r), mpf(kl), n, mpf(delta), mpf(top))
            if form in ("chernoff_kl", "seeger", "seeger_exact", "mc_then_kl") and value == top:
                continue
            assert value >= true, (r, kl, n, delta, top)
            assert value <= true * (1 + TIGHT)


def test_product() -> None:
    rng = np.random.default_rng(32)
    with mpmath.workdps(50):
        for call in range(N_CALLS):
            top = 1.0 if call % 3 else float(rng.uniform(0.7, 40))
            losses = top * rng.beta(1, 9, int(10 ** rng.uniform(0, 3.3)))
            delta = float(10 ** rng.uniform(-9, -0.1))
            value = mpf(float(bounds.product(losses=losses, delta=delta, loss_max=top)))
            logs = mp.fsum(mp.log(1 - mpf(float(x)) / mpf(top)) for x in losses)
            true = -mpf(top) * mp.expm1((mp.log(mpf(delta)) + logs) / len(losses))
            assert value == top or true <= value <= true * (1 + TIGHT)


@pytest.mark.parametrize(
    ("rule", "pool"),
    [
        *(("wsr", None), ("betting_mixture", None), ("product_mixture", None)),
        *(("wsr_wor", 80), ("wsr_wor", 90), ("wsr_wor", 4000)),
    ],
)
def test_betting(rule: str, pool: int | None) -> None:
    """The exact wealth at the reported risk exceeds 1/delta, a hair below it does not."""
    rng, certified = np.random.default_rng(33), 0
    with mpmath.workdps(50):
        for _ in range(25):
            losses = rng.beta(1, 6, int(rng.integers(12, 80)))
            delta = float(10 ** rng.uniform(-4, -0.3))
            arguments: dict[str, Any] = {"losses": losses, "delta": delta}
            if pool is not None:
                arguments["pool_size"] = pool
            value = float(getattr(bounds, rule)(**arguments))
            cap = 1.0 if pool is None else min(1.0, (losses.sum() + pool - losses.size) / pool)
            target = mp.log(1 / mpf(delta))
            if value >= cap * (1 - 1e-12):
                assert value == pytest.approx(cap, rel=1e-12)
                assert wealth(rule, losses, delta, cap * (1 - mpf(1e-9)), pool) <= target
                continue
            certified += 1
            assert wealth(rule, losses, delta, mpf(value), pool) >= target
            assert wealth(rule, losses, delta, mpf(value) * (1 - mpf(1e-11)), pool) < target
    assert certified > 10


def wealth(rule: str, losses: Any, delta: float, risk: Any, pool: int | None) -> Any:
    """Log wealth at 50 digits, from the definitions."""
    exact = [mpf(float(loss)) for loss in losses]
    if rule == "betting_mixture":
        bets = [mpf(2) ** -j for j in range(10)]
        return mp.log(sum(mp.fprod(1 - bet * (x - risk) for x in exact) for bet in bets) / 10)
    if rule == "product_mixture":
        bets = [mpf(float(place)) for place in np.arange(1, 6) / 5]
        ratios = [mp.fprod((1 - bet * x) / (1 - bet * risk) for x in exact) for bet in bets]
        return mp.log(sum(ratios) / 5)
    k, gained, best = len(exact), mpf(0), mpf("-inf")
    total, squares, spread = mpf(0), mpf(0), mpf("0.25")
    for i, x in enumerate(exact, start=1):
        bet = min(mpf(1), mp.sqrt(2 * mp.log(1 / mpf(delta)) / (k * spread)))
        mean = risk if pool is None else (pool * risk - total) / (pool - i + 1)
        gained += mp.log(1 - bet * (x - mean))
        best = max(best, gained)
        total += x
        squares += (x - (mpf("0.5") + total) / (i + 1)) ** 2
        spread = (mpf("0.25") + squares) / (i + 1)
    return best
