"""The linear hypernetwork of pFedHN's section 4.1: simulation against closed forms."""

import numpy as np
import pytest

from latecomer.bounds import linear_optimum
from latecomer.errors import InputError
from latecomer.eval.denoising import (
    denoising_findings,
    draw_clients,
    estimated_error,
    fixed_subspace_error,
    train_linear,
)
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.settings import Denoising

VARIANCES = np.array([3.0, 1.0, 0.5])
N, D, M, NOISE = 25, 8, 11, 0.4
RAW = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 10, "classes_per_client": 2, "novel": 2},
    "methods": ["fedavg"],
}
SMALL = {
    **{"clients": 12, "novel": 9, "weights": 6, "samples": 8, "variances": [2.0, 1.0]},
    **{"noise": [0.3, 0.6], "dimensions": [1, 2, 6], "draws": 3, "rounds": 300},
}


def drawn(rng, noise=NOISE, n=N):
    truth = np.zeros((n, D))
    truth[:, : len(VARIANCES)] = rng.standard_normal((n, len(VARIANCES))) * np.sqrt(VARIANCES)
    return draw_clients(rng, truth, n_samples=M, noise=noise)


def test_solutions_minimise_every_clients_loss():
    clients = drawn(np.random.default_rng(0))
    for design, labels, solution in zip(
        clients.designs, clients.labels, clients.solutions, strict=True
    ):
        assert design.T @ design == pytest.approx(np.eye(D), abs=1e-12)
        best = np.linalg.lstsq(design, labels, rcond=None)[0]
        assert solution == pytest.approx(best, abs=1e-12)


def test_a_clients_error_is_its_excess_loss():
    clients = drawn(np.random.default_rng(1))
    models = np.random.default_rng(2).standard_normal((N, D))
    gaps = np.einsum("nmd,nd->nm", clients.designs, models - clients.truth)
    assert clients.error(models) == pytest.approx(np.square(gaps).sum(axis=1).mean())


# Beyond the true models' three dimensions singular values are close, and descent takes long.
@pytest.mark.parametrize(("dimension", "rounds"), [(1, 6000), (3, 6000), (5, 20000)])
def test_gradient_descent_reaches_the_principal_components(dimension, rounds):
    rng = np.random.default_rng(3)
    clients = drawn(rng)
    best = linear_optimum(solutions=clients.solutions, dimension=dimension)
    weights, descriptors = train_linear(clients, dimension, rounds=rounds, rng=rng)
    made = descriptors @ weights.T
    loss = np.square(made - clients.solutions).sum()
    assert loss == pytest.approx(float(best.loss), rel=1e-9)
    assert made == pytest.approx(best.descriptors @ best.weights.T, abs=1e-4)
    # Of the clients' own losses, too, and by no centred components.
    found = np.einsum("nmd,nd->nm", clients.designs, made) - clients.labels
    optimal = np.einsum("nmd,nd->nm", clients.designs, best.descriptors @ best.weights.T)
    assert np.square(found).sum() == pytest.approx(np.square(optimal - clients.labels).sum())


def test_descent_follows_the_gradient_of_the_clients_losses():
    """One round's change is minus the gradient that differences of the losses give."""
    clients = drawn(np.random.default_rng(4))

    def loss(weights, descriptors):
        fitted = np.einsum("nmd,nd->nm", clients.designs, descriptors @ weights.T)
        return np.square(fitted - clients.labels).sum()

    before = train_linear(clients, 2, rounds=0, rng=np.random.default_rng(5))
    after = train_linear(clients, 2, rounds=1, rng=np.random.default_rng(5))
    rates = []
    for which in (0, 1):
        step = after[which] - before[which]
        for place in [(0, 0), (2, 1), (5, 0)]:
            moved = [x.copy() for x in before], [x.copy() for x in before]
            moved[0][which][place] += 1e-5
            moved[1][which][place] -= 1e-5
            slope = (loss(*moved[0]) - loss(*moved[1])) / 2e-5
            rates.append(-step[place] / slope)
    assert rates == pytest.approx([rates[0]] * len(rates), rel=1e-6)
    assert rates[0] > 0


def _mean_is(values, expected):
    """Whether the mean is within four of its standard errors, and these small."""
    values = np.asarray(values)
    error = values.std(ddof=1) / len(values) ** 0.5
    assert error < 0.1 * (abs(expected) + 1)
    return abs(values.mean() - expected) < 4 * error


