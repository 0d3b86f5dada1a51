"""PeFLL's Theorem 3.1 against its own proof; a statement about gradients, not simulated."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.bounds.training import pefll_31, pefll_31_minT

SETTINGS = settings(max_examples=50, deadline=None, derandomize=True)
SIZE = st.floats(1e-3, 1e3)
REALS = (
    *("initial_gap", "smoothness", "loss_smoothness", "loss_gradient", "generator_gradient"),
    *("loss_noise", "generator_noise", "model_noise", "client_dissimilarity"),
)
CALL = st.fixed_dictionaries(
    {
        **dict.fromkeys(REALS, SIZE),
        **dict.fromkeys(("cohort", "local_steps", "batch_size"), st.integers(1, 200)),
        "n_rounds": st.integers(1, 10**7),
    }
)


def value(call: dict[str, Any], **changed: Any) -> float:
    return float(pefll_31(**call | changed))


@SETTINGS
@given(CALL)
def test_derived_constants_are_those_of_the_stated_learning_rate(call: dict[str, Any]) -> None:
    c, k, t = call["cohort"], call["local_steps"], call["n_rounds"]
    rate = 2 * math.sqrt(c) / (k * math.sqrt(t))
    inner, slope = call["loss_smoothness"] ** 2, call["generator_gradient"] ** 2
    b1, lip = call["loss_gradient"] ** 2, call["smoothness"]
    before_substitution = (
        2 * call["initial_gap"] / (rate * k * t)
        + 56 * inner * b1 * slope * rate**2 * k**2
        + 8 * b1 * call["generator_noise"] ** 2 / call["batch_size"]
        + 14 * inner * slope * call["model_noise"] ** 2 / call["batch_size"]
        + 6 * lip * rate / c * slope * call["loss_noise"] ** 2
        + 4 * lip * rate * k / c * call["client_dissimilarity"] ** 2
    )
    assert value(call) == pytest.approx(before_substitution, rel=1e-12)


@SETTINGS
@given(CALL)
def test_variants(call: dict[str, Any]) -> None:
    printed, appendix = value(call, variant="printed"), value(call, variant="printed_appendix")
    assert printed <= appendix
    assert appendix == value(call, variant="printed_appendix", batch_size=1)
    plain = {"generator_gradient": 1.0}
    assert value(call, **plain, variant="printed") <= value(call, **plain)
    assert value(call, **plain) <= 2 * value(call, **plain, variant="printed")
    quiet = {"generator_noise": 0.0, "model_noise": 0.0}
    assert value(call, **quiet) == value(call, **quiet, batch_size=1)


@SETTINGS
@given(CALL, SIZE)
def test_no_term_but_the_drift_depends_on_the_unit_of_clients_weights(
    call: dict[str, Any], unit: float
) -> None:
    # The drift does: its local steps have the server's learning rate, whatever the unit.
    powers = {"loss_smoothness": -2, "loss_gradient": -1, "loss_noise": -1}
    powers |= {"generator_gradient": 1, "generator_noise": 1, "model_noise": 1}
    other = call | {name: call[name] * unit**power for name, power in powers.items()}
    without = {"loss_smoothness": 0.0}
    assert value(other, **without) == pytest.approx(value(call, **without), rel=1e-9)
    descriptors = {"loss_gradient": 0.0, "loss_noise": 0.0}
    assert value(other, **descriptors) == pytest.approx(value(call, **descriptors), rel=1e-9)


@pytest.mark.parametrize("slope", [0.1, 1.0, 10.0])
def test_noise_gets_to_the_generator_through_its_gradient(slope: float) -> None:
    # One client with loss theta^2/2, theta = slope * eta, noise of +1 or -1 on its gradient, eta
    # from 0 on.  |theta| stays below 1, so that the loss may be linear beyond and b_1 = 1.
    lip = slope**2
    least = float(pefll_31_minT(smoothness=lip, loss_smoothness=1, cohort=1, local_steps=1))
    rounds = math.ceil(least)
    step = 2 / math.sqrt(rounds)
    shrinks = (1 - step * lip) ** 2
    limit = step * slope**2 / (lip * (2 - step * lip))
    # The second moment of eta after t rounds is limit * (1 - shrinks^t), exactly.
    mean_moment = limit * (1 - (1 - shrinks**rounds) / (rounds * (1 - shrinks)))
    squared_gradient = lip**2 * mean_moment
    call: dict[str, Any] = {
        **dict(initial_gap=0, smoothness=lip, loss_smoothness=1, loss_gradient=1),
        **dict(generator_gradient=slope, loss_noise=1, generator_noise=0, model_noise=0),
        **dict(client_dissimilarity=0, cohort=1, local_steps=1, batch_size=1, n_rounds=rounds),
    }
    assert squared_gradient <= value(call)
    for variant in ("printed", "printed_appendix"):
        assert (squared_gradient > value(call, variant=variant)) == (slope == 10)


@pytest.mark.parametrize("server_steps", [1, 50])
def test_the_servers_regulariser_takes_as_many_steps_as_clients_do(server_steps: int) -> None:
    # One client with loss (theta - 1)^2 / 2, theta = eta, server's own part eta^2 / 2, no noise,
    # eta from 0 on, 50 local steps; the published algorithm gives the server's part one.
    k = 50
    rounds = math.ceil(
        float(pefll_31_minT(smoothness=2, loss_smoothness=1, cohort=1, local_steps=k))
    )
    step = 2 / (k * math.sqrt(rounds))
    towards_1 = 1 - (1 - step) ** k
    shrinks = 1 - towards_1 - server_steps * step
    eta = towards_1 / (1 - shrinks) * (1 - shrinks ** np.arange(rounds))
    squared_gradient = float(np.mean((2 * eta - 1) ** 2))
    call: dict[str, Any] = {
        **dict(initial_gap=0.25, smoothness=2, loss_smoothness=1, loss_gradient=1),
        **dict(generator_gradient=1, loss_noise=0, generator_noise=0, model_noise=0),
        **dict(client_dissimilarity=0, cohort=1, local_steps=k, batch_size=1, n_rounds=rounds),
    }
    assert (squared_gradient <= value(call)) == (server_steps == k)


@SETTINGS
@given(CALL, st.sampled_from(REALS))
def test_monotone(call: dict[str, Any], grows: str) -> None:
    assert value(call, **{grows: 2 * call[grows]}) >= value(call)
    assert value(call, n_rounds=2 * call["n_rounds"]) <= value(call)
    assert value(call, batch_size=2 * call["batch_size"]) <= value(call)


@SETTINGS
@given(SIZE, SIZE, st.integers(1, 50), st.integers(1, 200))
def test_smallest_number_of_rounds(lip: float, inner: float, c: int, k: int) -> None:
    least = float(pefll_31_minT(smoothness=lip, loss_smoothness=inner, cohort=c, local_steps=k))

    def steps_are_small(rounds: float) -> bool:
        rate = 2 * math.sqrt(c) / (k * math.sqrt(rounds))
        # The fourth-order drift must vanish in the third-order one, that in the noise term.
        fourth = 56 * lip * rate * k <= 1
        third = 28 * inner**2 * rate * k**2 * c <= lip
        return fourth and third

    assert steps_are_small(least * (1 + 1e-9))
    assert not steps_are_small(least * (1 - 1e-9))


def test_known_number_and_broadcasting() -> None:
    table = pefll_31_minT(
        smoothness=[1.0, 2.0], loss_smoothness=1, cohort=[[5], [10]], local_steps=50
    )
    assert table.shape == (2, 2)
    assert table[0, 0] == 9.8e8
    rounds = np.array([100, 10**6])
    call = dict.fromkeys(REALS, 0.5) | dict(cohort=5, local_steps=50, batch_size=32)
    both = pefll_31(**call, n_rounds=rounds)
    assert both.tolist() == [value(call, n_rounds=100), value(call, n_rounds=10**6)]
