"""Clients by the features that a net finds in their samples: Gaussian classes, and profiles.

FLUX and FEROMA take the same profile (Fenoglio et al., 2025; Li et al., 2026; their published
code). Features, the inputs of that model's last layer, are projected to ``k`` dimensions. A profile
holds their means and standard deviations over all samples of a client, then those over its samples
of each class. The first part needs no labels, and a new client is known by it alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist, squareform
from torch import Generator, Tensor
from torch.nn import functional as F

from latecomer.models.engine.hyperparameters import number, size
from latecomer.models.engine.method import Predictor, predict_with
from latecomer.models.engine.newcomers import Messages, one_model
from latecomer.models.engine.schedule import Cohort, Phase
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.heads import body_names, features, head_names
from latecomer.models.task.state import Params, State, nest, part, sent
from latecomer.models.task.task import Task

SHRUNK = 1e-4
"""Share of a covariance that gives way to a multiple of the identity before it is inverted; and
what every class's share has added to it before its logarithm is taken."""
FEW = 2
"""A class of so many samples or fewer has no mean of its own."""
SHARES = tuple(step / 20 for step in range(21))
"""Shares of a client's own estimate that are tried."""


class Gaussians(NamedTuple):
    """Classes in feature space: means ``[n_classes, D]``, one covariance ``[D, D]`` for all."""

    means: Tensor
    covariance: Tensor

    @classmethod
    def held_by(cls, state: State) -> "Gaussians":
        """Return those that the server holds."""
        return cls(**part(state.server, "classes"))

    def mixed(self, other: "Gaussians", share: float) -> "Gaussians":
        """Return ``share * self + (1 - share) * other``, means and covariance alike."""
        means, covariance = (
            share * one + (1 - share) * another for one, another in zip(self, other, strict=True)
        )
        return Gaussians(means, covariance)


def class_shares(labels: Tensor, n_classes: int, dtype: torch.dtype) -> Tensor:
    """Return the shares of the classes among labels; equal ones without any.

    >>> class_shares(torch.tensor([0, 0, 1]), 2, torch.float64)
    tensor([0.6666, 0.3334], dtype=torch.float64)
    """
    if not len(labels):
        return torch.full((n_classes,), 1 / n_classes, dtype=dtype, device=labels.device)
    counts = torch.bincount(labels, minlength=n_classes).to(dtype)
    raised = counts / len(labels) + SHRUNK
    return raised / raised.sum()


def linear_head(classes: Gaussians, shares: Tensor) -> tuple[Tensor, Tensor]:
    """Return weight ``[n_classes, D]`` and bias of the classifier that Gaussian classes imply.

    With covariance ``S``, its diagonal raised by a ten-thousandth of its mean, class ``c`` has the
    logit ``mu_c' S^-1 x - mu_c' S^-1 mu_c / 2 + log share_c``: linear discriminant analysis.
    """
    means, covariance = classes
    even = covariance.diagonal().mean() * torch.eye(len(covariance)).to(covariance)
    weight = torch.linalg.solve((1 - SHRUNK) * covariance + SHRUNK * even, means.T).T
    return weight, shares.log() - (weight * means).sum(dim=1) / 2


def estimated(features: Tensor, labels: Tensor, everyone: Gaussians, ridge: float) -> Gaussians:
    """Return the Gaussians of labelled features ``[n, D]``.

    A class of two samples or fewer has everyone's mean. The covariance is that of all samples
    around their class's mean, divided by ``n - 1``, plus ``ridge`` on its diagonal.
    """
    counts = torch.bincount(labels, minlength=len(everyone.means))
    sums = torch.zeros_like(everyone.means).index_add_(0, labels, features)
    own = sums / counts.clamp(min=1).unsqueeze(1)
    means = torch.where((counts > FEW).unsqueeze(1), own, everyone.means)
    apart = features - means[labels]
    scatter = apart.T @ apart / max(len(features) - 1, 1)
    return Gaussians(means, scatter + ridge * torch.eye(len(scatter)).to(scatter))


