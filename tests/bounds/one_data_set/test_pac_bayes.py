"""PAC-Bayes bounds over one data set: check values, orderings, limits, monotonicity, shapes."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from itertools import product as every
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from latecomer.bounds import (
    Certificate,
    catoni,
    catoni_grid,
    chernoff_kl,
    kl_inverse_upper,
    maurer,
    mc_then_kl,
    mcallester03,
    pbb_quad,
    seeger,
    seeger_exact,
    thiemann,
    thiemann_opt,
    tolstikhin_seldin,
)

Rule = Callable[..., Certificate]
CHECK = {"empirical_risk": 0.05, "kl": 100, "n_samples": 5000, "delta": 0.05}
GRID = [0.25, 0.5, 1.0, 2.0, 4.0]


def _tolstikhin(*, empirical_risk: Any, loss_max: float = 1.0, **given: Any) -> Certificate:
    spread = 0.1 * loss_max**2
    return tolstikhin_seldin(
        empirical_risk=empirical_risk, variance=spread, loss_max=loss_max, **given
    )


def _monte_carlo(*, empirical_risk: Any, **given: Any) -> Certificate:
    return mc_then_kl(monte_carlo_risk=empirical_risk, n_draws=500, delta_draws=1e-3, **given)


RULES: dict[str, Rule] = {
    "maurer": maurer,
    "mcallester03": mcallester03,
    "seeger": seeger,
    "seeger_exact": seeger_exact,
    "catoni": partial(catoni, c=1.5),
    "catoni_grid": partial(catoni_grid, grid=GRID),
    "thiemann": partial(thiemann, lam=0.7),
    "thiemann_opt": thiemann_opt,
    "pbb_quad": pbb_quad,
    "tolstikhin_seldin": _tolstikhin,
    "mc_then_kl": _monte_carlo,
}
risks = st.floats(0.0, 1.0)
nats = st.floats(0.0, 1e4)
sizes = st.integers(2, 10**5)
deltas = st.floats(1e-9, 0.99)
rules = pytest.mark.parametrize("rule", RULES)


def number(rule: str, r: float, kl: float, n: int, delta: float, **more: Any) -> float:
    return float(RULES[rule](empirical_risk=r, kl=kl, n_samples=n, delta=delta, **more))


def test_check_values_of_catoni() -> None:
    constants = catoni(c=[0.5, 1.0, 2.0], **CHECK)
    np.testing.assert_allclose(constants.value, [0.1132874269, 0.1078348936, 0.1313928939], 1e-8)


@rules
@given(risks, risks, nats, nats, deltas, deltas, sizes)
@settings(max_examples=50)
def test_monotone_in_risk_kl_and_delta(
    rule: str, r1: float, r2: float, kl1: float, kl2: float, d1: float, d2: float, n: int
) -> None:
    (low, high), (near, far), (sure, unsure) = (
        sorted((r1, r2)),
        sorted((kl1, kl2)),
        sorted((d1, d2)),
    )
    value = number(rule, low, near, n, sure)
    slack = 1 + 1e-12
    assert value <= number(rule, high, near, n, sure) * slack
    if rule != "tolstikhin_seldin":
        assert value <= number(rule, low, far, n, sure) * slack
        assert number(rule, low, near, n, unsure) <= value * slack


@pytest.mark.parametrize("top", [1e-200, 1e-160, 1e100])
def test_the_form_by_variance_scales_with_the_losses(top: float) -> None:
    given = {"n_samples": 100, "delta": 0.05, "kl": 1.0}
    one = float(tolstikhin_seldin(empirical_risk=0.1, variance=0.0, **given))
    scaled = tolstikhin_seldin(empirical_risk=0.1 * top, variance=0.0, loss_max=top, **given)
    assert float(scaled) / top == pytest.approx(one, rel=1e-12)


def test_the_printed_form_by_variance_has_a_step() -> None:
    """Its two forms meet with a step, and its unions grow with delta: it falls where it should not.

    The calculator is the theorem as printed; whoever wants less at a larger delta may take a
    smaller one.
    """
    sure, unsure = (number("tolstikhin_seldin", 0.0, 0.0, 5, delta) for delta in (0.5, 0.875))
    assert unsure > sure


@rules
@given(risks, st.floats(3.0, 1e4), sizes, st.integers(2, 100), deltas)
@settings(max_examples=50)
def test_more_samples_help(
    rule: str, r: float, kl: float, n: int, factor: int, delta: float
) -> None:
    few, many = number(rule, r, kl, n, delta), number(rule, r, kl, n * factor, delta)
    assert many <= few * (1 + 1e-12)


@given(risks, nats, st.integers(1, 10**5), deltas, st.floats(0.01, 1.99))
@settings(max_examples=150)
def test_order_of_the_forms(r: float, kl: float, n: int, delta: float, lam: float) -> None:
    common = {"empirical_risk": r, "kl": kl, "n_samples": n, "delta": delta}
    chain = [
        float(seeger_exact(**common)),
        float(seeger(**common)),
        float(pbb_quad(**common)),
        float(thiemann(lam=lam, **common)),
    ]
    for tighter, looser in pairwise(chain):
        assert tighter <= looser * (1 + 1e-11)
    assert chain[1] <= float(maurer(**common)) * (1 + 1e-11)
    assert float(thiemann_opt(**common)) == pytest.approx(chain[2], rel=1e-11)
    assert r <= chain[0] <= 1.0


@given(risks, nats, st.integers(1, 10**5), deltas)
@settings(max_examples=80)
def test_best_catoni_constant_without_a_union_is_the_inverted_kl(
    r: float, kl: float, n: int, delta: float
) -> None:
    """Optimised over c, Catoni's value is kl^-1(r | (kl + ln(1/delta))/n): why a union is due."""
    budget = (kl - np.log(delta)) / n
    limit = float(kl_inverse_upper(r, budget))
    assume(r > 1e-6 and limit < 1 - 1e-6)
    best = np.log(limit * (1 - r) / (r * (1 - limit)))
    for shift in (0.5, 1.0, 2.0):
        made = catoni(empirical_risk=r, kl=kl, n_samples=n, delta=delta, c=best * shift)
        assert float(made) >= limit * (1 - 1e-9)
        if shift == 1.0:
            assert float(made) == pytest.approx(limit, rel=1e-6)


