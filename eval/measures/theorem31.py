r"""PeFLL's Theorem 3.1 beside a training: its quantities measured, and both of its sides.

The objective is the theorem's: :math:`F(\eta) = \frac1n\sum_i f_i(h(S_i;\eta)) +
\lambda_h|\eta_h|^2 + \lambda_v|\eta_v|^2` with :math:`f_i(\theta) = L(\theta; S_i) +
\lambda_\theta|\theta|^2` over the seen clients, descriptors from their whole support.  F, its
gradient and the clients' spread around it are exact for the state at hand.  The theorem's constants
are suprema over all parameters: what is found at the parameters that a training visits, along few
directions and for few clients, can only be too small.  Nothing here affects the training or draws
from its generators.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from latecomer.bounds import pefll_31, pefll_31_minT
from latecomer.bounds.certificate import Array
from latecomer.models.engine.method import Method
from latecomer.models.engine.schedule import minibatches
from latecomer.models.families.generated_clients import GeneratedClients
from latecomer.models.generators import hypernetworks
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.objectives import pulled_back, ridge_decay, squared_norm
from latecomer.models.task.state import Params, State, add, detached, leaves, subtract
from latecomer.models.task.task import Task

_ITERATIONS = 2  # of the power iterations
_PROBE = 1e-3  # probing distance, relative to the norm of the parameters


def steepest(
    gradient_at: Callable[[Params], Params], point: Mapping[str, Tensor], gradient: Params
) -> float:
    """Return how fast a gradient changes at a point: a lower estimate of its Lipschitz constant.

    Takes differences over a short step, first along the gradient, then along the change found: a
    power iteration for the largest curvature.
    """
    point, direction = detached(point), gradient
    step, largest = _PROBE * norm_of(point), 0.0
    for _ in range(_ITERATIONS):
        length = norm_of(direction)
        if not length > 0 or not step > 0:
            break
        moved = {name: value + direction[name] * (step / length) for name, value in point.items()}
        # Divide the change by the step as it is after rounding.
        direction = subtract(gradient_at(moved), gradient)
        largest = max(largest, norm_of(direction) / norm_of(subtract(moved, point)))
    return largest


def jacobian_norm(
    function: Callable[[Params], Params], point: Mapping[str, Tensor], rng: np.random.Generator
) -> float:
    """Return a lower estimate of the spectral norm of a Jacobian, by power iteration.

    Each value compared is the norm of the transposed Jacobian applied to a unit vector, so that
    none exceeds the spectral norm; differences only choose the next vector, and ``rng`` the first.
    """
    eta = leaves(point)
    with torch.enable_grad():
        made = function(eta)
    made_here = detached(made)
    towards = {
        name: torch.from_numpy(rng.standard_normal(value.shape)).to(value)
        for name, value in made_here.items()
    }
    step, largest = _PROBE * norm_of(point), 0.0
    for turn in range(_ITERATIONS):
        length = norm_of(towards)
        if not length > 0:
            break
        unit = [towards[name] / length for name in made]
        again = turn + 1 < _ITERATIONS
        slopes = pulled_back([*made.values()], unit, [*eta.values()], again=again)
        back = dict(zip(eta, slopes, strict=True))
        norm = norm_of(back)
        largest = max(largest, norm)
        if turn + 1 == _ITERATIONS or not norm > 0:
            break
        moved = add(detached(eta), {name: value * (step / norm) for name, value in back.items()})
        with torch.no_grad():
            towards = subtract(function(moved), made_here)
    return largest


def norm_of(table: Mapping[str, Tensor]) -> float:
    """Return the Euclidean norm of all entries of all tensors."""
    return math.sqrt(float(squared_norm(table)))


PROBED = 10
"""Number of clients at which per-client constants are measured: the first in the split's order."""

_DRAWS = 4  # batches drawn from each such client
_STREAM = 31


@dataclass(frozen=True, eq=False)
class Slope:
    """The objective F and its gradient, in the weights of hypernetwork and encoder, at a state.

    With the root of the mean squared distance between the clients' gradients and their mean, and
    the norm of each client's gradient in its own weights.
    """

    objective: float
    gradient: Params
    dissimilarity: float
    loss_gradients: tuple[float, ...]


def is_about(method: Method) -> TypeGuard[GeneratedClients]:
    """Whether the theorem is about this method: PeFLL without posteriors."""
    return isinstance(method, GeneratedClients) and method.predictors == ("deterministic",)


def converging(
    method: Method, task: Task, clients: Clients, *, batch_size: int, seed: int
) -> Callable[[State, int], Mapping[str, float]] | None:
    """Return :func:`quantities` as a function of state and rounds done; None for other methods."""
    if not is_about(method):
        return None

    def measure(state: State, rounds_done: int) -> Mapping[str, float]:
        return quantities(
            method,
            task,
            state,
            clients,
            batch_size=batch_size,
            seed=seed,
            rounds_done=rounds_done,
        )

    return measure


