"""Profiles of clients: how the features that a first global model finds in their samples spread.

FLUX and FEROMA take the same profile (Fenoglio et al., 2025; Li et al., 2026; their published
code). Features, the inputs of that model's last layer, are projected to ``k`` dimensions. A profile
holds their means and standard deviations over all samples of a client, then those over its samples
of each class. The first part needs no labels, and a newcomer is known by it alone.
"""

from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn import functional as F

from latecomer.models.engine.hyperparameters import count, number
from latecomer.models.engine.newcomers import Messages, one_model
from latecomer.models.engine.phases import Phase
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.averaged_weights import AveragedWeights
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.heads import body_names, features, head_names
from latecomer.models.task.state import Params, State, nest, part, sent
from latecomer.models.task.task import Task

WARM_UP = "warm-up"
ABSENT = -1.0
"""What stands for a class that a client has fewer than two samples of, before scaling."""
_POINTS, _SEED = 200, 1
_MARGIN = 1.02


@dataclass(frozen=True, kw_only=True)
class ProfiledClients(AveragedWeights, ABC):
    """Rounds of FedAvg, whose model then tells all clients' profiles.

    What the rounds after those do, a method says in ``start`` and ``aggregate``.

    Attributes
    ----------
    warm_up : float
        Share of the rounds that train one global model.
    profile_dim : int or None
        Dimensions ``k`` that features are projected to; None: as many as classes. Never more than
        there are features.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    warm_up: float = number(0.5, least=0, below=1)
    profile_dim: int | None = count(None)

    def phases(self, task: Task) -> tuple[Phase, ...]:
        """Return the rounds of one global model, then those of several."""
        return (Phase(WARM_UP, self.warm_up), Phase("profiled", 1 - self.warm_up))

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random global weights, of a net that has features."""
        state = super().init(task, clients, first, generator)
        with torch.no_grad():
            features(task, part(state.server, "target"), clients.support_of(0).x[:1].cpu())
        return state

    def dim(self, task: Task) -> int:
        """Return ``k``."""
        return min(self.profile_dim or task.n_classes, _width(task), _POINTS - 1)

    def fitted(
        self, task: Task, server: Params, clients: Clients, told: Iterable[Samples]
    ) -> tuple[Params, Tensor]:
        """Return the scale of profiles, and all clients' scaled profiles ``[n, length]``.

        Scaled is every group of ``k`` entries (means or deviations, of all samples or of those of
        a class), so that the smallest entry of all clients is 0 and the largest 1. ``told`` are the
        samples that each client tells its profile of.
        """
        everything = (clients.support_of(index).x for index in range(len(clients)))
        largest = torch.stack([self._features(task, server, x).max() for x in everything])
        top = _MARGIN * largest.max()
        raw = torch.stack([self._raw(task, server, one.x, top, one.labels()) for one in told])
        groups = raw.view(len(raw), -1, self.dim(task))
        scale = {"low": groups.amin(dim=(0, 2)), "high": groups.amax(dim=(0, 2)), "top": top}
        return nest("profile", scale), scaled(raw, scale, self.dim(task))

    def profile(
        self, task: Task, server: Params, samples: Samples, *, labelled: bool = False
    ) -> Tensor:
        """Return a client's scaled profile, or the part ``[2 k]`` of it that needs no labels.

        Raises
        ------
        ValueError
            Without samples.
        """
        if len(samples) == 0:
            raise ValueError(f"support must hold at least 1 sample for {self.name}, got 0")
        scale, y = part(server, "profile"), samples.labels() if labelled else None
        raw = self._raw(task, server, samples.x, scale["top"], y)
        return scaled(raw, scale, self.dim(task))

    def _features(self, task: Task, server: Params, x: Tensor) -> Tensor:
        with torch.no_grad():
            return features(task, part(server, "target"), x)

    def _raw(self, task: Task, server: Params, x: Tensor, top: Tensor, y: Tensor | None) -> Tensor:
        """Return a profile before scaling; without labels its first part."""
        phi = self._features(task, server, x)
        onto, centre = (
            sent(torch.from_numpy(one).to(phi.dtype), phi.device)
            for one in directions(_width(task), self.dim(task))
        )
        z = phi @ onto - top * centre
        everything = moments(z, torch.ones_like(z[:, :1]))
        if y is None:
            return everything
        return torch.cat([everything, moments(z, F.one_hot(y, task.n_classes).to(z.dtype), 2)])

    def describe(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Tensor | None:
        """Return the part of a client's profile that needs no labels; None before there are any."""
        if "profile.low" not in state.server:
            return None
        return self.profile(task, state.server, support)

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return the first global model's body and the newcomer's own model down, a profile up."""
        body, own = one_model(task, body_names(task)), one_model(task)
        return Messages(2, body.down + own.down, 2 * self.dim(task))


def _width(task: Task) -> int:
    """Return the number of features: the head's columns."""
    return max(task.shapes[name][-1] for name in head_names(task) if len(task.shapes[name]) == 2)


def moments(z: Tensor, among: Tensor, least: int = 1) -> Tensor:
    """Return means, then standard deviations, ``[2 c k]``, of the samples in each of ``c`` groups.

    Parameters
    ----------
    z : Tensor
        Samples ``[b, k]``.
    among : Tensor
        1 where sample ``b`` belongs to group ``c``, else 0, ``[b, c]``.
    least : int
        A group with fewer samples has ``ABSENT`` for both.

    Examples
    --------
    >>> z = torch.tensor([[1.0], [3.0], [7.0]])
    >>> moments(z, torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 2)
    tensor([ 2., -1.,  1., -1.])
    """
    sizes = among.sum(dim=0)[:, None]
    mean = among.T @ z / sizes.clamp_min(1)
    sd = (among.T @ (z - among @ mean).square() / sizes.clamp_min(1)).sqrt()
    return torch.where(sizes >= least, torch.stack([mean, sd]), ABSENT).flatten()


def scaled(raw: Tensor, scale: Params, dim: int) -> Tensor:
    """Scale profiles ``[..., length]``, or their first groups of ``dim`` entries, by all clients'.

    >>> scale = {"low": torch.tensor([1.0, 0.0]), "high": torch.tensor([3.0, 0.0])}
    >>> scaled(torch.tensor([1.0, 2.0]), scale, 2), scaled(torch.tensor([5.0, 4.0]), scale, 1)
    (tensor([0.0000, 0.5000]), tensor([2., 4.]))
    """
    groups = raw.view(*raw.shape[:-1], -1, dim)
    low, high = (scale[end][: groups.shape[-2], None] for end in ("low", "high"))
    span = torch.where(high > low, high - low, torch.ones_like(low))
    made: Tensor = (groups - low) / span
    return made.flatten(-2)


@cache
def directions(width: int, dim: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what features are projected by, ``[width, dim]``, and the projected centre ``[dim]``.

    They are the first principal directions of 200 points drawn uniformly from the unit cube, the
    same for everyone; a direction's largest entry is positive. In a cube of another side the
    directions are the same and the centre lies in proportion.
    """
    points = np.random.RandomState(_SEED).uniform(0, 1, size=(_POINTS, width))
    centre = points.mean(axis=0)
    _, _, found = np.linalg.svd(points - centre, full_matrices=False)
    found = found[:dim]
    largest = np.abs(found).argmax(axis=1)
    onto = (found * np.sign(found[np.arange(dim), largest])[:, None]).T
    return onto, centre @ onto
