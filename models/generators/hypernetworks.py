"""Hypernetworks: from a descriptor to the weights of a target network."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latecomer.models.engine.threads import each
from latecomer.models.task import targets
from latecomer.models.task.objectives import pulled_back
from latecomer.models.task.state import Params
from latecomer.models.task.task import Task

_IN_CACHE = 2**18
"""Numbers of a head (a megabyte of float32) that all clients use before the next are read."""
_TOGETHER = 64
"""Rows that a matrix product may compute together; cutting at multiples keeps its rounding."""


@dataclass(frozen=True)
class Hypernetwork:
    """A dense trunk and one linear head for each target tensor.

    The trunk maps ``dim`` to ``width`` and then applies ``hidden`` layers of ``width`` units, each
    preceded by a ReLU; the heads follow directly, as in the published code of pFedHN and PeFLL.

    Attributes
    ----------
    shapes : tuple of (str, tuple of int)
        Name and shape of every target tensor.
    dim : int
        Length of a descriptor.
    hidden, width : int
        Depth and width of the trunk.
    dtype : torch.dtype
        Floating type of the weights.
    spectral : bool
        Whether every layer's weight is divided by its largest singular value (Miyato et al., 2018,
        applied to all layers as in pFedHN's appendix C.3), so that each layer is 1-Lipschitz. The
        singular value is exact, not from a power iteration, and gradients go through it.
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    dim: int
    hidden: int = 3
    width: int = 100
    dtype: torch.dtype = torch.float32
    spectral: bool = False

    def initial(self, generator: torch.Generator) -> Params:
        """Draw weights, every layer by torch's rule for linear layers."""
        with torch.device("meta"):
            trunk = {
                f"trunk{i}": nn.Linear(self.width if i else self.dim, self.width)
                for i in range(self.hidden + 1)
            }
            heads = {name: nn.Linear(self.width, prod(shape)) for name, shape in self.shapes}
        params: Params = {}
        for name, layer in [*trunk.items(), *((f"heads.{k}", v) for k, v in heads.items())]:
            drawn = targets.initial(layer, generator)
            params |= {f"{name}.{key}": value.to(self.dtype) for key, value in drawn.items()}
        return params

    def __call__(self, params: Mapping[str, Tensor], descriptors: Tensor) -> Params:
        """Return target weights ``[c, ...]`` for descriptors ``[c, dim]``."""
        params = self.applied(params)
        features = self._features(params, descriptors)
        made: Params = {}
        for name, shape in self.shapes:
            weight, bias = params[f"heads.{name}.weight"], params[f"heads.{name}.bias"]
            made[name] = F.linear(features, weight, bias).view(len(features), *shape)
        return made

    def each(self, params: Mapping[str, Tensor], descriptors: Sequence[Tensor]) -> Iterator[Params]:
        """Yield the target weights ``[1, ...]`` for every descriptor ``[1, dim]``.

        The numbers equal those of one call per descriptor, to the last digit: a product's rounding
        depends on its number of rows. But each call would read all heads, a hundred times as large
        as the weights they make; here each part of them stays in the caches and serves everyone.
        """
        params = self.applied(params)
        features = [self._features(params, one) for one in descriptors]
        made: list[Params] = [{} for _ in features]
        rows = max(_IN_CACHE // self.width // _TOGETHER, 1) * _TOGETHER
        for name, shape in self.shapes:
            weight, bias = params[f"heads.{name}.weight"], params[f"heads.{name}.bias"]
            cut = [*zip(torch.split(weight, rows), torch.split(bias, rows), strict=True)]
            parts = each(lambda part: [F.linear(one, *part) for one in features], cut)
            for table, own in zip(made, zip(*parts, strict=True), strict=True):
                table[name] = torch.cat(own, dim=1).view(1, *shape)
        yield from made

    def _features(self, params: Mapping[str, Tensor], descriptors: Tensor) -> Tensor:
        features = descriptors
        for i in range(self.hidden + 1):
            features = F.relu(features) if i else features
            features = F.linear(features, params[f"trunk{i}.weight"], params[f"trunk{i}.bias"])
        return features

    def applied(self, params: Mapping[str, Tensor]) -> Params:
        """Return the weights as the layers apply them: normalised where ``spectral``."""
        if not self.spectral:
            return dict(params)
        return {k: v / _largest_singular_value(v) if v.dim() == 2 else v for k, v in params.items()}


def _largest_singular_value(weight: Tensor) -> Tensor:
    """Return the spectral norm of a matrix, 0-d.

    Computed from the smaller Gram matrix: heads have a thousand times as many rows as columns.
    """
    high, wide = weight.shape
    gram = weight.T @ weight if high > wide else weight @ weight.T
    smallest = torch.finfo(weight.dtype).tiny
    largest: Tensor = torch.linalg.eigvalsh(gram)[-1]
    return largest.clamp_min(smallest).sqrt()


def hypernetwork(task: Task, dim: int, names: Sequence[str] | None = None) -> Hypernetwork:
    """Return the hypernetwork that makes the weights of ``task.target``, or those in ``names``.

    Raises
    ------
    ValueError
        If these are more than the task's limit.
    """
    shapes = tuple((k, v) for k, v in task.shapes.items() if names is None or k in names)
    made = sum(prod(shape) for _, shape in shapes)
    if made > task.generated_limit:
        raise ValueError(
            f"the server's network would make {made:,} weights for each client, above "
            f"generated_limit={task.generated_limit:,}: take a smaller target, "
            "hold some of it by model.frozen, or set model.generated_limit if there is memory for "
            "a network a hundred times as large"
        )
    return Hypernetwork(shapes, dim, task.hidden, task.width, task.dtype, task.spectral)


def pull_back(
    made: Mapping[str, Tensor], deltas: Mapping[str, Tensor], leaves: list[Tensor]
) -> list[Tensor]:
    """Return the gradients that move the made weights along ``deltas``, in one backward pass.

    For leaves ``eta`` and made weights ``theta_i(eta)`` of clients ``i`` the result is
    ``- sum_i (d theta_i / d eta)^T delta_i``: a step against it moves every ``theta_i`` along
    ``delta_i``.
    """
    return pulled_back([*made.values()], [-deltas[name] for name in made], leaves)


def embedding_length(n_clients: int) -> int:
    """Return the published length of a descriptor, ``1 + floor(n / 4)``.

    >>> embedding_length(100)
    26
    """
    return 1 + n_clients // 4
