"""PeFLL: a hypernetwork makes each client's model from a descriptor of its data."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from latecomer.models import posteriors
from latecomer.models.engine.hyperparameters import choice, number
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Context, Personalization, Start
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.generated_clients import GeneratedClients
from latecomer.models.posteriors import PosteriorNorms, in_ball, sample
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, detached, nest, part
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class PeFLL(GeneratedClients):
    r"""PeFLL (Scott, Zakerinia, Lampert, ICLR 2024), deterministic or with Gaussian posteriors.

    Minimises ``lambda_h |eta_h|^2 + lambda_v |eta_v|^2 + sum_i [L(theta_i; S_i) + lambda_theta
    |theta_i|^2]``, ``theta_i = h(v(S_i; eta_v); eta_h)`` (equation 1), by Algorithm 2: local SGD
    from ``theta_i``, its change pulled back once a round. Serving is Algorithm 1.

    Attributes
    ----------
    server_lr, local_lr, local_momentum, clip_norm, lambda_h, lambda_v, lambda_theta, descriptor_dim
        As for :class:`~latecomer.models.families.generated_clients.GeneratedClients`.
    posterior : str
        ``none``, or ``gaussian``: hyper-posterior N(eta_h, alpha_h I) x N(eta_v, alpha_v I) drawn
        once a round, client posterior N(theta, alpha_theta I) drawn once a client and round.
    alpha_h, alpha_v, alpha_theta : float
        Variances of the posterior; not used without one.
    training_objective : str
        ``pefll``: equation 1. With a posterior also ``bound`` (the right-hand side of Theorem B.1)
        and ``bound_kl`` (the two-step kl form): the loss is bounded and the regularisers'
        strengths are the bound's derivatives at the cohort's risk and norms, each round anew, cut
        at ``STRONGEST`` (1), which small variances reach; ``lambda_*`` are not used. They are part
        of the gradient: if none is cut, minimisers of the bound stay where they are.
    weight_radius : float, optional
        Radius of the ball around 0 that all mean target weights are projected onto (R2).
    """

    posterior: str = choice("none", "gaussian")
    alpha_h: float = number(1e-4, least=0)
    alpha_v: float = number(1e-4, least=0)
    alpha_theta: float = number(1e-4, least=0)
    training_objective: str = choice("pefll", "bound", "bound_kl")
    weight_radius: float | None = number(None, above=0)
    name: ClassVar[str] = "pefll"
    called: ClassVar[str] = "PeFLL"
    paper: ClassVar[str] = "Scott, Zakerinia, Lampert, ICLR 2024"
    cites: ClassVar[tuple[str, ...]] = ("scott2024",)
    look: ClassVar[int | None] = 0
    personalization: ClassVar[Personalization] = "forward"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    numbers_version: ClassVar[int] = 2
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "A descriptor is a mean over samples; the code divides by the number of batches, which "
            "standardising cancels but for a partial batch.",
            "not known",
        ),
        (
            "paper and code",
            "lambda_theta is 2.5e-5 (the text says 0, the code's weight decay amounts to it); "
            "lambda_h = lambda_v = 1e-3 as in the text (the code has none).",
            "not known",
        ),
        (
            "code",
            "Logits of a client's absent classes compete unless evaluation.classes is zero.",
            "yes: {moved pefll-table1-5000-rounds-masked pefll-table1-5000-rounds-pefll}",
        ),
        (
            "paper",
            "In training on a bound strengths of ridges above 1 are cut to 1.",
            "yes, by how much is not known: where variances are small",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_bound and (self.posterior == "none" or min(self.variances) <= 0):
            raise ValueError(
                "training_objective must be pefll without a gaussian posterior of variances above "
                f"0, got training_objective={self.training_objective!r}"
            )
        if self.weight_radius is not None and self.posterior == "none":
            raise ValueError(f"weight_radius needs a gaussian posterior, got {self.weight_radius}")

    @property
    def variances(self) -> tuple[float, float, float]:
        """Variances of hypernetwork, encoder and target weights."""
        return self.alpha_h, self.alpha_v, self.alpha_theta

    @property
    def by_bound(self) -> bool:
        """Whether training minimises a bound."""
        return self.training_objective != "pefll"

    @property
    def minimises_cross_entropy(self) -> bool:
        """Whether local steps minimise that and nothing else."""
        return not self.by_bound and type(self).objective is PeFLL.objective

    @property
    def predictors(self) -> tuple[str, ...]:
        """``gibbs`` draws all weights anew for every client; ``deterministic`` takes the means."""
        return ("deterministic",) if self.posterior == "none" else ("gibbs", "deterministic")

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step; in training on a bound, the ridge is part of the objective."""
        rule = super().local
        return replace(rule, weight_decay=0.0) if self.by_bound else rule

    def coupled_ridges(self, start: Start) -> Params:
        """Return the bound's, in training on one."""
        return start.shared if self.by_bound else {}

    def draw_networks(self, eta: Params, generator: Generator) -> Params:
        """Draw both networks from the hyper-posterior."""
        if self.posterior == "none":
            return eta
        hyper = sample(nest("hyper", part(eta, "hyper")), self.alpha_h, generator)
        return hyper | sample(nest("encoder", part(eta, "encoder")), self.alpha_v, generator)

    def draw_target(self, theta: Params, generator: Generator) -> Params:
        """Draw target weights from a client's posterior."""
        return theta if self.posterior == "none" else sample(theta, self.alpha_theta, generator)

    def confine(self, made: Params) -> Params:
        """Project the weights made for clients onto the ball; leave them as made without one."""
        return made if self.weight_radius is None else in_ball(made, self.weight_radius)

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Make the cohort's weights; in training on a bound, add its regularisers' strengths."""
        begun = super().start(task, state, clients, cohort, generator)
        if not self.by_bound:
            return begun
        x, y = clients.inputs(cohort.descriptor_rows), clients.labels(cohort.descriptor_rows)
        eta, made = begun.memory
        parts = task, (eta, detached(made), begun.params), (x, y), self.variances
        sizes = len(clients), int(clients.support_sizes.min())
        strengths = posteriors.cohort_strengths(self.training_objective, *parts, sizes)
        return replace(begun, shared=strengths)

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        """Return the loss on the minibatch; in training on a bound, bounded and with a ridge."""
        x, y = batches[0].x, batches[0].labels()
        if not self.by_bound:
            return task.loss(params, x, y)
        ridge = torch.stack([value.square().sum() for value in params.values()]).sum()
        return posteriors.bounded_loss(task.logits(params, x), y) + context.shared["theta"] * ridge

    def posterior_norms(self, task: Task, state: State, clients: Clients) -> PosteriorNorms:
        """Return the squared norms of the posterior means; ``ValueError`` without a posterior."""
        if self.posterior == "none":
            raise ValueError("posterior must be gaussian to have norms, got posterior='none'")
        eta_h, eta_v, theta = self.squared_norms(task, state.server, clients)
        return PosteriorNorms(eta_h, eta_v, np.array(theta, dtype=np.float64), *self.variances)
