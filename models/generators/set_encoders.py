"""Encoders of unlabelled sets: from a client's inputs alone to its descriptor."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from latecomer.models.task import targets
from latecomer.models.task.state import Params, nest, part
from latecomer.models.task.task import Task


@dataclass(frozen=True, eq=False)
class DeepSets:
    """Mean- and max-pooled embeddings of single inputs, then a linear map.

    Half of an embedding's units are averaged over the set, the other half are max-pooled over
    it; the result does not depend on the order of a set, nor on how often it is repeated.

    Attributes
    ----------
    phi : Module
        Skeleton of the net that embeds single inputs.
    psi : Module
        Skeleton of the linear map from pooled units to a descriptor.
    width : int
        Length of an embedding.
    """

    phi: nn.Module
    psi: nn.Module
    width: int

    def initial(self, generator: torch.Generator) -> Params:
        """Draw fresh weights from ``generator`` alone."""
        phi = targets.initial(self.phi, generator)
        return nest("phi", phi) | nest("psi", targets.initial(self.psi, generator))

    def __call__(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Return descriptors ``[c, dim]`` of sets ``x [c, b, ...]``."""
        embedded = targets.apply(self.phi, part(params, "phi"), x.flatten(0, 1))
        embedded = torch.relu(embedded).view(*x.shape[:2], self.width)
        half = self.width // 2
        pooled = [embedded[..., :half].mean(dim=1), embedded[..., half:].amax(dim=1)]
        return targets.apply(self.psi, part(params, "psi"), torch.cat(pooled, dim=1))


def skeletons(task: Task, dim: int, width: int) -> tuple[nn.Module, nn.Module]:
    """Return the net that maps an input to ``width`` units, and the linear map to a descriptor."""
    phi = targets.build("auto", task.input_shape, width).to(task.dtype)
    with torch.device("meta"):
        return phi, nn.Linear(width, dim).to(task.dtype)


def deep_sets(task: Task, dim: int, width: int = 200) -> DeepSets:
    """Build DeepSets around a net like the default target (Zaheer et al., 2017).

    ``width`` units are half mean- and half max-pooled (OD-PFL: 100 and 100).

    >>> from latecomer.models.task.task import make_task
    >>> encoder = deep_sets(make_task(input_shape=(6,), n_classes=4), 5)
    >>> params = encoder.initial(torch.Generator().manual_seed(0))
    >>> tuple(encoder(params, torch.zeros(2, 3, 6)).shape)
    (2, 5)
    """
    return DeepSets(*skeletons(task, dim, width), width)