def slope(method: GeneratedClients, task: Task, state: State, clients: Clients) -> Slope:
    """Differentiate F at a state of the seen clients, with the method's regularisers."""
    eta = leaves(hypernetworks.weights_of(state.server))
    n = len(clients)
    total, spread, norms = 0.0, 0.0, []
    mean = {name: torch.zeros_like(value) for name, value in eta.items()}
    for index in range(n):
        support = clients.support_of(index)
        with torch.enable_grad():
            made = method.weights_for(task, {**state.server, **eta}, support)
        loss, against = _local_slope(method, task, detached(made), support)
        along = [against[name] for name in made]
        own = dict(zip(eta, pulled_back([*made.values()], along, [*eta.values()]), strict=True))
        total += loss / n
        spread += float(squared_norm(own)) / n
        norms.append(norm_of(against))
        mean = {name: value.add_(own[name], alpha=1 / n) for name, value in mean.items()}
    spread = max(spread - float(squared_norm(mean)), 0.0)
    for name, value in eta.items():
        strength = _ridge_of(method, name)
        mean[name] = mean[name] + ridge_decay(strength) * value.detach()
        total += strength * float(squared_norm({name: value}))
    return Slope(total, mean, spread**0.5, tuple(norms))


def quantities(
    method: GeneratedClients,
    task: Task,
    state: State,
    clients: Clients,
    *,
    batch_size: int,
    seed: int,
    rounds_done: int,
) -> dict[str, float]:
    """Return all quantities of ``latecomer.bounds.pefll_31``, at one state.

    ``objective``, ``squared_gradient_norm`` and ``client_dissimilarity`` are exact here.
    ``loss_gradient``: largest over clients at their own weights. ``smoothness`` (of F),
    ``loss_smoothness``, ``generator_gradient``: largest found along a few directions.
    ``loss_noise``, ``generator_noise``, ``model_noise``: from a few batches, the largest over
    clients; the last two multiplied by the root of the batch size, as in the theorem.  ``seed`` and
    ``rounds_done`` are the key of the few draws made here: batches, and directions to start from.
    """
    rng = np.random.Generator(np.random.Philox(key=[seed, _STREAM], counter=[0, 0, 0, rounds_done]))
    here = slope(method, task, state, clients)
    eta = hypernetworks.weights_of(state.server)

    def gradient_at(place: Params) -> Params:
        moved = replace(state, server={**state.server, **place})
        return slope(method, task, moved, clients).gradient

    measured = {
        "objective": here.objective,
        "squared_gradient_norm": float(squared_norm(here.gradient)),
        "client_dissimilarity": here.dissimilarity,
        "loss_gradient": max(here.loss_gradients),
        "smoothness": steepest(gradient_at, eta, here.gradient),
    }
    for index in range(min(PROBED, len(clients))):
        support = clients.support_of(index)
        for name, value in _of_client(method, task, state, support, batch_size, rng).items():
            measured[name] = max(measured.get(name, 0.0), value)
    return measured


