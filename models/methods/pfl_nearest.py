"""PFL-nearest: pFedHN whose new clients get the seen client's model with the nearest inputs."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import size
from latecomer.models.engine.method import Deterministic, Personalization, Predictor, predict_with
from latecomer.models.engine.newcomers import Messages, NewcomersGet, one_model
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.embedded_clients import EmbeddedClients
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import State
from latecomer.models.task.task import Task


def proxy_a_distance(left: Tensor, right: Tensor, *, ridge: float = 1.0) -> tuple[float, float]:
    r"""Return the proxy A-distance ``2 (1 - 2 err)`` of two sets of inputs, and a tie-breaker.

    ``err`` is the mean of the two sets' leave-one-out error rates under ridge regression on the
    labels -1 and +1, with an intercept and both sets weighted equally; all leave-one-out
    predictions come from one solve, ``y_i - r_i / (1 - H_ii)`` with the hat matrix H and the
    residuals r. At 2 the sets are told apart without a mistake, at 0 half of all samples are
    mistaken. Sets that are alike come below 0, down to -2: a classifier leans away from whatever is
    left out of its fit. Among those the tie-breaker decides, minus the mean squared leave-one-out
    residual: lower is nearer.

    Parameters
    ----------
    left, right : Tensor
        Inputs ``[n, ...]`` and ``[m, ...]``, at least one each, standardised.
    ridge : float
        Penalty, on the scale of inputs divided by the root of their length.

    Examples
    --------
    >>> near, far = torch.tensor([[0.0], [0.1], [0.2]]), torch.tensor([[9.0], [9.1]])
    >>> proxy_a_distance(near, far, ridge=0.1)[0], proxy_a_distance(near, near)[0]
    (2.0, -2.0)
    """
    flat = torch.cat([left.flatten(1), right.flatten(1)]).to(torch.float64)
    n, m = len(left), len(right)
    target = torch.cat([-flat.new_ones(n), flat.new_ones(m)])
    root = torch.cat([flat.new_full((n,), 0.5 / n), flat.new_full((m,), 0.5 / m)])
    root = ((n + m) * root).sqrt()
    with_intercept = torch.cat([flat / flat.shape[1] ** 0.5, flat.new_ones(n + m, 1)], dim=1)
    weighted = root[:, None] * with_intercept
    # In the dual, so that the cost grows with the number of inputs and not with their length.
    kernel = weighted @ weighted.T
    identity = torch.eye(n + m, dtype=kernel.dtype, device=kernel.device)
    hat = torch.linalg.solve(kernel + ridge * identity, kernel)
    residual = root * target - hat @ (root * target)
    residual = residual / (1 - hat.diagonal()) / root
    wrong = (target * (target - residual) <= 0).to(kernel.dtype)
    error = (wrong[:n].mean() + wrong[n:].mean()) / 2
    return float(2 * (1 - 2 * error)), -float(residual.square().mean())


@dataclass(frozen=True, kw_only=True)
class PFLNearest(Deterministic, EmbeddedClients):
    """PFL-nearest, a baseline of OD-PFL (Amosy, Eyal, Chechik, 2021).

    A new client is served the model of the seen client at the smallest proxy A-distance between
    their unlabelled inputs: how well a linear classifier tells them apart, by leave-one-out error
    (among equals, the least separable one wins). For that every seen client keeps some of its
    inputs, without labels, in the state.

    Training is pFedHN's, and a seen client is served the model of its own embedding.

    Attributes
    ----------
    n_inputs : int
        Inputs that a client is compared by, evenly spaced over its support; all if it has fewer.
    server_lr, server_momentum, server_weight_decay, resting_embeddings, local_lr, local_momentum,
    local_weight_decay, clip_norm, embedding_dim, sizes
        See :class:`~latecomer.models.families.embedded_clients.EmbeddedClients`. For the paper's
        ``embedding_dim`` set a quarter of the number of all clients.
    """

    n_inputs: int = size(100)

    name: ClassVar[str] = "pfl_nearest"
    called: ClassVar[str] = "PFL-nearest"
    paper: ClassVar[str] = "Amosy, Eyal, Chechik, 2021, arXiv:2111.05745"
    cites: ClassVar[tuple[str, ...]] = ("amosy2024", "shamsian2021")
    look: ClassVar[int | None] = 9
    personalization: ClassVar[Personalization] = "unlabelled"
    needs_labels: ClassVar[bool] = False
    newcomers_get: ClassVar[NewcomersGet] = "a seen client's model"
    numbers_version: ClassVar[int] = 2
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper",
            "The classifier of the proxy A-distance is a ridge regression on pixels of n_inputs "
            "inputs, judged by leaving one out; the paper does not say how its own is judged.",
            "yes, by how much is not known: {published odpfl-table1-500-rounds}",
        ),
    )

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw what pFedHN draws, and keep some inputs of every client for comparison."""
        task.refuse_tokens(self.name)
        state = super().init(task, clients, first, generator)
        kept = torch.minimum(clients.support_sizes, torch.tensor(self.n_inputs))
        places = [
            self._spaced(int(size), int(kept.max())) for size in clients.support_sizes.tolist()
        ]
        rows = clients.support.gather(1, torch.stack(places).to(clients.device))
        remembered = {"inputs": clients.inputs(rows), "n_inputs": kept}
        return State(state.server, {**state.clients, **remembered})

    def newcomers_model(self, task: Task, state: State, support: Samples) -> Predictor:
        """Return the nearest seen client's model."""
        return predict_with(task, self.own_model(task, state, self.nearest(state, support.x)))

    def nearest(self, state: State, x: Tensor) -> int:
        """Return the number of the seen client whose inputs are the nearest to ``x``."""
        n_own = min(len(x), self.n_inputs)
        newcomer = x[self._spaced(len(x), n_own).to(x.device)]
        inputs, sizes = state.clients["inputs"], state.clients["n_inputs"].tolist()
        distances = [proxy_a_distance(inputs[i, :size], newcomer) for i, size in enumerate(sizes)]
        return min(range(len(distances)), key=distances.__getitem__)

    def _spaced(self, size: int, width: int) -> Tensor:
        """Return ``width`` places below ``size``, the first ``n_inputs`` evenly spaced."""
        n_own = min(size, self.n_inputs)
        return (torch.arange(width).clamp_max(n_own - 1) * size) // n_own

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return the inputs that it is compared by up, the nearest client's model down."""
        told = min(n_support, self.n_inputs) * prod(task.input_shape)
        return one_model(task)._replace(up=told)
