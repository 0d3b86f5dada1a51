"""FLUX: clients grouped once by their profiles, and one model a group."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist, squareform
from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.method import Personalization, Predictor, Start, predict_with
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.client_profiles import WARM_UP, ProfiledClients
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, add, gather, nest, part, repeat, row
from latecomer.models.task.task import Task

_ROUNDING = 1e-9


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

    A seen client is served its cluster's model. A newcomer is told the global model, answers with
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
        """Return the clusters of all clients, of those not grouped yet as of newcomers."""
        known = server["cluster"]
        new = [
            self.nearest(task, server, clients.support_of(index))
            for index in range(len(known), len(clients))
        ]
        return torch.cat([known, known.new_tensor(new)])

    def nearest(self, task: Task, server: Params, support: Samples) -> int:
        """Return the cluster whose centroid is nearest to a client's inputs."""
        apart = server["centroid"] - self.profile(task, server, support)
        return int(torch.linalg.vector_norm(apart, dim=1).argmin())

    def serve(
        self,
        task: Task,
        state: State,
        index: int,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Return the model of the client's cluster."""
        if index >= len(state.server.get("cluster", ())):
            return self.personalize(task, state, support, predictor=predictor, generator=generator)
        self.refuse_predictor(predictor)
        own = int(state.server["cluster"][index])
        return predict_with(task, row(part(state.server, "models"), own))

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Return the nearest cluster's model; the global one before there are clusters."""
        self.refuse_predictor(predictor)
        if "cluster" not in state.server:
            return predict_with(task, part(state.server, "target"))
        own = self.nearest(task, state.server, support)
        return predict_with(task, row(part(state.server, "models"), own))


def linked(points: NDArray[np.float64], eps_scale: float = 1.0) -> NDArray[np.int64]:
    """Return a cluster for each of ``n`` points, numbered by their first points, int64 ``[n]``.

    Examples
    --------
    >>> linked(np.array([[0.0], [0.1], [5.0], [5.1], [5.25], [9.0]]))
    array([0, 0, 1, 1, 1, 2])
    """
    if len(points) == 1:
        return np.zeros(1, dtype=np.int64)
    apart = squareform(pdist(points))
    others = apart + np.diag(np.full(len(points), np.inf))
    nearest = np.sort(others.min(axis=1))
    at = knee(nearest)
    eps = nearest[-1 if at is None else at] * eps_scale
    _, cluster = connected_components(apart <= eps, directed=False)
    return cluster.astype(np.int64)


def knee(heights: ArrayLike) -> int | None:
    """Return where an increasing, convex curve of evenly spaced heights turns up; None: nowhere.

    Kneedle (Satopää, Albrecht, Irwin, Raghavan, 2011) at sensitivity 1: the curve, mirrored to be
    concave and put into the unit square, less the diagonal, falls below one of its local maxima by
    more than a step of the diagonal before it reaches a local minimum. The first such maximum from
    the right is the knee. Two equal heights make a fall of just a step, which is none; nearest
    distances are equal wherever two clients are each other's nearest.

    Examples
    --------
    >>> knee([0.0, 0.1, 0.2, 0.3, 0.4, 5.0, 10.0]), knee([1.0, 1.0]), knee([0.0, 1.0, 2.0])
    (4, None, None)
    """
    curve = np.asarray(heights, dtype=float)
    n, span = len(curve), curve[-1] - curve[0]
    if n < 3 or not span > 0:
        return None
    above = 1 - (curve[::-1] - curve[0]) / span - np.linspace(0, 1, n)
    left, right = np.r_[above[0], above[:-1]], np.r_[above[1:], above[-1]]
    top: int | None = None
    for place in range(n - 1):
        if above[place] >= left[place] and above[place] >= right[place]:
            top = place
        if above[place] <= left[place] and above[place] <= right[place]:
            top = None
        if top is not None and above[place + 1] < above[top] - 1 / (n - 1) - _ROUNDING:
            return n - 1 - top
    return None
