"""Gaussian posteriors N(mean, alpha I) over tables of weights."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from latecomer.models.task.state import Params


def sample(params: Mapping[str, Tensor], alpha: float, generator: torch.Generator) -> Params:
    """Draw from N(params, alpha I), reparameterised: gradients reach ``params`` unchanged.

    ``alpha`` is a variance, at least 0; at 0 the values are unchanged. Noise is drawn where the
    values lie: millions of numbers take a GPU less time than sending them there would.
    """
    if alpha == 0:
        return dict(params)
    device = next((value.device for value in params.values()), torch.device("cpu"))
    spread, drawn = alpha**0.5, on_device(generator, device)

    def noise(value: Tensor) -> Tensor:
        return torch.randn(value.shape, generator=drawn, dtype=value.dtype, device=device)

    return {key: value + spread * noise(value) for key, value in params.items()}


def on_device(generator: torch.Generator, device: torch.device) -> torch.Generator:
    """Return a generator that draws on ``device``: on a GPU a new one, elsewhere ``generator``.

    The new one's seed is the next number of ``generator``, so that each draw has an address of its
    own there too: one seed gives the same noise again on that GPU, and other noise than on the CPU.
    """
    if device.type != "cuda":
        return generator
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    return torch.Generator(device).manual_seed(seed)


def in_ball(params: Mapping[str, Tensor], radius: float) -> Params:
    """Project tables ``[c, ...]`` onto the ball of norms up to ``radius`` around 0, row by row.

    Each row becomes the nearest point of the ball, keeping its graph; one inside is unchanged.

    >>> in_ball({"a": torch.tensor([[3.0], [0.3]]), "b": torch.tensor([[4.0], [0.4]])}, 1.0)["a"]
    tensor([[0.6000],
            [0.3000]])
    """
    squares = [value.flatten(1).square().sum(1) for value in params.values()]
    norms = torch.stack(squares).sum(0).sqrt()
    factors = radius / norms.clamp(min=radius)
    return {
        key: value * factors.view(-1, *(1,) * (value.dim() - 1)) for key, value in params.items()
    }


@dataclass(frozen=True, eq=False)
class PosteriorNorms:
    """Norms and variances in stochastic PeFLL's Kullback-Leibler terms; priors have mean 0.

    The hyper-posterior's divergence is ``eta_h_squared / (2 alpha_h) + eta_v_squared /
    (2 alpha_v)`` nats, client ``i``'s is ``theta_squared[i] / (2 alpha_theta)``.

    Attributes
    ----------
    eta_h_squared, eta_v_squared : float
        Squared norm of hypernetwork and encoder weights.
    theta_squared : ndarray
        Squared norm of each client's mean target weights, float64 ``[n]``.
    alpha_h, alpha_v, alpha_theta : float
        Variances.
    """

    eta_h_squared: float
    eta_v_squared: float
    theta_squared: NDArray[np.float64]
    alpha_h: float
    alpha_v: float
    alpha_theta: float
