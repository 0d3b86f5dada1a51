"""Classes as Gaussians of one covariance in the space of a net's features, and their classifier."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from latecomer.models.task.clients import Samples
from latecomer.models.task.heads import features, head_names
from latecomer.models.task.state import Params, State, part
from latecomer.models.task.task import Task

SHRUNK = 1e-4
"""Share of a covariance that gives way to a multiple of the identity before it is inverted; and
what every class's share has added to it before its logarithm is taken."""
FEW = 2
"""A class of so many samples or fewer has no mean of its own."""
SHARES = tuple(step / 20 for step in range(21))
"""Shares of a client's own estimate that are tried."""


class Gaussians(NamedTuple):
    """Classes in feature space.

    Attributes
    ----------
    means : Tensor
        ``[n_classes, D]``.
    covariance : Tensor
        ``[D, D]``, the same for all classes.
    """

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

    Raises
    ------
    ValueError
        The target's head is not one matrix and one bias.
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
