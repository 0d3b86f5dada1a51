"""IFCA: several global models; a client trains, and is served, the one that fits it best."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.engine.method import Finish, Personalization, Predictor, Start, predict_with
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.global_weights import SeveralModels
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, gather, nest, part, stack, subtract
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class IFCA(SeveralModels):
    """IFCA (Ghosh et al., 2020), Algorithm 1 with averaging of models (option II).

    The server holds ``n_models`` models and sends them all. A client of the cohort picks the one
    with the lowest mean loss on its support, the first among equals, and trains it; a model becomes
    the plain mean of what those who picked it reached, and stays as it is if nobody did.

    Every client, seen or not, is served the model that it picks by its labelled support. One
    without any point gets the model that most seen clients picked when they last trained.

    Attributes
    ----------
    n_models : int
        Number of models.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    name: ClassVar[str] = "ifca"
    called: ClassVar[str] = "IFCA"
    paper: ClassVar[str] = "Ghosh et al., NeurIPS 2020"
    cites: ClassVar[tuple[str, ...]] = ("ghosh2020",)
    look: ClassVar[int | None] = 27
    personalization: ClassVar[Personalization] = "chosen"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "the best of several models"
    least_support: ClassVar[int] = 0
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper and code",
            "The local step has momentum, decay and clipping, on minibatches (there plain steps on "
            "all of a client's data).",
            "not known",
        ),
        (
            "paper",
            "Models are drawn at random and training is done once; the paper restarts where models "
            "collapse, and for nets with shared layers averages those over all clients.",
            "not known",
        ),
    )

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random models, none of them picked."""
        picked = torch.full((len(clients),), -1, device=clients.ids.device)
        return State(self.drawn(task, generator), {"picked": picked})

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send all models; every client starts from the one it picks."""
        supports = [clients.support_of(member) for member in cohort.on_host()]
        picked = torch.stack([self._picked(task, state, support) for support in supports])
        begun = gather(stack(self.models(state)), picked)
        return Start(begun, shared=part(state.server, "models"), memory=picked)

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the change of the model picked, and remember which it was."""
        return Finish(uploads=subtract(final, start.params), kept={"picked": start.memory})

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Add to each model the mean change of those who picked it."""
        moved: Params = {}
        for number, weights in enumerate(self.models(state)):
            theirs = (start.memory == number).to(task.dtype)
            share = theirs / theirs.sum().clamp(min=1)
            moved |= nest(
                f"models.{number}",
                {
                    key: value + torch.tensordot(share, uploads[key], dims=1)
                    for key, value in weights.items()
                },
            )
        return State(moved, state.clients)

    def newcomers_model(self, task: Task, state: State, support: Samples) -> Predictor:
        """Return the model with the lowest mean loss on the support."""
        return predict_with(task, self.models(state)[int(self._picked(task, state, support))])

    def _picked(self, task: Task, state: State, support: Samples) -> Tensor:
        """Return the number of the model that a client picks."""
        if len(support):
            return self.judged(task, state, support).mean(dim=0).argmin()
        # One more each, so that those who picked nothing yet add to none of them.
        return torch.bincount(state.clients["picked"] + 1, minlength=self.n_models + 1)[1:].argmax()