def _of_client(
    method: GeneratedClients,
    task: Task,
    state: State,
    support: Samples,
    batch_size: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Return the constants of one client."""
    eta = detached(hypernetworks.weights_of(state.server))
    y = support.labels()

    def generator_of(samples: Samples) -> Callable[[Params], Params]:
        return lambda place: method.weights_for(task, {**state.server, **place}, samples)

    whole = generator_of(support)
    with torch.no_grad():
        theta = whole(eta)
    _, against = _local_slope(method, task, theta, support)
    noises: dict[str, list[float]] = {name: [] for name in ("loss", "generator", "model")}
    for places in minibatches(rng, len(support), _DRAWS, batch_size):
        at = torch.from_numpy(places).to(y.device)
        batch = Samples(support.x[at], y[at])
        _, noisy = _local_slope(method, task, theta, batch)
        noises["loss"].append(float(squared_norm(subtract(noisy, against))))
        of_batch = generator_of(batch)

        def gap(place: Params, of_batch: Callable[[Params], Params] = of_batch) -> Params:
            return subtract(of_batch(place), whole(place))

        with torch.no_grad():
            noises["model"].append(float(squared_norm(gap(eta))))
        noises["generator"].append(jacobian_norm(gap, eta, rng) ** 2)
    mean = {name: float(np.mean(values)) for name, values in noises.items()}
    return {
        "loss_noise": mean["loss"] ** 0.5,
        "generator_noise": (batch_size * mean["generator"]) ** 0.5,
        "model_noise": (batch_size * mean["model"]) ** 0.5,
        "generator_gradient": jacobian_norm(whole, eta, rng),
        "loss_smoothness": steepest(
            lambda place: _local_slope(method, task, place, support)[1], theta, against
        ),
    }


def _local_slope(
    method: GeneratedClients, task: Task, theta: Mapping[str, Tensor], samples: Samples
) -> tuple[float, Params]:
    """Return a client's loss with its ridge at some weights, and the gradient there."""
    point = leaves(theta)
    with torch.enable_grad():
        loss = task.loss(point, samples.x, samples.labels())
        slopes = torch.autograd.grad(loss, [*point.values()])
    decay = ridge_decay(method.lambda_theta)
    against = {
        name: value + decay * point[name].detach()
        for name, value in zip(point, slopes, strict=True)
    }
    return loss.item() + method.lambda_theta * float(squared_norm(theta)), against


def _ridge_of(method: GeneratedClients, name: str) -> float:
    """Return the regulariser of a weight by its full name."""
    return method.lambda_h if name.startswith("hyper.") else method.lambda_v


Row = dict[str, Any]

# Terms of the rate, and the arguments of the calculator that are not set to 0 for each.
RATE_TERMS: Mapping[str, tuple[str, ...]] = {
    "start": ("initial_gap",),
    "local noise": ("smoothness", "generator_gradient", "loss_noise"),
    "dissimilarity": ("smoothness", "client_dissimilarity"),
    "drift": ("loss_smoothness", "loss_gradient", "generator_gradient"),
    "descriptor batches, gradient": ("loss_gradient", "generator_noise"),
    "descriptor batches, weights": ("loss_smoothness", "generator_gradient", "model_noise"),
}
_EXACT = ("objective", "squared_gradient_norm")
_CONSTANTS = (
    *("smoothness", "loss_smoothness", "loss_gradient", "generator_gradient"),
    *("loss_noise", "generator_noise", "model_noise", "client_dissimilarity"),
)
_ON_ALL = ("smoothness", "loss_gradient", "client_dissimilarity")
_HEURISTIC = (
    "no bound: its constants are the largest found along this training, which can only be too "
    "small, and the training is not the theorem's (AdamW at the server, momentum, its own steps)"
)
_NO_BOUND: Row = {"rigorous": False, "message": _HEURISTIC}


def convergence_rows(
    records: Sequence[Mapping[str, Any]],
    method: GeneratedClients,
    *,
    n_clients: int,
    cohort: int,
    local_steps: int,
    batch_size: int,
) -> list[Row]:
    """Return the rows of what was measured along a training, with their ``round``.

    ``records`` are ``Curve.quantities``: what `quantities` found, by ``round``, the first of round
    0; without records there are no rows. The method gives the learning rates. Each quantity has a
    row under its own name. From the first measured round T > 0 on ``mean_squared_gradient_norm``,
    the theorem's left side over the measured rounds up to T, and ``convergence_rate``, its right
    side for trainings of T rounds with the largest constants of the whole training, in total and
    term by term. At the last round ``convergence_rounds`` (the fewest for which the theorem is
    proved with these constants) and ``step_size`` by ``term``: the server's, the clients', the
    theorem's.
    """
    if not records:
        return []
    where: Row = {"group": "seen", "shift": "none", "n_clients": n_clients}
    rows = [
        {**where, "round": record["round"], "metric": name, "value": record[name], **_said(name)}
        for record in records
        for name in (*_EXACT, *_CONSTANTS)
    ]
    constants = {name: max(record[name] for record in records) for name in _CONSTANTS}
    # Cross-entropy and ridges are at least 0, so 0 is a lower bound of the objective.
    inputs = {"initial_gap": float(records[0]["objective"]), **constants}
    rate_of = partial(pefll_31, cohort=cohort, local_steps=local_steps, batch_size=batch_size)
    later = [record for record in records if record["round"] > 0]
    rows += [
        {**where, **row}
        for number in range(1, len(later) + 1)
        for row in _rates(later[:number], inputs, rate_of)
    ]
    last = {**where, "round": records[-1]["round"]}
    if constants["smoothness"] > 0:
        least = pefll_31_minT(
            smoothness=constants["smoothness"],
            loss_smoothness=constants["loss_smoothness"],
            cohort=cohort,
            local_steps=local_steps,
        )
        rows.append({**last, "metric": "convergence_rounds", "value": float(least), **_NO_BOUND})
    steps = {"server": method.server_lr, "clients": method.local_lr}
    if last["round"]:
        steps["theorem"] = 2 * cohort**0.5 / (local_steps * float(last["round"]) ** 0.5)
    named = {**last, "metric": "step_size"}
    return rows + [{**named, "term": term, "value": step} for term, step in steps.items()]


def _rates(
    measured: Sequence[Mapping[str, Any]],
    inputs: Mapping[str, float],
    rate_of: Callable[..., Array],
) -> Iterator[Row]:
    """Yield the theorem's two sides at the last of the rounds measured so far."""
    now = {"round": measured[-1]["round"]}
    norms = [float(one["squared_gradient_norm"]) for one in measured]
    yield {**now, "metric": "mean_squared_gradient_norm", "value": float(np.mean(norms))}
    for term, used in {"": tuple(inputs), **RATE_TERMS}.items():
        kept = {name: value if name in used else 0.0 for name, value in inputs.items()}
        rate = float(rate_of(**kept, n_rounds=int(now["round"])))
        yield {**now, "metric": "convergence_rate", "term": term, "value": rate, **_NO_BOUND}


def _said(name: str) -> Row:
    if name in _EXACT:
        return {}
    among = "all seen clients" if name in _ON_ALL else f"at most {PROBED} seen clients"
    text = f"at this round's parameters, {among}: a lower estimate of the theorem's constant"
    return {"rigorous": False, "message": text}