def adapted(features: Tensor, labels: Tensor, everyone: Gaussians, ridge: float) -> Gaussians:
    """Return a client's Gaussians, its own and everyone's in the best of 21 shares.

    The best has the lowest cross-entropy by two-fold cross-validation: every other sample of each
    class in turn is estimated from, the rest is judged; among equals the smallest share wins.
    Classes of one sample are left out of that, and without others everyone's Gaussians stay.
    """
    counts = torch.bincount(labels, minlength=len(everyone.means))
    fit = counts[labels] > 1
    if not bool(fit.any()):
        return everyone
    x, y = features[fit], labels[fit]
    # By a sample's place among those of its class.
    half = F.one_hot(y, len(counts)).cumsum(dim=0).gather(1, y.unsqueeze(1)).squeeze(1) % 2
    shares = class_shares(labels, len(counts), features.dtype)
    folds = [(estimated(x[half == k], y[half == k], everyone, ridge), half != k) for k in (0, 1)]

    def judged(share: float) -> float:
        total = x.new_zeros(())
        for own, others in folds:
            weight, bias = linear_head(own.mixed(everyone, share), shares)
            total = total + F.cross_entropy(F.linear(x[others], weight, bias), y[others])
        return float(total)

    _, share = min((judged(share), share) for share in SHARES)
    return estimated(features, labels, everyone, ridge).mixed(everyone, share)


def body_features(task: Task, body: Params, x: Tensor) -> Tensor:
    """Return what a body gives to the head above it, ``[n, D]``."""
    shapes = {name: task.shapes[name] for name in head_names(task)}
    anything = {name: x.new_zeros(shape) for name, shape in shapes.items()}
    with torch.no_grad():
        return features(task, body | anything, x)


def head_under(task: Task, classes: Gaussians, support: Samples) -> Params:
    """Return the head that Gaussian classes imply under the support's shares of the classes.

    Refuses a target whose head is not one matrix and one bias.
    """
    shares = class_shares(support.labels(), task.n_classes, classes.means.dtype)
    made = {value.dim(): value for value in linear_head(classes, shares)}
    names = {len(task.shapes[name]): name for name in head_names(task)}
    if set(names) != set(made):
        raise ValueError(
            "target must end in a linear layer with a bias for pfedfda to compute it, got the head "
            f"{task.head} of {', '.join(names.values())}"
        )
    return {names[axes]: value for axes, value in made.items()}


WARM_UP = "warm-up"
ABSENT = -1.0
"""What stands for a class that a client has fewer than two samples of, before scaling."""
_POINTS, _SEED = 200, 1
_MARGIN = 1.02
_ROUNDING = 1e-9
_NEAR = 1e-8
"""Added to every distance, so that a client may be like another in all it tells."""


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
    profile_dim: int | None = size(None)

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
        """Return a client's scaled profile, or the part ``[2 k]`` of it that needs no labels."""
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

    @abstractmethod
    def nearest_weights(self, task: Task, state: State, support: Samples) -> Params:
        """Return the weights that a new client's profile chooses, once there are profiles."""

    def newcomers_model(self, task: Task, state: State, support: Samples) -> Predictor:
        """Return the model that the client's profile chooses; before profiles, the global one."""
        if "profile.low" not in state.server:
            return super().newcomers_model(task, state, support)
        return predict_with(task, self.nearest_weights(task, state, support))

    def describe(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Tensor | None:
        """Return the part of a client's profile that needs no labels; None before there are any."""
        if "profile.low" not in state.server:
            return None
        return self.profile(task, state.server, support)

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return the first global model's body and the client's own model down, a profile up."""
        body, own = one_model(task, body_names(task)), one_model(task)
        return Messages(2, body.down + own.down, 2 * self.dim(task))


def _width(task: Task) -> int:
    """Return the number of features: the head's columns."""
    return max(task.shapes[name][-1] for name in head_names(task) if len(task.shapes[name]) == 2)


def moments(z: Tensor, among: Tensor, least: int = 1) -> Tensor:
    """Return means, then standard deviations, ``[2 c k]``, of samples ``z [b, k]`` in ``c`` groups.

    ``among [b, c]`` is 1 where a sample belongs to a group, else 0. A group with fewer than
    ``least`` samples has ``ABSENT`` for both.

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


def likeness(profiles: Tensor, others: Tensor) -> Tensor:
    """Return how much each client ``[c, length]`` counts each of the others, ``[c, p]``; sum 1.

    Examples
    --------
    >>> likeness(torch.tensor([[0.0]]), torch.tensor([[1.0], [-3.0]]))
    tensor([[0.7500, 0.2500]])
    """
    distance = torch.linalg.vector_norm(profiles[:, None] - others[None], dim=2)
    near = 1 / (distance + _NEAR)
    shares: Tensor = near / near.sum(dim=1, keepdim=True)
    return shares


def drawn_halves(size: int, halves: int, generator: Generator) -> Tensor:
    """Return the places of random halves of ``size`` samples, one half after another.

    Half of an odd number is rounded down, but a half holds one sample at least.
    """
    draws = [torch.randperm(size, generator=generator) for _ in range(halves)]
    return torch.cat([one[: max(size // 2, 1)] for one in draws])


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
