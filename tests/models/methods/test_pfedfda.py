"""pFedFDA: its classifier against densities of scipy, rounds in plain numpy, small clients."""

from typing import Any

import numpy as np
import plain_code
import pytest
import torch
from formula_federation import BATCH, STEPS, a_task, by_formula, federation, next_state
from scipy.special import softmax
from scipy.stats import multivariate_normal

from latecomer.models.families.client_profiles import (
    Gaussians,
    adapted,
    class_shares,
    estimated,
    linear_head,
)
from latecomer.models.methods import make_method
from latecomer.models.task.state import Params, State, nest
from latecomer.models.task.task import make_task

CLIENTS = federation((12, 16, 9))
LR = 0.1


def some_classes(n_classes: int = 4, width: int = 5, seed: int = 0) -> Gaussians:
    draw = torch.Generator().manual_seed(seed)
    mixing = torch.randn(width, width, generator=draw, dtype=torch.float64)
    means = torch.randn(n_classes, width, generator=draw, dtype=torch.float64)
    return Gaussians(means, mixing @ mixing.T + torch.eye(width))


def test_the_head_gives_the_posterior_of_gaussian_classes() -> None:
    classes, shares = some_classes(), torch.tensor([0.1, 0.2, 0.3, 0.4]).double()
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(1)).double()
    weight, bias = linear_head(classes, shares)
    raised = classes.covariance.numpy()
    raised = (1 - 1e-4) * raised + 1e-4 * np.trace(raised) / 5 * np.eye(5)
    density = [multivariate_normal(mean, raised).logpdf(x) for mean in classes.means.numpy()]
    wanted = softmax(np.transpose(density) + shares.log().numpy(), axis=1)
    found = (x @ weight.T + bias).softmax(dim=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_few_samples_leave_everyones_means_and_one_class_each_everything() -> None:
    everyone = some_classes()
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(2)).double()
    y = torch.tensor([0, 0, 0, 1, 1, 3])
    own = estimated(x, y, everyone, ridge=0.5)
    torch.testing.assert_close(own.means[0], x[:3].mean(dim=0))
    assert torch.equal(own.means[1:], everyone.means[1:])
    apart = x - own.means[y]
    torch.testing.assert_close(own.covariance, apart.T @ apart / 5 + 0.5 * torch.eye(5).double())
    assert adapted(x[:3], torch.tensor([0, 1, 2]), everyone, ridge=1.0) is everyone


def test_a_client_unlike_everyone_takes_its_own_estimate_and_one_alike_does_not() -> None:
    everyone, draw = some_classes(), torch.Generator().manual_seed(3)
    y = torch.arange(4).repeat_interleave(50)
    noise = torch.randn(200, 5, generator=draw, dtype=torch.float64)
    like = everyone.means[y] + noise @ torch.linalg.cholesky(everyone.covariance).T
    unlike = like + 4 * everyone.means[(y + 1) % 4]

    def moved(x: Any) -> float:
        return float((adapted(x, y, everyone, ridge=1e-3).means - everyone.means).norm())

    assert moved(unlike) > 5 * moved(like)


def features_in_numpy(w: Any, x: Any) -> Any:
    for layer in ("dense1", "dense2"):
        x = np.maximum(x @ w[f"{layer}.weight"].numpy().T + w[f"{layer}.bias"].numpy(), 0)
    return x


def head_in_numpy(means: Any, covariance: Any, y: Any) -> tuple[Any, Any]:
    width, shares = len(covariance), np.bincount(y, minlength=4) / len(y) + 1e-4
    raised = (1 - 1e-4) * covariance + 1e-4 * np.trace(covariance) / width * np.eye(width)
    coefficients = np.linalg.inv(raised) @ means.T
    return coefficients.T, np.log(shares / shares.sum()) - 0.5 * np.diag(means @ coefficients)


def estimate_in_numpy(x: Any, y: Any, shared: Any) -> tuple[Any, Any]:
    means = shared.copy()
    for label in np.unique(y):
        if (y == label).sum() > 2:
            means[label] = x[y == label].mean(axis=0)
    apart = x - means[y]
    return means, apart.T @ apart / (len(x) - 1) + np.eye(x.shape[1])