@rules
@given(risks, st.floats(0, 300), sizes, deltas, st.floats(1e-3, 1e3))
@settings(max_examples=40)
def test_scaling_in_the_largest_loss(
    rule: str, r: float, kl: float, n: int, delta: float, top: float
) -> None:
    scaled = number(rule, min(r * top, top), kl, n, delta, loss_max=top)
    assert scaled == pytest.approx(top * number(rule, r, kl, n, delta), rel=1e-9)


@rules
def test_broadcasting_equals_a_loop(rule: str) -> None:
    r = np.array([[0.05], [0.6]])
    n = np.array([20, 300, 10**4])
    whole = RULES[rule](empirical_risk=r, kl=4.0, n_samples=n, delta=0.05)
    assert whole.value.shape == (2, 3)
    for i, j in every(range(2), range(3)):
        one = number(rule, r[i, 0], 4.0, n[j], 0.05)
        assert whole.value[i, j] == pytest.approx(one, rel=1e-13)
    parts = sum(np.broadcast_to(part, (2, 3)) for part in whole.terms.values())
    np.testing.assert_allclose(parts, whole.value, rtol=1e-12)
    expected = 0.051 if rule == "mc_then_kl" else 0.05
    np.testing.assert_allclose(whole.delta_total, expected)


# The forms with a fixed trade-off or a fixed number of draws keep its price for ever.
@pytest.mark.parametrize(
    "rule", sorted(RULES.keys() - {"catoni", "catoni_grid", "thiemann", "mc_then_kl"})
)
def test_limit_of_many_samples(rule: str) -> None:
    assert number(rule, 0.2, 5.0, 10**13, 0.05) == pytest.approx(0.2, abs=1e-4)


