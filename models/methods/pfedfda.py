"""pFedFDA: shared features under a classifier of Gaussian classes, adapted to every client."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.method import Finish, Personalization, Predictor, Start, predict_with
from latecomer.models.engine.newcomers import Messages, NewcomersGet
from latecomer.models.engine.schedule import Cohort, Phase, Stage
from latecomer.models.families.client_profiles import Gaussians, adapted, body_features, head_under
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.heads import body_names, join
from latecomer.models.task.state import (
    Params,
    State,
    add,
    nest,
    part,
    repeat,
    row,
    stack,
    subtract,
    weighted_mean,
)
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class PFedFDA(AveragedWeights):
    """pFedFDA (Mclaughlin, Su, 2024): adapts everyone's distribution of features to a client's.

    The server holds a body, a mean of features for each class and one covariance. A client of the
    cohort sets its head to the classifier that these imply under its own shares of the classes
    (:func:`~latecomer.models.families.client_profiles.linear_head`), trains the body under that
    frozen head, then estimates means and covariance of its own features and mixes them with
    everyone's, in the share that cross-validation on its support finds best
    (:func:`~latecomer.models.families.client_profiles.adapted`). The server averages bodies and
    mixed estimates, weighted by support sizes.

    Every client, seen or not, is served the body under the classifier of its mixed estimate, found
    from its labelled support in closed form; a client without any point gets everyone's, all
    classes alike.

    Attributes
    ----------
    ridge : float
        What is added to the diagonal of a client's covariance.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    ridge: float = number(1.0, above=0)

    name: ClassVar[str] = "pfedfda"
    called: ClassVar[str] = "pFedFDA"
    paper: ClassVar[str] = "Mclaughlin, Su, NeurIPS 2024"
    cites: ClassVar[tuple[str, ...]] = ("mclaughlin2024",)
    look: ClassVar[int | None] = 29
    personalization: ClassVar[Personalization] = "gaussian"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    least_support: ClassVar[int] = 0
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "A client's features are those of the body that it reached (there those seen on the "
            "way, minibatch by minibatch).",
            "not known",
        ),
        (
            "code",
            "The share is the best of 21, with halves by turns (there ten steps of L-BFGS from "
            ".5, with shuffled halves); 1e-4 is not added to every entry of the covariance.",
            "not known",
        ),
        (
            "code",
            "Momentum, decay, clipping and rates are those of the other methods here; not all "
            "clients take part in the last round.",
            "not known",
        ),
    )

    def phases(self, task: Task) -> tuple[Phase, ...]:
        """Return a single phase, whose rounds train the body."""
        return (Phase(stages=(Stage(body_names(task), 1),)),)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return a random body, means drawn between 0 and 1, and the identity as covariance."""
        weights = task.initial(generator)
        body = {name: weights[name] for name in body_names(task)}
        width = body_features(
            task, body, torch.zeros(1, *task.input_shape, dtype=task.dtype)
        ).shape[1]
        means = torch.rand(task.n_classes, width, dtype=task.dtype, generator=generator)
        classes = {"means": means, "covariance": torch.eye(width, dtype=task.dtype)}
        return State(nest("body", body) | nest("classes", classes))

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send body and Gaussians; every client's head is what they imply for its classes."""
        supports = [clients.support_of(member) for member in cohort.on_host()]
        everyone = Gaussians.held_by(state)
        heads = [head_under(task, everyone, support) for support in supports]
        body = repeat(part(state.server, "body"), len(cohort))
        sent = nest("classes", everyone._asdict())
        weights, head = join(task, body, stack(heads)), tuple(heads[0])
        return Start(weights, shared=sent, memory=supports, computed=head)

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the change of the body, and the Gaussians adapted to the client."""
        own = [
            self._adapted(task, state, row(final, place), support)._asdict()
            for place, support in enumerate(start.memory)
        ]
        moved = {name: final[name] for name in body_names(task)}
        body = subtract(moved, {name: start.params[name] for name in moved})
        return Finish(uploads=nest("body", body) | nest("classes", stack(own)))

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Move the body by the mean change, and take the mean Gaussians; by support sizes."""
        mean = weighted_mean(uploads, cohort.sizes)
        body = add(part(state.server, "body"), part(mean, "body"))
        return State(nest("body", body) | nest("classes", part(mean, "classes")))

    def newcomers_model(self, task: Task, state: State, support: Samples) -> Predictor:
        """Return the body under the classifier of the Gaussians adapted to the support."""
        body = part(state.server, "body")
        classes = Gaussians.held_by(state)
        if len(support):
            classes = self._adapted(task, state, body, support)
        return predict_with(task, join(task, body, head_under(task, classes, support)))

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return the body and the Gaussians, sent once."""
        return Messages(1, sum(value.numel() for value in state.server.values()), 0)

    def _adapted(self, task: Task, state: State, body: Params, support: Samples) -> Gaussians:
        x = body_features(task, body, support.x)
        return adapted(x, support.labels(), Gaussians.held_by(state), self.ridge)
