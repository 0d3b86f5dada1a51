"""FEROMA: clients start from mixtures of the last round's models, by likeness of their profiles."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator

from latecomer.models.engine.hyperparameters import count
from latecomer.models.engine.method import Finish, Personalization, Start
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.client_profiles import (
    WARM_UP,
    ProfiledClients,
    drawn_halves,
    likeness,
)
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, add, nest, part, row, sent, subtract
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class Feroma(ProfiledClients):
    r"""FEROMA (Li et al., 2026): models are mixed and handed out by likeness of profiles.

    A share ``warm_up`` of the rounds is FedAvg. From then on a client of the cohort takes the
    profile of its support (`families/client_profiles`) by the last global model: of ``halves``
    random halves, put together, drawn anew every round. It starts from

        ``sum_j n_j w_ij theta_j / sum_j n_j w_ij``,
        ``w_ij`` in proportion to ``1 / (|p_i - p_j| + 1e-8)``

    over the clients ``j`` of the round before, with their support sizes ``n_j``, profiles ``p_j``
    and trained weights ``theta_j``; in the first such round from the global weights. Nothing else
    is averaged: likeness alone makes what clients share.

    A seen client is served the weights that its own last round reached. A new client is told the
    global model, answers with the part of its profile that needs no labels, and is served the
    weights of the seen client that is nearest in that part. So is a seen client that was not drawn
    since the warm-up, and before anybody was all are served the global model.

    Attributes
    ----------
    halves : int
        Random halves of its support that a client tells its profile of; 0: all of the support.
    warm_up, profile_dim, local_lr, local_momentum, local_weight_decay, clip_norm
        See :class:`~latecomer.models.families.client_profiles.ProfiledClients`.
    """

    halves: int = count(3, least=0)

    name: ClassVar[str] = "feroma"
    called: ClassVar[str] = "FEROMA"
    paper: ClassVar[str] = "Li, Fenoglio, Gjoreski, Langheinrich, ICLR 2026"
    cites: ClassVar[tuple[str, ...]] = ("li2026feroma",)
    personalization: ClassVar[Personalization] = "unlabelled"
    needs_labels: ClassVar[bool] = False
    newcomers_get: ClassVar[NewcomersGet] = "a seen client's model"
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper and code",
            "A cohort trains in a round, not all clients: it starts from the models of the cohort "
            "before. New clients choose among the last models of all seen clients, each as old as "
            "the client's last round. All seen clients tell profiles once, for the scale.",
            "not known",
        ),
        (
            "code",
            "Features are the inputs of the last layer, whatever the net; the code's LeNet takes "
            "those of its first dense layer. Profiles are of the support, not of a fifth of the "
            "data that training does not see, and so are the sizes that models count by.",
            "not known",
        ),
        (
            "code",
            "New clients never tell labels. Where clients label alike inputs differently, the code "
            "asks test clients for 20 labels a class.",
            "yes, by how much is not known: where only labels differ, new clients get no fit model",
        ),
        (
            "code",
            "Decay and clipping of the local step are settings (the code has none), and momentum "
            "goes on through a round (the code's begins again in each of its two epochs).",
            "not known",
        ),
    )

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random global weights, and room for every client's last model and profile."""
        state = super().init(task, clients, first, generator)
        weights, n = part(state.server, "target"), len(clients)
        own = {name: value.new_zeros(n, *value.shape) for name, value in weights.items()}
        profile = torch.zeros(n, 2 * self.dim(task), dtype=task.dtype)
        heard = torch.zeros(n, dtype=torch.bool)
        return State(state.server, nest("model", own) | {"profile": profile, "heard": heard})

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights, or every client the mixture that its profile asks for."""
        begun = super().start(task, state, clients, cohort, generator)
        if cohort.phase == WARM_UP:
            return begun
        known = state.server
        if "profile.low" not in known:
            supports = (clients.support_of(index) for index in range(len(clients)))
            everyone = (self.told_of(one, generator) for one in supports)
            scale, profiles = self.fitted(task, known, clients, everyone)
            known, told = known | scale, profiles[cohort.members]
        else:
            supports = (clients.support_of(index) for index in cohort.on_host())
            samples = (self.told_of(one, generator) for one in supports)
            told = torch.stack([self.profile(task, known, one, labelled=True) for one in samples])
        memory = known, told
        if "trained.sizes" not in known:
            return Start(begun.params, memory=memory)
        counts = likeness(told, known["trained.profile"]) * known["trained.sizes"]
        shares = counts / counts.sum(dim=1, keepdim=True)
        mixed = {
            name: torch.tensordot(shares, value, dims=1)
            for name, value in part(known, "trained.model").items()
        }
        return Start(mixed, memory=memory)

    def told_of(self, support: Samples, generator: Generator) -> Samples:
        """Return the samples that a client tells its profile of in a round."""
        if not self.halves:
            return support
        rows = sent(drawn_halves(len(support), self.halves, generator), support.x.device)
        return Samples(support.x[rows], support.labels()[rows])

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the change and the profile; the model and what new clients know it by are kept."""
        changes = nest("target", subtract(final, start.params))
        if cohort.phase == WARM_UP:
            return Finish(changes)
        _, told = start.memory
        known = {
            "profile": told[:, : 2 * self.dim(task)],
            "heard": told.new_ones(len(cohort), dtype=torch.bool),
        }
        return Finish(changes | {"profile": told}, nest("model", final) | known)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Average the changes, or keep the cohort's models for the next round."""
        changes = part(uploads, "target")
        if cohort.phase == WARM_UP:
            return super().aggregate(task, state, cohort, start, changes)
        known, told = start.memory
        kept = {"profile": told, "sizes": cohort.sizes.to(told.dtype)}
        models = nest("model", add(start.params, changes))
        return State(known | nest("trained", kept | models), state.clients)

    def own_model(self, task: Task, state: State, index: int) -> Params | None:
        """Return the weights that a client's last round reached; None for who was not drawn."""
        if not state.clients["heard"][index]:
            return None
        return row(part(state.clients, "model"), index)

    def nearest_weights(self, task: Task, state: State, support: Samples) -> Params:
        """Return the last weights of the seen client that is nearest to a new client's inputs."""
        apart = state.clients["profile"] - self.profile(task, state.server, support)
        heard = state.clients["heard"]
        distance = torch.linalg.vector_norm(apart, dim=1).where(heard, torch.inf)
        return row(part(state.clients, "model"), int(distance.argmin()))
