"""Descriptors of unlabelled sets that are made differentially private by Gaussian noise."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from latecomer.bounds.privacy import dp_sensitivity, gauss_analytic
from latecomer.models.generators.set_encoders import skeletons
from latecomer.models.task import targets
from latecomer.models.task.state import Params, nest, part
from latecomer.models.task.task import Task


@dataclass(frozen=True, eq=False)
class UnitDeepSets:
    """Embeddings on the unit sphere, averaged, then a linear map of spectral norm at most 1.

    The map's weights are divided by their spectral norm where that is above 1, so that replacing
    one of ``m`` samples moves a descriptor by at most ``2 / m`` in L2, up to rounding.

    Attributes
    ----------
    phi : Module
        Skeleton of the net that embeds single inputs.
    psi : Module
        Skeleton of the linear map from averaged units to a descriptor.
    """

    phi: nn.Module
    psi: nn.Module

    def initial(self, generator: Generator) -> Params:
        """Draw fresh weights from ``generator`` alone."""
        phi = targets.initial(self.phi, generator)
        return nest("phi", phi) | nest("psi", targets.initial(self.psi, generator))

    def __call__(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Return descriptors ``[c, dim]`` of sets ``x [c, b, ...]``."""
        embedded = targets.apply(self.phi, part(params, "phi"), x.flatten(0, 1))
        mean = F.normalize(embedded, dim=1).view(*x.shape[:2], -1).mean(dim=1)
        weight = params["psi.weight"]
        stretch = torch.linalg.matrix_norm(weight, ord=2).clamp_min(1)
        return F.linear(mean, weight / stretch, params["psi.bias"])


def unit_deep_sets(task: Task, dim: int, width: int = 200) -> UnitDeepSets:
    """Build unit DeepSets with ``width`` units around a net like the default target.

    >>> from latecomer.models.task.task import make_task
    >>> encoder = unit_deep_sets(make_task(input_shape=(6,), n_classes=4), 5)
    >>> params = encoder.initial(torch.Generator().manual_seed(0))
    >>> tuple(encoder(params, torch.zeros(2, 3, 6)).shape)
    (2, 5)
    """
    return UnitDeepSets(*skeletons(task, dim, width))


def refuse_unbounded(epsilon: float | None, encoder: str) -> None:
    """Raise ``ValueError`` where noise is asked for and ``encoder`` is not ``unit-deepsets``."""
    if epsilon is not None and encoder != "unit-deepsets":
        legal = "unit-deepsets with dp_epsilon (noise does not hide max pooling or attention)"
        raise ValueError(f"encoder must be {legal}, got encoder={encoder!r}")


def noise_sd(n_samples: int, epsilon: float, dp_delta: float) -> float:
    """Return the noise's standard deviation for a private descriptor of ``n_samples`` samples.

    It is the least one that makes a single release of a :class:`UnitDeepSets` descriptor
    ``(epsilon, dp_delta)``-private when one sample is replaced (OD-PFL, Lemma 2; Balle and Wang,
    2018, Theorem 9). The number of samples is public.

    >>> round(noise_sd(100, 0.3, 0.01), 4)
    0.0912
    """
    swing = dp_sensitivity(head_lipschitz=1, feature_bound=1, n_samples=n_samples)
    return float(gauss_analytic(epsilon=epsilon, dp_delta=dp_delta, sensitivity=swing))


def with_noise(descriptors: Tensor, sd: float, generator: Generator) -> Tensor:
    """Return ``descriptors`` plus independent Gaussian noise of standard deviation ``sd``."""
    noise = torch.randn(descriptors.shape, generator=generator, dtype=descriptors.dtype)
    return descriptors + sd * noise.to(descriptors.device)
