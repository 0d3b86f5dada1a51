"""A Gaussian over a trained system's weights, its mean tuned by minimising a bound.

Prior N(centre, alpha D) and posterior N(centre + shift, alpha D) share their covariance: D is
diagonal with one number per tensor, the mean square of the prior's centre in it, so ``alpha`` is a
variance relative to the weights.  The centre and D come from clients that the bound does not use.
Shifts are kept in units of the standard deviation: KL(posterior || prior) = |shift|^2 / 2.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from latecomer.models.posteriors.bound_objectives import (
    expected_error,
    single_level_kl,
    single_level_product,
)
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import Params, State
from latecomer.models.task.task import Task


@runtime_checkable
class Differentiable(Protocol):
    """A method that makes a client's weights by a differentiable function of the server's table."""

    def weights_for(self, task: Task, table: Mapping[str, Tensor], support: Samples) -> Params:
        """Return the target weights made from ``support``, with their graph."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian over some of a server's weights; the others are fixed.

    Attributes
    ----------
    centre : dict of str to Tensor
        The prior's mean of every weight that is random.
    deviation : dict of str to Tensor
        Standard deviation of every tensor's entries, 0-d.
    shift : dict of str to Tensor
        Posterior mean minus prior mean, in standard deviations.
    """

    centre: Params
    deviation: Params
    shift: Params

    @property
    def kl(self) -> float:
        """KL(posterior || prior) in nats, summed in float64."""
        return 0.5 * sum(float(v.double().square().sum()) for v in self.shift.values())

    @property
    def mean(self) -> Params:
        """Mean of the posterior."""
        return {k: v + self.deviation[k] * self.shift[k] for k, v in self.centre.items()}

    def draw(self, generator: Generator) -> Params:
        """Draw all random weights once."""
        noise = _noise(self.centre, generator)
        return {
            k: v + self.deviation[k] * (self.shift[k] + noise[k]) for k, v in self.centre.items()
        }


def prior_around(server: Mapping[str, Tensor], sections: Sequence[str], alpha: float) -> Posterior:
    """Return the prior around a server's weights, as a posterior whose shift is 0.

    Parameters
    ----------
    server : mapping of str to Tensor
        Weights trained without the clients of the bound.
    sections : sequence of str
        Prefixes of the names of the random weights.
    alpha : float
        Variance relative to each tensor's mean square, above 0.

    Raises
    ------
    ValueError
        When a section names no weight, or a random tensor is 0 throughout.
    """
    for section in sections:
        if not any(_within(name, section) for name in server):
            raise ValueError(f"weights must name weights of the server, got {section!r}")
    centre = {
        name: value.detach()
        for name, value in server.items()
        if any(_within(name, section) for section in sections)
    }
    deviation = {name: (alpha * value.square().mean()).sqrt() for name, value in centre.items()}
    for name, value in deviation.items():
        if not float(value) > 0:
            raise ValueError(f"{name} is 0 throughout: a relative variance of it means nothing")
    return Posterior(centre, deviation, {k: torch.zeros_like(v) for k, v in centre.items()})


def _within(name: str, section: str) -> bool:
    rest = name.removeprefix(section)
    # A section's optimizer, section_adamw, is not one of its weights.
    return rest != name and (not rest or rest[0] in ".0123456789")


def _noise(like: Mapping[str, Tensor], generator: Generator) -> Params:
    return {
        k: torch.randn(v.shape, generator=generator, dtype=v.dtype).to(v.device)
        for k, v in like.items()
    }


@dataclass(frozen=True)
class TuneConfig:
    """How a posterior's mean is tuned.

    Attributes
    ----------
    rule : str
        Bound that is minimised: ``product`` or ``kl``.
    steps, clients_per_step : int
        Steps of gradient descent, and clients in each.
    rate : float
        Step size in units of the number of clients: one step of size 1 would minimise the KL term
        alone.
    delta : float
        Failure probability of the clients' event.
    n_priors : int
        Number of variances that are tried.
    gamma : float
        Shrinkage of scores under rule ``product``.
    """

    rule: str
    steps: int
    clients_per_step: int
    rate: float
    delta: float
    n_priors: int
    gamma: float


Loss = Callable[[Params, int, Generator], Tensor]
"""(weights of the server, place of a client, randomness) -> surrogate score in [0, 1], 0-d."""


def tune(
    prior: Posterior, loss: Loss, n_clients: int, config: TuneConfig, generator: Generator
) -> Posterior:
    """Return the posterior whose mean was moved down the gradient of the bound itself.

    Every step draws weights from the current posterior and a few clients, takes the bound with
    these clients' surrogate scores in place of all clients' scores, and steps against its gradient
    with respect to the shift, the KL term included.
    """
    shift = {k: torch.zeros_like(v) for k, v in prior.centre.items()}
    count = min(config.clients_per_step, n_clients)
    for _ in range(config.steps):
        point = {k: v.detach().requires_grad_() for k, v in shift.items()}
        noise = _noise(prior.centre, generator)
        chosen = torch.randperm(n_clients, generator=generator)[:count].tolist()
        with torch.enable_grad():
            weights = {
                k: v + prior.deviation[k] * (point[k] + noise[k]) for k, v in prior.centre.items()
            }
            scores = torch.stack([loss(weights, place, generator) for place in chosen])
            nats = torch.stack([v.square().sum() for v in point.values()]).sum() / 2
            value = _bound(scores, nats, n_clients, config)
            slopes = torch.autograd.grad(value, list(point.values()))
        step = config.rate * n_clients
        shift = {
            k: point[k].detach() - step * slope for k, slope in zip(point, slopes, strict=True)
        }
    return Posterior(prior.centre, prior.deviation, shift)


def _bound(scores: Tensor, nats: Tensor, n_clients: int, config: TuneConfig) -> Tensor:
    shared = {"n_clients": n_clients, "delta": config.delta, "n_priors": config.n_priors}
    if config.rule == "kl":
        return single_level_kl(scores.mean(), nats, **shared)  # type: ignore[arg-type]
    level = -torch.log1p(-(1 - config.gamma) * scores).mean()
    return single_level_product(level, nats, **shared) / (1 - config.gamma)  # type: ignore[arg-type]


def surrogate(
    method: Differentiable,
    task: Task,
    state: State,
    weights: Params,
    parts: tuple[Samples, Samples],
    masked: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Return the expected error, on ``parts[1]``, of the model made from ``parts[0]``; 0-d."""
    support, query = parts
    made = method.weights_for(task, {**state.server, **weights}, support)
    known = torch.zeros(task.n_classes, dtype=torch.bool, device=query.x.device)
    known[support.labels()] = True
    return expected_error(masked(task.logits(made, query.x), known), query.labels())