def test_limits_of_the_trade_offs() -> None:
    many = {"empirical_risk": 0.2, "kl": 5.0, "n_samples": 10**13, "delta": 0.05}
    small = float(catoni(c=1e-5, **many))
    assert small == pytest.approx(0.2, abs=1e-4)
    assert float(thiemann(lam=1e-5, **many)) == pytest.approx(0.2, abs=1e-4)
    assert float(catoni(c=1.5, **many)) == pytest.approx(
        (1 - np.exp(-1.5 * 0.2)) / (1 - np.exp(-1.5)), rel=1e-9
    )
    exact = mc_then_kl(
        monte_carlo_risk=0.2, n_draws=10**14, delta_draws=0.01, kl=5, n_samples=900, delta=0.05
    )
    plain = seeger(empirical_risk=0.2, kl=5, n_samples=900, delta=0.05)
    assert float(exact) == pytest.approx(float(plain), abs=1e-6)


def test_catoni_without_posterior_is_chernoff_for_the_zero_risk() -> None:
    """As c grows, 1 - (delta)^(1/n) is reached for an empirical risk of 0."""
    made = catoni(empirical_risk=0.0, kl=0.0, n_samples=40, delta=0.05, c=60.0)
    chernoff = chernoff_kl(empirical_risk=0.0, n_samples=40, delta=0.05)
    assert float(made) == pytest.approx(float(chernoff), rel=1e-12)


def test_grid_pays_its_union_and_takes_the_best() -> None:
    whole = float(catoni_grid(grid=GRID, **CHECK))
    each = [float(catoni(c=c, **(CHECK | {"delta": 0.05 / len(GRID)}))) for c in GRID]
    assert whole == pytest.approx(min(each), rel=1e-13)
    assert whole > min(float(catoni(c=c, **CHECK)) for c in GRID)
    alone = catoni_grid(grid=[1.0], **CHECK)
    assert float(alone) == pytest.approx(float(catoni(c=1.0, **CHECK)), rel=1e-14)
    with pytest.raises(ValueError, match="grid must be a list"):
        catoni_grid(grid=1.0, **CHECK)
    with pytest.raises(ValueError, match="grid must be a list"):
        catoni_grid(grid=[], **CHECK)


def test_two_sided_draws_cost_more() -> None:
    common = {"monte_carlo_risk": 0.015, "n_draws": 1000, "delta_draws": 0.01}
    common |= {"kl": 600, "n_samples": 30000, "delta": 0.01}
    two, one = mc_then_kl(**common), mc_then_kl(two_sided=False, **common)
    assert float(one) < float(two) == pytest.approx(0.0793358277, abs=1e-10)
    assert two.delta_total == pytest.approx(0.02)
    with pytest.raises(ValueError, match=r"delta \+ delta_draws must lie strictly between 0 and 1"):
        mc_then_kl(**(common | {"delta": 0.6, "delta_draws": 0.5}))


def test_small_variance_beats_the_kl_form() -> None:
    """Route R1's regime: many clients, even scores."""
    by_variance = tolstikhin_seldin(
        empirical_risk=0.093, variance=0.073**2, kl=5.0, n_samples=1618, delta=0.05
    )
    by_kl = seeger(empirical_risk=0.093, kl=5.0, n_samples=1618, delta=0.05)
    assert float(by_variance) == pytest.approx(0.120, abs=5e-4)
    assert float(by_kl) == pytest.approx(0.133, abs=5e-4)


def test_variance_of_a_quarter_is_the_most_that_counts() -> None:
    wide = tolstikhin_seldin(
        empirical_risk=0.5, variance=[0.2, 0.25], kl=5.0, n_samples=100, delta=0.05
    )
    assert wide.value[0] == wide.value[1]