def cross_entropy(logits: Any, y: Any) -> float:
    return float(-np.log(softmax(logits, axis=1)[np.arange(len(y)), y]).mean())


def adapted_in_numpy(x: Any, y: Any, means: Any, covariance: Any) -> tuple[Any, Any]:
    """Return the mixed estimate of features whose classes all have two samples or more."""
    turn = np.zeros(len(y), dtype=int)
    for label in np.unique(y):
        turn[y == label] = np.arange((y == label).sum()) % 2
    best = (np.inf, 0.0)
    for share in np.arange(21) / 20:
        total = 0.0
        for half in (0, 1):
            own = estimate_in_numpy(x[turn == half], y[turn == half], means)
            mixed = [share * a + (1 - share) * b for a, b in zip(own, (means, covariance))]  # noqa: B905
            shares = np.bincount(y, minlength=4) / len(y) + 1e-4
            weight, bias = head_in_numpy(*mixed, y)
            assert bias.shape == shares.shape
            total += cross_entropy(x[turn != half] @ weight.T + bias, y[turn != half])
        best = min(best, (total, share))
    own = estimate_in_numpy(x, y, means)
    return tuple(best[1] * a + (1 - best[1]) * b for a, b in zip(own, (means, covariance)))  # noqa: B905


@pytest.mark.parametrize("path", ["serial", "vectorised"])
def test_rounds_are_those_of_plain_code(path: str) -> None:
    task = a_task()
    method: Any = make_method("pfedfda", local_lr=LR, local_momentum=0.0, local_weight_decay=0.0)
    weights, draw = by_formula(task.shapes), np.random.default_rng(0)
    body: Params = {name: value for name, value in weights.items() if "head" not in name}
    means, covariance = draw.random((4, 64)), np.eye(64)
    sent = {"means": torch.from_numpy(means), "covariance": torch.from_numpy(covariance)}
    state = State(nest("body", body) | nest("classes", sent))
    for number, members in enumerate([(0, 2), (1, 2)]):
        reached, estimates, sizes = [], [], []
        for client in members:
            support = CLIENTS.support_of(client)
            x, y = support.x, support.labels()
            head = dict(zip(("head.weight", "head.bias"), head_in_numpy(means, covariance, y)))  # noqa: B905
            start = body | {name: torch.from_numpy(value) for name, value in head.items()}
            places = torch.arange(STEPS * BATCH).view(STEPS, BATCH) % len(y)
            losses = [plain_code.loss_on(x[now], y[now]) for now in places]
            final = plain_code.descended(start, losses, lr=LR, moving=list(body))
            reached.append({name: final[name] for name in body})
            phi = features_in_numpy(final, x.numpy())
            estimates.append(adapted_in_numpy(phi, y.numpy(), means, covariance))
            sizes.append(len(y))
        body = plain_code.mean(reached, sizes)
        share = np.array(sizes) / sum(sizes)
        means, covariance = (
            sum(part * own[k] for part, own in zip(share, estimates, strict=True)) for k in (0, 1)
        )
        state = next_state(method, state, CLIENTS, members, path, number=number)
        for name, value in body.items():
            torch.testing.assert_close(state.server[f"body.{name}"], value, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state.server["classes.means"], means, rtol=1e-8)
        np.testing.assert_allclose(state.server["classes.covariance"], covariance, rtol=1e-8)


def test_shares_of_no_labels_are_equal() -> None:
    none = torch.zeros(0, dtype=torch.int64)
    assert class_shares(none, 4, torch.float64).tolist() == [0.25] * 4


def test_a_head_without_bias_is_refused() -> None:
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 4, bias=False)
    )
    task = make_task(input_shape=(6,), n_classes=4, target=net, dtype=torch.float64)
    clients = federation((4, 4, 4))
    method = make_method("pfedfda")
    state = method.init(task, clients, None, torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a linear layer with a bias for pfedfda"):
        method.personalize(task, state, clients.support_of(0), generator=torch.Generator())
