"""Properties that every meta-learning calculator must have, and the relations between them."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.bounds.certificate import CATALOGUE, Certificate
from latecomer.bounds.held_out.losses import chernoff_kl
from latecomer.bounds.meta_learning import kl_inverted, pefll, unequal_sizes
from latecomer.bounds.one_data_set import catoni
from latecomer.bounds.unit_scale import harmonic_total
from latecomer.bounds.unseen_clients import description_length, personal_priors, single_level

MODULES = (pefll, kl_inverted, unequal_sizes, single_level, description_length, personal_priors)
CALCULATORS: dict[str, Callable[..., Certificate]] = {
    name: getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if name in CATALOGUE
}

RISK = st.floats(0.0, 1.0)
NATS = st.floats(0.0, 1e4)
POSITIVE = st.floats(1e-3, 1e3)
DELTA = st.floats(1e-9, 0.999)
COUNT = st.integers(2, 5000)
N_LISTED = 4
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "empirical_risk": RISK,
    "monte_carlo_risk": RISK,
    "mean_neg_log1m": st.floats(0.0, 20.0),
    **dict.fromkeys(("kl_hyper", "kl_prior_hyper", "sum_kl", "mean_kl", "squared_distance"), NATS),
    **dict.fromkeys(("eta_h_squared", "eta_v_squared", "bits", "bits_shared"), NATS),
    **dict.fromkeys(("alpha", "alpha_h", "alpha_v", "alpha_theta", "rate"), POSITIVE),
    **dict.fromkeys(("client_rate", "sample_rate"), POSITIVE),
    **dict.fromkeys(("client_temperature", "sample_temperature"), st.floats(0.05, 20.0)),
    **dict.fromkeys(("n_clients", "n_samples", "n_steps", "n_draws"), COUNT),
    **dict.fromkeys(("n_priors", "n_simultaneous"), st.integers(1, 50)),
    "harmonic_size": st.floats(1.0, 5000.0),
    "monte_carlo_neg_log1m": st.floats(0.0, 2.9),
    "gamma": st.floats(1e-6, 0.05),
    "delta": DELTA,
    "delta_draws": st.floats(1e-9, 9e-4),  # with delta at most .999
    "client_share": st.floats(0.05, 0.95),
}
LISTS: dict[str, st.SearchStrategy[Any]] = {
    "sizes": COUNT,
    **dict.fromkeys(("empirical_risks", "losses"), RISK),
    **dict.fromkeys(("kls", "theta_squared", "bits_clients", "squared_distances"), NATS),
}
FIXED: dict[str, Any] = {"grid": [0.1, 0.5, 1.0, 2.0, 8.0]}
SHARED = {"grid", "loss_max", "variant"}

GROWING = {
    *("empirical_risk", "monte_carlo_risk", "empirical_risks", "losses", "mean_neg_log1m"),
    *("monte_carlo_neg_log1m", "kl_hyper", "kl_prior_hyper", "sum_kl", "mean_kl", "kls"),
    *("theta_squared", "squared_distance", "squared_distances", "eta_h_squared", "eta_v_squared"),
    *("bits", "bits_shared", "bits_clients", "n_priors", "n_simultaneous"),
}
SHRINKING = {
    *("delta", "delta_draws", "alpha", "alpha_h", "alpha_v", "alpha_theta", "harmonic_size"),
    *("n_clients", "n_samples", "n_steps", "n_draws", "sizes"),
}


@st.composite
def inputs(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """Draw one scalar call of a calculator, every optional argument but the alternatives given."""
    chosen: dict[str, Any] = {}
    for argument in inspect.signature(CALCULATORS[name]).parameters:
        if argument in FIXED:
            chosen[argument] = FIXED[argument]
        elif argument in LISTS and (name, argument) != ("pefll_32", "sizes"):
            chosen[argument] = draw(st.lists(LISTS[argument], min_size=N_LISTED, max_size=N_LISTED))
        elif argument in SCALARS:
            chosen[argument] = draw(SCALARS[argument])
    return chosen


def value(name: str, call: dict[str, Any]) -> float:
    return float(CALCULATORS[name](**call))


every_calculator = pytest.mark.parametrize("name", sorted(CALCULATORS))
SETTINGS = settings(max_examples=25, deadline=None, derandomize=True)


def test_every_argument_is_covered_by_the_strategies() -> None:
    known = {*SCALARS, *LISTS, *FIXED, "loss_max", "variant"}
    for name, function in CALCULATORS.items():
        assert set(inspect.signature(function).parameters) <= known, name
    assert len(CALCULATORS) == 26


@every_calculator
def test_terms_add_up_and_the_ledger_is_delta(name: str) -> None:
    @SETTINGS
    @given(inputs(name))
    def check(call: dict[str, Any]) -> None:
        bound = CALCULATORS[name](**call)
        total = sum(float(term) for term in bound.terms.values())
        assert math.isclose(total, float(bound), rel_tol=1e-12, abs_tol=1e-15)
        spent = call["delta"] + call.get("delta_draws", 0.0)
        assert math.isclose(float(bound.delta_total), spent, rel_tol=1e-12)
        assert all(float(term) >= 0.0 or key == "clients" for key, term in bound.terms.items())
        assert bound.value.shape == ()
        assert bound.name == name

    check()


@every_calculator
def test_monotone_in_every_argument(name: str) -> None:
    @SETTINGS
    @given(inputs(name), st.data())
    def check(call: dict[str, Any], data: st.DataObject) -> None:
        # The joint root multiplies clients and samples: it may grow with either number alone.
        still = {"n_clients", "n_samples"} if name == "rezazadeh_code" else set()
        movable = sorted(((GROWING | SHRINKING) & set(call)) - still)
        moved = data.draw(st.sampled_from(movable))
        first = call[moved]
        if moved in LISTS:
            position = data.draw(st.integers(0, N_LISTED - 1))
            second = [*first]
            second[position] = data.draw(LISTS[moved])
            upward = second[position] >= first[position]
        else:
            second = data.draw(SCALARS[moved])
            upward = second >= first
        low, high = (first, second) if upward else (second, first)
        at_low, at_high = value(name, call | {moved: low}), value(name, call | {moved: high})
        slack = 1e-12 * (1.0 + abs(at_low))
        if moved in GROWING:
            assert at_low <= at_high + slack
        else:
            assert at_low >= at_high - slack

    check()


@every_calculator
def test_broadcasting_equals_a_loop(name: str) -> None:
    @settings(max_examples=8, deadline=None, derandomize=True)
    @given(st.lists(inputs(name), min_size=3, max_size=3))
    def check(calls: list[dict[str, Any]]) -> None:
        fixed = {key: part for key, part in calls[0].items() if key in SHARED}
        rows = {
            key: np.asarray([call[key] for call in calls]) for key in calls[0] if key not in SHARED
        }
        together = CALCULATORS[name](**rows, **fixed)
        alone = [value(name, call) for call in calls]
        assert together.value.shape == (3,)
        np.testing.assert_allclose(together.value, alone, rtol=1e-12)

        crossed = {
            key: part[:, np.newaxis] if key == "delta" else part for key, part in rows.items()
        }
        table = CALCULATORS[name](**crossed, **fixed).value
        assert table.shape == (3, 3)
        np.testing.assert_allclose(np.diag(table), alone, rtol=1e-12)

    check()


@every_calculator
def test_scaling_the_loss_scales_the_bound(name: str) -> None:
    @SETTINGS
    @given(inputs(name), st.floats(0.1, 20.0))
    def check(call: dict[str, Any], top: float) -> None:
        if "losses" in call:  # so close to 1, what is left of 1 is lost in the product with top
            call = {**call, "losses": np.round(np.asarray(call["losses"]) * 2**20) / 2**20}
        scaled = dict(call)
        for risk in {"empirical_risk", "monte_carlo_risk", "empirical_risks", "losses"} & set(call):
            scaled[risk] = np.minimum(np.asarray(call[risk]) * top, top)
        for rate in {"client_rate", "sample_rate"} & set(call):
            scaled[rate] = call[rate] / top
        assert math.isclose(
            value(name, scaled | {"loss_max": top}), top * value(name, call), rel_tol=1e-9
        )

    check()


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="kls has 2, sizes has 3"):
        pefll.amit_meir(empirical_risk=0.1, kl_hyper=0, kls=[0, 0], sizes=[5, 5, 5], delta=0.1)
    with pytest.raises(ValueError, match="empirical_risks has 1, sizes has 2"):
        unequal_sizes.catoni_unequal(
            empirical_risks=[0.1], sum_kl=0, sizes=[5, 5], delta=0.1, rate=1.0
        )
    gaussian = {
        **dict(empirical_risk=0.1, eta_h_squared=1, alpha_h=1, eta_v_squared=1, alpha_v=1),
        **dict(theta_squared=[1, 1], alpha_theta=1, delta=0.1),
    }
    with pytest.raises(ValueError, match="theta_squared has 2, sizes has 3"):
        pefll.pefll_32(**gaussian, sizes=[5, 5, 5])
    for both in ({}, {"sizes": [5, 5], "n_samples": 5}):
        with pytest.raises(ValueError, match="n_samples or sizes"):
            pefll.pefll_32(**gaussian, **both)
    with pytest.raises(ValueError, match="sizes must list at least 2 clients"):
        pefll.amit_meir(empirical_risk=0.1, kl_hyper=0, kls=[0], sizes=[5], delta=0.1)


@SETTINGS
@given(RISK, NATS, NATS, st.integers(1, 500), st.integers(1, 500), DELTA)
def test_unequal_forms_reduce_to_equal_ones(
    risk: float, kl_hyper: float, sum_kl: float, n: int, m: int, delta: float
) -> None:
    common = dict(empirical_risk=risk, kl_hyper=kl_hyper, sum_kl=sum_kl, delta=delta)
    equal, sizes = dict(n_clients=n, n_samples=m), dict(sizes=[m] * n)
    assert float(pefll.pefll_b1(**common, **equal)) == float(
        unequal_sizes.pefll_b1_unequal(**common, **sizes)
    )
    assert float(kl_inverted.two_step_kl(**common, **equal)) == float(
        unequal_sizes.two_step_kl_unequal(**common, **sizes)
    )


def test_pefll_32_is_b1_with_gaussian_terms() -> None:
    gaussian = dict(eta_h_squared=30.0, alpha_h=1.0, eta_v_squared=4.0, alpha_v=0.5)
    client = dict(theta_squared=[1.0, 2.5, 0.0], alpha_theta=0.25)
    general = unequal_sizes.pefll_b1_unequal(
        empirical_risk=0.1, kl_hyper=15.0 + 4.0, sum_kl=7.0, sizes=[7, 50, 50], delta=0.1
    )
    special = pefll.pefll_32(empirical_risk=0.1, **gaussian, **client, sizes=[7, 50, 50], delta=0.1)
    assert float(general) == pytest.approx(float(special), rel=1e-13)


@pytest.mark.parametrize(
    ("sizes", "grid"), [([10, 20, 400], 237), ([3, 6], 32), ([7] * 49, 1372), ([1, 10**9], 16)]
)
def test_the_ceiling_is_that_of_the_exact_rational(sizes: list[int], grid: int) -> None:
    total, found = harmonic_total(sizes)
    assert int(found) == grid
    assert float(total) <= grid / 4.0


@SETTINGS
@given(RISK, NATS, NATS, COUNT, COUNT, DELTA)
def test_orderings(
    risk: float, kl_hyper: float, sum_kl: float, n: int, m: int, delta: float
) -> None:
    call = dict(
        empirical_risk=risk, kl_hyper=kl_hyper, sum_kl=sum_kl, n_clients=n, n_samples=m, delta=delta
    )
    b1 = {variant: float(pefll.pefll_b1(**call, variant=variant)) for variant in pefll.VARIANTS}
    assert b1["printed"] <= min(b1["maurer"], b1["subgauss"])
    two_step = float(kl_inverted.two_step_kl(**call))
    assert two_step <= b1["maurer"] * (1 + 1e-12)
    assert two_step <= float(kl_inverted.guan_lu_kl(**call)) * (1 + 1e-12)
    assert float(kl_inverted.guan_lu_kl(**call | {"kl_hyper": 0.0})) == pytest.approx(
        float(kl_inverted.two_step_kl(**call | {"kl_hyper": 0.0})), rel=1e-12
    )
    zakerinia = kl_inverted.zakerinia24(**call | {"sum_kl": 0.0}, kl_prior_hyper=sum_kl)
    assert float(zakerinia) == b1["maurer"]

    equal = dict(empirical_risk=risk, kl_hyper=kl_hyper, delta=delta)
    kls = [sum_kl, 0.0, 1.0, 2.0]
    separate = pefll.amit_meir(**equal, kls=kls, sizes=[m] * 4)
    joint = pefll.rezazadeh_code(**equal, mean_kl=np.mean(kls), n_clients=4, n_samples=m)
    assert float(separate) <= float(joint) * (1 + 1e-12)

    code = dict(empirical_risk=risk, bits_shared=sum_kl, bits_clients=[kl_hyper] * 3, delta=delta)
    fast = float(description_length.aid_fast(**code, n_samples=m))
    assert float(description_length.aid_occam(**code, n_samples=m)) <= fast


def test_printed_variant_is_unproved_for_fewer_than_three_clients() -> None:
    call = dict(empirical_risk=0.1, kl_hyper=1, sum_kl=1, n_samples=50, delta=0.05)
    few = pefll.pefll_b1(**call, n_clients=2, variant="printed")
    assert not few.rigorous
    assert "3 clients" in few.reason
    assert pefll.pefll_b1(**call, n_clients=3, variant="printed").rigorous
    assert pefll.pefll_b1(**call, n_clients=2).rigorous


def test_limits() -> None:
    many = dict(n_clients=10**12, delta=0.05)
    assert float(single_level.single_level_kl(empirical_risk=0.2, kl_hyper=3, **many)) < 0.2001
    shrunk = pefll.pefll_b1(empirical_risk=0.2, kl_hyper=3, sum_kl=3, n_samples=10**5, **many)
    assert float(shrunk) < 0.2001
    exact = single_level.single_level_kl(empirical_risk=0.1, kl_hyper=2, n_clients=90, delta=0.05)
    drawn = single_level.single_level_kl_mc(
        monte_carlo_risk=0.1, n_draws=10**15, delta_draws=1e-3, kl_hyper=2, n_clients=90, delta=0.05
    )
    assert 0.0 <= float(drawn) - float(exact) < 1e-6
    # Equal scores and no KL: the product over clients of (1 - s), as without a posterior.
    product = single_level.single_level_product(
        mean_neg_log1m=-math.log1p(-0.1), kl_hyper=0, n_clients=30, delta=0.05
    )
    assert float(product) == pytest.approx(1 - 0.9 * 0.05 ** (1 / 30), rel=1e-12)
    assert float(product) == pytest.approx(0.1855304675, rel=1e-9)


@SETTINGS
@given(RISK, COUNT, DELTA)
def test_no_code_is_chernoff(risk: float, n: int, delta: float) -> None:
    occam = description_length.occam_client(empirical_risk=risk, bits=0, n_clients=n, delta=delta)
    plain = chernoff_kl(empirical_risk=risk, n_samples=n, delta=delta)
    assert float(occam) == pytest.approx(float(plain), rel=1e-10)


@SETTINGS
@given(st.floats(0.0, 0.4), st.integers(1, 20), st.integers(1, 200), st.floats(0.2, 3.0))
def test_catoni_unequal_is_catoni_for_equal_clients(risk: float, n: int, m: int, c: float) -> None:
    unequal = unequal_sizes.catoni_unequal(
        empirical_risks=[risk] * n, sum_kl=0.5, sizes=[m] * n, delta=0.05, rate=c * n * m
    )
    equal = catoni(empirical_risk=risk, kl=0.5, n_samples=n * m, delta=0.05, c=c)
    assert float(unequal) == pytest.approx(min(float(equal), 1.0), rel=1e-10)


@SETTINGS
@given(
    st.lists(st.tuples(RISK, st.integers(1, 300)), min_size=2, max_size=6),
    st.floats(0.0, 5.0),
    st.floats(1.0, 300.0),
    st.integers(0, 2**32 - 1),
)
def test_no_feasible_point_exceeds_catoni_unequal(
    clients: list[tuple[float, int]], sum_kl: float, rate: float, seed: int
) -> None:
    risks, sizes = (np.asarray(part, dtype=float) for part in zip(*clients, strict=True))
    bound = unequal_sizes.catoni_unequal(
        empirical_risks=risks, sum_kl=sum_kl, sizes=sizes, delta=0.05, rate=rate
    )
    n = len(clients)
    gain = -np.expm1(-rate / (n * sizes))
    budget = rate * risks.mean() + sum_kl + math.log(1 / 0.05)

    def spent(p: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return (-sizes * np.log1p(-p * gain)).sum(axis=-1)

    # Random rays from the origin, cut where the convex constraint is met.
    rays = np.random.default_rng(seed).dirichlet(np.full(n, 0.5), size=200) * n
    low, high = np.zeros(200), 1.0 / rays.max(axis=1)
    for _ in range(60):
        middle = 0.5 * (low + high)
        inside = spent(middle[:, np.newaxis] * rays) <= budget
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    feasible = (low[:, np.newaxis] * rays).mean(axis=1)
    assert feasible.max() <= float(bound)
    assert float(bound) <= 1.0


def test_catoni_unequal_against_a_general_solver() -> None:
    from scipy.optimize import minimize

    risks, sizes, rate = np.array([0.05, 0.1, 0.3]), np.array([15.0, 60.0, 300.0]), 120.0
    gain = -np.expm1(-rate / (3 * sizes))
    budget = rate * risks.mean() + 1.0 + math.log(1 / 0.05)
    solved = minimize(
        lambda p: -p.mean(),
        risks,
        bounds=[(0, 1)] * 3,
        constraints={
            "type": "ineq",
            "fun": lambda p: budget - (-sizes * np.log1p(-p * gain)).sum(),
        },
        options={"ftol": 1e-14, "maxiter": 500},
    )
    bound = unequal_sizes.catoni_unequal(
        empirical_risks=risks, sum_kl=1.0, sizes=sizes, delta=0.05, rate=rate
    )
    assert float(bound) == pytest.approx(-solved.fun, rel=1e-8)
    assert float(bound) > risks.mean()


@pytest.mark.parametrize(("n", "nats", "rate"), [(1, 30.0, 1e7), (50, 300.0, 1e6)])
def test_catoni_unequal_is_1_where_no_smaller_value_is_proved(
    n: int, nats: float, rate: float
) -> None:
    bound = unequal_sizes.catoni_unequal(
        empirical_risks=[0.02] * n, sizes=[1] * n, sum_kl=nats, rate=rate, delta=0.05
    )
    assert float(bound) == 1.0


def test_the_mean_size_of_unequal_clients_proves_nothing() -> None:
    # Half of the clients hold one sample, whose label is a fair coin, and repeat it: no error seen,
    # ln 2 nats against a uniform prior, risk 1/2.  The others hold 999 samples and never err.
    n, risk = 10_000, 0.25
    nats = n / 2 * math.log(2)
    common: dict[str, Any] = dict(empirical_risk=0, kl_hyper=0, n_clients=n, delta=0.05)
    heats = {"client_temperature": 1, "sample_temperature": 1}
    bounds: tuple[Callable[[int], Certificate], ...] = (
        lambda m: kl_inverted.guan_lu_catoni(**common, **heats, sum_kl=nats, n_samples=m),
        lambda m: kl_inverted.zakerinia24(**common, kl_prior_hyper=0, sum_kl=nats, n_samples=m),
        lambda m: pefll.pefll_b1(**common, sum_kl=nats, n_samples=m),
        lambda m: pefll.rezazadeh_code(**common, mean_kl=nats / n, n_samples=m),
    )
    for bound in bounds:
        assert float(bound(500)) < risk <= float(bound(2))
    by_size = unequal_sizes.pefll_b1_unequal(
        empirical_risk=0, kl_hyper=0, sum_kl=nats, sizes=[1, 999] * (n // 2), delta=0.05
    )
    assert float(by_size) > risk


def test_unequal_clients_pay_less_by_catoni_than_through_the_smallest() -> None:
    sizes = [10] + [400] * 29
    inner = unequal_sizes.two_step_kl_unequal(
        empirical_risk=0.1, kl_hyper=0, sum_kl=0, sizes=sizes, delta=0.05
    )
    smallest = float(inner.terms["empirical_risk"] + inner.terms["samples"])
    rate = 1000.0
    direct = unequal_sizes.catoni_unequal(
        empirical_risks=[0.1] * 30, sum_kl=0, sizes=sizes, delta=0.025, rate=rate
    )
    assert float(direct) < smallest


def test_personal_priors() -> None:
    call = dict(empirical_risk=0.1, alpha=1e-3, n_samples=100, delta=0.05)
    one = personal_priors.personal_prior_kl(**call, squared_distance=0.01)
    ten = personal_priors.personal_prior_kl(**call, squared_distance=0.01, n_simultaneous=10)
    union = personal_priors.personal_prior_kl(**call | {"delta": 0.005}, squared_distance=0.01)
    assert float(one) < float(ten) == pytest.approx(float(union), rel=1e-12)
    pooled = personal_priors.personal_prior_pooled(**call, squared_distances=[0.01] * 30)
    assert float(pooled.terms["samples"]) < float(one) - 0.1 < float(pooled)
    assert set(pooled.delta) == {"clients", "samples"}
    # The distance over alpha is beyond all numbers.
    with np.errstate(over="ignore"):
        assert float(personal_priors.personal_prior_kl(**call, squared_distance=1.7e308)) == 1.0
