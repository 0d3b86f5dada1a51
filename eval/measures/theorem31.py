r"""The quantities of PeFLL's Theorem 3.1, measured at one state of a training.

The objective is the theorem's: :math:`F(\eta) = \frac1n\sum_i f_i(h(S_i;\eta)) +
\lambda_h|\eta_h|^2 + \lambda_v|\eta_v|^2` with :math:`f_i(\theta) = L(\theta; S_i) +
\lambda_\theta|\theta|^2` over the seen clients, descriptors from their whole support.  F, its
gradient and the clients' spread around it are exact for the state at hand.  The theorem's constants
are suprema over all parameters: what is found at the parameters that a training visits, along few
directions and for few clients, can only be too small.  Nothing here affects the training or draws
from its generators.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor

from latecomer.eval.measures.lipschitz import jacobian_norm, norm_of, steepest
from latecomer.models.engine.method import Method
from latecomer.models.engine.schedule import minibatches
from latecomer.models.families.generated_clients import GeneratedClients
from latecomer.models.generators import generation
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.objectives import pulled_back, ridge_decay, squared_norm
from latecomer.models.task.state import Params, State, detached, leaves, subtract
from latecomer.models.task.task import Task

PROBED = 10
"""Number of clients at which per-client constants are measured: the first in the split's order."""

_DRAWS = 4  # batches drawn from each such client
_STREAM = 31


@dataclass(frozen=True, eq=False)
class Slope:
    """The objective and its gradient at a state.

    Attributes
    ----------
    objective : float
        F.
    gradient : dict of str to Tensor
        Gradient of F in the weights of hypernetwork and encoder.
    dissimilarity : float
        Root of the mean squared distance between the clients' gradients and their mean.
    loss_gradients : tuple of float
        Norm of each client's gradient in its own weights.
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
        drawn = {"batch_size": batch_size, "seed": seed, "rounds_done": rounds_done}
        return quantities(method, task, state, clients, **drawn)

    return measure


def slope(method: GeneratedClients, task: Task, state: State, clients: Clients) -> Slope:
    """Return the objective over all seen clients and its gradient, one client after another.

    Parameters
    ----------
    method : GeneratedClients
        Gives the regularisers.
    task : Task
    state : State
        Where F is differentiated.
    clients : Clients
        The seen clients, labelled.

    Returns
    -------
    Slope
    """
    eta = leaves(generation.weights_of(state.server))
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

    Parameters
    ----------
    method, task, state, clients
        As for :func:`slope`.
    batch_size : int
        Batch size of local steps and of descriptors.
    seed, rounds_done : int
        Key of the few draws made here: batches, and directions to start from.

    Returns
    -------
    dict of str to float
        ``objective``, ``squared_gradient_norm`` and ``client_dissimilarity``: exact here.
        ``loss_gradient``: largest over clients at their own weights. ``smoothness`` (of F),
        ``loss_smoothness``, ``generator_gradient``: largest found along a few directions.
        ``loss_noise``, ``generator_noise``, ``model_noise``: from a few batches, the largest over
        clients; the last two multiplied by the root of the batch size, as in the theorem.
    """
    rng = np.random.Generator(np.random.Philox(key=[seed, _STREAM], counter=[0, 0, 0, rounds_done]))
    here = slope(method, task, state, clients)
    eta = generation.weights_of(state.server)

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
    eta = detached(generation.weights_of(state.server))
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