def test_simulated_errors_are_the_closed_forms_within_their_monte_carlo_error():
    rng = np.random.default_rng(6)
    local, novel, seen = [], {k: [] for k in (1, 3, 6)}, {k: [] for k in (1, 2, 3)}
    own = linear_optimum(solutions=drawn(rng).solutions, dimension=6).weights
    moments = np.diag([*VARIANCES, *[0.0] * (D - len(VARIANCES))])
    for _ in range(600):
        clients = drawn(rng)
        solutions = clients.solutions
        local.append(clients.error(solutions))
        for k, errors in novel.items():
            errors.append(clients.error(solutions @ own[:, :k] @ own[:, :k].T))
        for k, errors in seen.items():
            best = linear_optimum(solutions=solutions, dimension=k)
            error = clients.error(best.descriptors @ best.weights.T)
            errors.append(error - estimated_error(solutions, k, NOISE))
    assert _mean_is(local, NOISE**2 * D)
    for k, errors in novel.items():
        expected = fixed_subspace_error(moments, own[:, :k], NOISE)
        assert _mean_is(errors, expected)
        assert not _mean_is(errors, expected + NOISE**2)
    for errors in seen.values():
        assert _mean_is(errors, 0.0)


def test_estimates_are_exact_where_nothing_is_left_out():
    solutions = drawn(np.random.default_rng(7)).solutions
    assert estimated_error(solutions, D, NOISE) == pytest.approx(NOISE**2 * D)


def test_denoising_helps_most_where_the_truth_ends():
    settings = Denoising(rounds=1, noise=[0.25], draws=4)
    _, artifacts = denoising_findings(settings)
    table = artifacts["linear_denoising"].table
    mean = {
        k: np.mean([r["principal_components"] for r in table if r["dimension"] == k])
        for k in settings.dimensions
    }
    assert min(mean, key=mean.get) == 5
    # As many dimensions as weights: the local solutions themselves.
    assert mean[30] == pytest.approx(np.mean([r["local"] for r in table]))
    assert mean[5] < mean[30] / 3


def config(**changes):
    study = parse_study({**RAW, "denoising": {**SMALL, **changes}})
    return {cell.kind: cell for cell in study.cells("hash")}


def test_the_simulation_is_a_cell_of_its_own():
    plain = {cell.kind: cell.id for cell in parse_study(RAW).cells("hash")}
    asked = config()
    assert {kind: cell.id for kind, cell in asked.items() if kind != "denoising"} == plain
    assert asked["denoising"].label == "denoising"
    assert asked["denoising"].rounds is None
    assert "denoising" not in parse_study(RAW).resolved()
    assert config(draws=4)["denoising"].id != asked["denoising"].id


def test_rows_and_artifact_of_the_simulation():
    outcome = evaluate_cell(config()["denoising"].config)
    table = outcome.artifacts["linear_denoising"].table
    assert len(table) == 2 * 3 * 3
    rows = {(row["group"], row["term"]): row for row in outcome.rows}
    assert {row["metric"] for row in outcome.rows} == {"denoising_error"}
    row = rows["novel", "gradient descent, k=2, noise=0.6"]
    own = [r for r in table if r["noise"] == 0.6 and r["dimension"] == 2]
    assert row["value"] == pytest.approx(np.mean([r["novel_gradient_descent"] for r in own]))
    assert row["lower"] < row["value"] < row["upper"]
    assert row["n_clients"] == 9
    known = rows["novel", "known subspace, k=6, noise=0.3"]["value"]
    assert known == pytest.approx(6 * 0.3**2)
    assert evaluate_cell(config()["denoising"].config) == outcome


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dimensions": [7]}, "dimensions up to 6"),
        ({"samples": 5}, "samples >= weights=6"),
        ({"variances": [1.0] * 7}, "at most weights=6 variances"),
        ({"noise": [0.3, 0.3]}, "must not repeat"),
        ({"noise": [0.0]}, "denoising.noise"),
        ({"drawz": 3}, "draws"),
    ],
)
def test_what_cannot_be_is_refused(changes, said):
    with pytest.raises(InputError, match=said):
        config(**changes)
