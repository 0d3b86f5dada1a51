"""FLUX: clients grouped once by their profiles, and one model a group."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.method import Personalization, Start
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.client_profiles import WARM_UP, ProfiledClients, linked
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, add, gather, nest, part, repeat, row
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class Flux(ProfiledClients):
    r"""FLUX (Fenoglio et al., 2025): unsupervised clusters of clients, told by profiles.

    A share ``warm_up`` of the rounds is FedAvg. Then all seen clients tell the profile of their
    support (`families/client_profiles`), once, and the server groups them: two clients belong
    together if a chain of clients joins them whose neighbours are at most ``eps`` apart. That is
    DBSCAN with two points a core, where a client with no neighbour is a cluster of its own. ``eps``
    is ``eps_scale`` times the distance to the nearest client at the knee of all such distances in
    order (Satopää et al., 2011), so nobody sets the number of clusters. Every cluster's model
    begins at the global one and is moved by the mean change, weighted by support sizes, of its
    members in the cohort.

    A seen client is served its cluster's model. A new client is told the global model, answers with
    the part of its profile that needs no labels, and is served the model of the cluster whose
    members' mean is nearest in that part.

    Attributes
    ----------
    eps_scale : float
        Factor of the distance at the knee. At 1, the published one, a group of like clients tends
        to fall into several clusters; a larger one joins more.
    warm_up, profile_dim, local_lr, local_momentum, local_weight_decay, clip_norm
        See :class:`~latecomer.models.families.client_profiles.ProfiledClients`.
    """

    eps_scale: float = number(1.0, above=0)

    name: ClassVar[str] = "flux"
    called: ClassVar[str] = "FLUX"
    paper: ClassVar[str] = "Fenoglio et al., NeurIPS 2025"
    cites: ClassVar[tuple[str, ...]] = ("fenoglio2025",)
    personalization: ClassVar[Personalization] = "unlabelled"
    needs_labels: ClassVar[bool] = False
    newcomers_get: ClassVar[NewcomersGet] = "a seen client's model"
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "FedAvg lasts for a set share of the rounds; the code ends it when accuracy on data "
            "that clients keep back gains less than .06 a round, or after 80% of the rounds.",
            "not known",
        ),
        (
            "paper and code",
            "A cohort trains in a round, not all clients; all are asked for their profiles once. A "
            "cluster with nobody in the cohort rests.",
            "not known",
        ),
        (
            "code",
            "Features are the inputs of the last layer, whatever the net; the code's LeNet takes "
            "those of its first dense layer. They describe the whole support, not 80% of it.",
            "not known",
        ),
        (
            "code",
            "Where nearest distances have no knee, eps is the largest of them; the code stops.",
            "no",
        ),
        (
            "code",
            "Decay and clipping of the local step are settings (the code has none), and momentum "
            "goes on through a round (the code's begins again in each of its two epochs).",
            "not known",
        ),
    )

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights, or every client its cluster's; group the clients first."""
        if cohort.phase == WARM_UP:
            return super().start(task, state, clients, cohort, generator)
        known = state.server
        if "cluster" not in known:
            known = known | self.grouped(task, known, clients)
        elif len(clients) > len(known["cluster"]):
            known = known | {"cluster": self._joined(task, known, clients)}
        own = known["cluster"][cohort.members]
        return Start(gather(part(known, "models"), own), memory=known)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Move the global model, or every cluster's by the mean change of its members."""
        if cohort.phase == WARM_UP:
            return super().aggregate(task, state, cohort, start, uploads)
        known: Params = start.memory
        own, models = known["cluster"][cohort.members], part(known, "models")
        share = torch.zeros(
            len(known["centroid"]), len(cohort), dtype=torch.float64, device=own.device
        )
        share[own, torch.arange(len(cohort), device=own.device)] = cohort.sizes.to(share.dtype)
        share = share / share.sum(dim=1, keepdim=True).clamp_min(1)
        moves = {k: torch.tensordot(share.to(v.dtype), v, dims=1) for k, v in uploads.items()}
        return State(known | nest("models", add(models, moves)), state.clients)

    def grouped(self, task: Task, server: Params, clients: Clients) -> Params:
        """Return scale, every client's cluster, and the clusters' centroids and first models."""
        told = (clients.support_of(index) for index in range(len(clients)))
        scale, profiles = self.fitted(task, server, clients, told)
        cluster = linked(profiles.cpu().double().numpy(), self.eps_scale)
        own = torch.from_numpy(cluster).to(profiles.device)
        known = profiles[:, : 2 * self.dim(task)]
        centroid = torch.stack([known[own == one].mean(dim=0) for one in range(own.max() + 1)])
        models = repeat(part(server, "target"), len(centroid))
        models = {name: value.clone() for name, value in models.items()}
        return scale | {"cluster": own, "centroid": centroid} | nest("models", models)

    def _joined(self, task: Task, server: Params, clients: Clients) -> Tensor:
        """Return the clusters of all clients, of those not grouped yet as of new clients."""
        known = server["cluster"]
        new = [
            self.nearest(task, server, clients.support_of(index))
            for index in range(len(known), len(clients))
        ]
        return torch.cat([known, known.new_tensor(new)])

    def own_model(self, task: Task, state: State, index: int) -> Params | None:
        """Return the model of a seen client's cluster; None for who joined since."""
        known = state.server.get("cluster", ())
        return self._of_cluster(state, int(known[index])) if index < len(known) else None

    def nearest_weights(self, task: Task, state: State, support: Samples) -> Params:
        """Return the model of the cluster whose centroid is nearest to a new client's inputs."""
        return self._of_cluster(state, self.nearest(task, state.server, support))

    def _of_cluster(self, state: State, cluster: int) -> Params:
        return row(part(state.server, "models"), cluster)

    def nearest(self, task: Task, server: Params, support: Samples) -> int:
        """Return the cluster whose centroid is nearest to a client's inputs."""
        apart = server["centroid"] - self.profile(task, server, support)
        return int(torch.linalg.vector_norm(apart, dim=1).argmin())
