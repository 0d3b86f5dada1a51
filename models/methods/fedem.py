"""FedEM: several global models, mixed for every client with weights of its own."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import count
from latecomer.models.engine.method import Context, Finish, Personalization, Predictor, Start
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.global_weights import SeveralModels, losses_of
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, add, nest, part, repeat, weighted_mean
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class FedEM(SeveralModels):
    r"""FedEM (Marfoq et al., 2021): expectation and maximisation, with clients' own mixtures.

    A client's labels are taken to come from one of ``n_models`` models, model ``m`` with
    probability ``pi_m``, the client's own. In a round it finds its samples' responsibilities
    ``q_i(m)`` in proportion to ``pi_m exp(-loss of model m on sample i)`` under the models that it
    was sent, sets ``pi_m`` to their mean, and takes local steps on ``sum over m of the mean of
    q_i(m) * loss of model m``, the responsibilities held; the server averages every model over the
    cohort, weighted by support sizes.

    Every client, seen or not, is served ``p(y | x) = sum over m of pi_m p_m(y | x)``, its weights
    fitted to its labelled support under the trained models by ``serving_steps`` rounds of
    expectation and maximisation from equal ones. Nothing else is trained. A client without any
    point gets the mean of the seen clients' weights.

    Attributes
    ----------
    n_models : int
        Number of models (published: 3).
    serving_steps : int
        Steps of expectation and maximisation when a client is served.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    serving_steps: int = count(20)

    name: ClassVar[str] = "fedem"
    called: ClassVar[str] = "FedEM"
    paper: ClassVar[str] = "Marfoq et al., NeurIPS 2021"
    cites: ClassVar[tuple[str, ...]] = ("marfoq2021",)
    look: ClassVar[int | None] = 28
    personalization: ClassVar[Personalization] = "mixture"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "a mixture of several models"
    least_support: ClassVar[int] = 0
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "A served client's weights are fitted anew from equal ones (there a seen client has "
            "those of its last round, and a new client takes one step at every evaluation).",
            "not known",
        ),
        (
            "code",
            "A model becomes the mean over the cohort (there over all clients, those that were not "
            "drawn with the model that they were sent).",
            "not known",
        ),
        (
            "paper and code",
            "Momentum, decay and clipping in the local step, the models of a client clipped "
            "together (there plain SGD).",
            "not known",
        ),
    )

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random models, and equal weights of every client."""
        equal = torch.full(
            (len(clients), self.n_models),
            1 / self.n_models,
            dtype=task.dtype,
            device=clients.ids.device,
        )
        return State(self.drawn(task, generator), {"mixture": equal})

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send all models; clients find the weights that they will have after the round."""
        models, before = part(state.server, "models"), state.clients["mixture"][cohort.members]
        supports = [clients.support_of(member) for member in cohort.on_host()]
        judged = [self.judged(task, state, support) for support in supports]
        after = [
            responsibilities(losses, weights).mean(dim=0)
            for losses, weights in zip(judged, before, strict=True)
        ]
        begun = repeat(models, len(cohort))
        return Start(begun, own={"mixture": before}, shared=models, memory=torch.stack(after))

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        """Return the models' losses, each sample's by its responsibilities before the round."""
        sent, moving = (
            [part(table, str(model)) for model in range(self.n_models)]
            for table in (context.shared, params)
        )
        # Nothing is dropped where models are judged.
        judged = losses_of(replace(task, kept=None), sent, batches[0])
        share = responsibilities(judged.T, context.own["mixture"]).T.detach()
        return (share * losses_of(task, moving, batches[0])).mean(dim=1).sum()

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the changes of all models, and keep the new weights."""
        return replace(
            super().finish(task, state, cohort, start, final), kept={"mixture": start.memory}
        )

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Add the mean changes, weighted by support sizes."""
        mean = weighted_mean(uploads, cohort.sizes)
        return State(nest("models", add(part(state.server, "models"), mean)), state.clients)

    def newcomers_model(self, task: Task, state: State, support: Samples) -> Predictor:
        """Return the models' mixture with the weights that suit the support."""
        models, weights = self.models(state), self.describe(task, state, support)

        def predict(x: Tensor) -> Tensor:
            with torch.no_grad():
                each = torch.stack([task.logits(one, x).log_softmax(dim=1) for one in models])
                return (each + weights.log().view(-1, 1, 1)).logsumexp(dim=0)

        return predict

    def describe(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Tensor:
        """Return the client's weights of the models, ``[n_models]``."""
        if not len(support):
            return state.clients["mixture"].mean(dim=0)
        judged = self.judged(task, state, support)
        weights = torch.full_like(judged[0], 1 / self.n_models)
        for _ in range(self.serving_steps):
            weights = responsibilities(judged, weights).mean(dim=0)
        return weights


def responsibilities(losses: Tensor, weights: Tensor) -> Tensor:
    """Return the probabilities ``[n, n_models]`` that each model made a sample's label.

    In proportion to ``weights_m exp(-losses_im)``.

    >>> responsibilities(torch.tensor([[0.0, 0.0]]), torch.tensor([0.25, 0.75]))
    tensor([[0.2500, 0.7500]])
    """
    return (weights.log() - losses).softmax(dim=1)
