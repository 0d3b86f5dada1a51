"""PeFLL: a hypernetwork makes each client's model from a descriptor of its data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from latecomer.models import generation
from latecomer.models.bound_training import bounded_loss, cohort_strengths
from latecomer.models.hypernetworks import embedding_length, pull_back
from latecomer.models.hyperparameters import choice, count, number
from latecomer.models.local import LocalSGD, clip_by_norm
from latecomer.models.method import Context, Method, Personalization, Predictor, Start, predict_with
from latecomer.models.objectives import ridge_decay
from latecomer.models.optimizers import adamw, adamw_memory
from latecomer.models.posterior import PosteriorNorms, sample
from latecomer.models.schedule import Cohort
from latecomer.models.state import Params, State, detached, leaves, nest, part, row
from latecomer.models.task import Clients, Samples, Task


@dataclass(frozen=True, kw_only=True)
class PeFLL(Method):
    r"""PeFLL (Scott, Zakerinia, Lampert, ICLR 2024), deterministic or with Gaussian posteriors.

    Minimises ``lambda_h |eta_h|^2 + lambda_v |eta_v|^2 + sum_i [L(theta_i; S_i) + lambda_theta
    |theta_i|^2]``, ``theta_i = h(v(S_i; eta_v); eta_h)`` (equation 1), by Algorithm 2: local SGD
    from ``theta_i``, its change pulled back once a round for the whole cohort; the regularisers
    are decoupled weight decays. Serving is one forward pass over the support (Algorithm 1).

    Attributes
    ----------
    server_lr, local_lr, local_momentum, clip_norm : float
        The server's AdamW and the local step; ``clip_norm`` holds for both gradients.
    lambda_h, lambda_v, lambda_theta : float
        Regularisers of hypernetwork, encoder and target weights.
    descriptor_dim : int or None
        Length of a descriptor; None: ``1 + floor(n / 4)`` with n seen clients.
    posterior : str
        ``none``, or ``gaussian``: hyper-posterior N(eta_h, alpha_h I) x N(eta_v, alpha_v I) drawn
        once a round, client posterior N(theta, alpha_theta I) drawn once a client and round.
    alpha_h, alpha_v, alpha_theta : float
        Variances of the posterior; not used without one.
    training_objective : str
        ``pefll``: equation 1. With a posterior also ``bound`` (the right-hand side of Theorem B.1)
        and ``bound_kl`` (the two-step kl form): the loss is bounded and the regularisers'
        strengths are the bound's derivatives, taken anew each round; ``lambda_*`` are not used.
    """

    server_lr: float = number(2e-4, above=0)
    local_lr: float = number(2e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    clip_norm: float = number(50.0, above=0)
    lambda_h: float = number(1e-3, least=0)
    lambda_v: float = number(1e-3, least=0)
    lambda_theta: float = number(2.5e-5, least=0)
    descriptor_dim: int | None = count(None)
    posterior: str = choice("none", "gaussian")
    alpha_h: float = number(1e-4, least=0)
    alpha_v: float = number(1e-4, least=0)
    alpha_theta: float = number(1e-4, least=0)
    training_objective: str = choice("pefll", "bound", "bound_kl")

    name: ClassVar[str] = "pefll"
    paper: ClassVar[str] = "Scott, Zakerinia, Lampert, ICLR 2024"
    personalization: ClassVar[Personalization] = "forward"
    needs_labels: ClassVar[bool] = True
    numbers_version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        variances = (self.alpha_h, self.alpha_v, self.alpha_theta)
        if self.by_bound and (self.posterior == "none" or min(variances) <= 0):
            raise ValueError(
                "training_objective must be pefll without a gaussian posterior of variances above "
                f"0, got training_objective={self.training_objective!r}"
            )

    @property
    def by_bound(self) -> bool:
        """Whether training minimises a bound."""
        return self.training_objective != "pefll"

    @property
    def predictors(self) -> tuple[str, ...]:
        """``gibbs`` draws all weights anew for every client; ``deterministic`` takes the means."""
        return ("deterministic",) if self.posterior == "none" else ("gibbs", "deterministic")

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        decay = 0.0 if self.by_bound else ridge_decay(self.lambda_theta)
        return LocalSGD(self.local_lr, self.local_momentum, decay, self.clip_norm)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw both networks; standardise by the first client's descriptor, once and for all."""
        dim = self.descriptor_dim or embedding_length(len(clients))
        server = generation.initial_table(task, dim, clients, first, generator)
        for section in generation.NETWORKS:
            server |= nest(f"{section}_adamw", adamw_memory(part(server, section)))
        return State(server)

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Make the cohort's weights from a batch each, keeping the graph for the way back."""
        eta = leaves(generation.weights_of(state.server))
        x, y = clients.inputs(cohort.descriptor_rows), clients.labels(cohort.descriptor_rows)
        with torch.enable_grad():
            drawn = self._draw_networks(eta, generator)
            made = generation.generate(task, {**state.server, **drawn}, x, y)
        sent = self._draw_target(detached(made), generator)
        shared: Params = {}
        if self.by_bound:
            variances = (self.alpha_h, self.alpha_v, self.alpha_theta)
            sizes = (len(clients), int(clients.support_sizes.min()))
            tables = (eta, detached(made), sent)
            shared = cohort_strengths(
                self.training_objective, task, tables, (x, y), variances, sizes
            )
        return Start(sent, shared=shared, memory=(eta, made))

    def objective(
        self,
        task: Task,
        params: Params,
        context: Context,
        batches: tuple[Samples, ...],
        step: int,
    ) -> Tensor:
        """Return the loss on the minibatch; the bounded one and its ridge where a bound trains."""
        x, y = batches[0].x, batches[0].labels()
        if not self.by_bound:
            return task.loss(params, x, y)
        ridge = torch.stack([value.square().sum() for value in params.values()]).sum()
        return bounded_loss(task.logits(params, x), y) + context.shared["theta"] * ridge

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Pull the changes back through both networks and take a step of AdamW."""
        eta, made = start.memory
        # A mean of changes is a smaller thing to divide than a mean of the networks' gradients.
        means = {key: change / len(cohort) for key, change in uploads.items()}
        slopes = pull_back(made, means, [*eta.values()])
        against = dict(zip(eta, clip_by_norm(slopes, self.clip_norm), strict=True))
        server = dict(state.server)
        ridges = (self.lambda_h, self.lambda_v)
        if self.by_bound:
            ridges = (start.shared["hyper"].item(), start.shared["encoder"].item())
        for section, strength in zip(generation.NETWORKS, ridges, strict=True):
            weights, memory = adamw(
                part(server, section),
                part(against, section),
                part(server, f"{section}_adamw"),
                lr=self.server_lr,
                weight_decay=ridge_decay(strength),
            )
            server |= nest(section, weights) | nest(f"{section}_adamw", memory)
        return State(server, state.clients)

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Make the client's weights from its whole support; ``gibbs`` draws all of them anew."""
        self.refuse_predictor(predictor)
        if predictor == "deterministic":
            return predict_with(task, generation.generate_one(task, state.server, support))
        drawn = self._draw_networks(generation.weights_of(state.server), generator)
        made = generation.generate_one(task, {**state.server, **drawn}, support)
        return predict_with(task, self._draw_target(made, generator))

    def weights_for(self, task: Task, table: Mapping[str, Tensor], support: Samples) -> Params:
        """Return the target weights made from the whole support, with their graph."""
        return row(generation.generate(task, table, support.x[None], support.labels()[None]), 0)

    def posterior_norms(self, task: Task, state: State, clients: Clients) -> PosteriorNorms:
        """Return the squared norms of the posterior means; ``ValueError`` without a posterior."""
        if self.posterior == "none":
            raise ValueError("posterior must be gaussian to have norms, got posterior='none'")
        eta_h, eta_v, theta = generation.squared_norms(task, state.server, clients)
        variances = (self.alpha_h, self.alpha_v, self.alpha_theta)
        return PosteriorNorms(eta_h, eta_v, np.array(theta, dtype=np.float64), *variances)

    def _draw_networks(self, eta: Params, generator: Generator) -> Params:
        if self.posterior == "none":
            return eta
        hyper = sample(nest("hyper", part(eta, "hyper")), self.alpha_h, generator)
        return hyper | sample(nest("encoder", part(eta, "encoder")), self.alpha_v, generator)

    def _draw_target(self, theta: Params, generator: Generator) -> Params:
        return theta if self.posterior == "none" else sample(theta, self.alpha_theta, generator)
