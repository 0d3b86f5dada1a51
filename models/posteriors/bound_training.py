"""Training on the right-hand side of a bound: its regularisers' strengths, round by round.

Both bounds grow with a risk and with squared norms. Their gradient is that of a risk plus ridges,
the strength of each ridge being a ratio of the bound's derivatives at the current weights. The loss
is bounded, as the theorems require: cross-entropy with probabilities held above a minimum,
in nats, so that it and the strengths are on the scale of the usual objective.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from latecomer.models.posteriors import bound_objectives as twins
from latecomer.models.task.objectives import squared_norm
from latecomer.models.task.state import Params, part, row
from latecomer.models.task.task import Task

DELTA = 0.05
LOSS_MAX = -math.log(twins.P_MIN)
"""Largest loss in nats."""
STRONGEST = 1.0
"""Largest strength of a ridge: stronger ones would overshoot 0 at usual learning rates."""


@dataclass(frozen=True)
class Norms:
    """Squared norms of hypernetwork, encoder and mean client weights, and their variances.

    ``theta`` is the mean over clients of the squared norm of a client's weights.
    """

    hyper: float
    encoder: float
    theta: float
    alpha_h: float
    alpha_v: float
    alpha_theta: float


@dataclass(frozen=True)
class Strengths:
    """Ridges equivalent to a bound: ``strength * squared norm`` added to the mean loss in nats."""

    hyper: float
    encoder: float
    theta: float


_BOUNDS: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {"bound": twins.pefll_b1, "bound_kl": twins.two_step_kl}
)


def bounded_loss(logits: Tensor, y: Tensor) -> Tensor:
    """Return the bounded cross-entropy in nats, in [0, ``LOSS_MAX``]; a 0-d tensor."""
    return LOSS_MAX * twins.bounded_cross_entropy(logits, y)


def strengths(
    objective: str, risk: float, norms: Norms, *, n_clients: int, n_samples: int
) -> Strengths:
    r"""Return the ridges whose gradient plus the risk's is the bound's up to one factor.

    With B(r, K, S) the bound, K the hyper-posterior's divergence and S the sum of the clients',
    the ridge of the hypernetwork is M (dB/dK) / (2 alpha_h dB/dr), that of a client's weights
    M n (dB/dS) / (2 alpha_theta dB/dr); M is the largest loss, as r is on the unit scale. No ridge
    is above ``STRONGEST``.

    Parameters
    ----------
    objective : {"bound", "bound_kl"}
        ``pefll_b1`` or ``two_step_kl``.
    risk : float
        Mean loss over ``LOSS_MAX``, in [0, 1].
    norms : Norms
    n_clients, n_samples : int
        Numbers of clients, and of samples of the smallest client.
    """
    nats = norms.hyper / (2 * norms.alpha_h) + norms.encoder / (2 * norms.alpha_v)
    clients_nats = n_clients * norms.theta / (2 * norms.alpha_theta)
    point = [
        torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (risk, nats, clients_nats)
    ]
    shared: dict[str, Any] = {"n_clients": n_clients, "n_samples": n_samples, "delta": DELTA}
    with torch.enable_grad():
        value = _BOUNDS[objective](*point, **shared)
        by_risk, by_hyper, by_own = (g.item() for g in torch.autograd.grad(value, point))

    def ridge(slope: float, alpha: float) -> float:
        # Near 1 the kl form hardly depends on the risk: only its divergences would count.
        steep = LOSS_MAX * slope / (2 * alpha)
        return steep / by_risk if steep < STRONGEST * by_risk else STRONGEST

    return Strengths(
        hyper=ridge(by_hyper, norms.alpha_h),
        encoder=ridge(by_hyper, norms.alpha_v),
        theta=ridge(n_clients * by_own, norms.alpha_theta),
    )


def cohort_strengths(
    objective: str,
    task: Task,
    tables: tuple[Params, Params, Params],
    batch: tuple[Tensor, Tensor],
    variances: tuple[float, float, float],
    sizes: tuple[int, int],
) -> Params:
    """Return the ridges of one round, with the risk and clients' norms of its cohort.

    Parameters
    ----------
    objective : {"bound", "bound_kl"}
    task : Task
    tables : tuple of dict
        The networks' weights (sections ``hyper`` and ``encoder``), the cohort's means, and
        the weights it was sent, ``[c, ...]``.
    batch : tuple of Tensor
        Inputs ``[c, b, ...]`` and labels ``[c, b]`` that give the risk.
    variances : tuple of float
        Of hypernetwork, encoder and client weights.
    sizes : tuple of int
        Numbers of clients, and of samples of the smallest client.

    Returns
    -------
    dict
        ``hyper``, ``encoder`` and ``theta``, 0-d.
    """
    (eta, made, sent), (x, y) = tables, batch
    with torch.no_grad():
        losses = [
            twins.bounded_cross_entropy(task.logits(row(sent, i), x[i]), y[i]).item()
            for i in range(len(x))
        ]
    norms = Norms(
        squared_norm(part(eta, "hyper")).item(),
        squared_norm(part(eta, "encoder")).item(),
        squared_norm(made).item() / len(x),
        *variances,
    )
    risk = sum(losses) / len(losses)
    slopes = strengths(objective, risk, norms, n_clients=sizes[0], n_samples=sizes[1])
    return {name: x.new_tensor(value) for name, value in asdict(slopes).items()}


def with_ridges(
    slopes: Sequence[Tensor], eta: Params, strengths: Mapping[str, Tensor], reach: float
) -> list[Tensor]:
    """Return the networks' gradient with their ridges' added.

    ``slopes`` are pulled back from the clients' changes, which are gradients times the ``reach`` of
    local steps: the ridges are put on the same scale.
    """
    return [
        slope + 2 * reach * strengths[name.split(".")[0]] * eta[name].detach()
        for name, slope in zip(eta, slopes, strict=True)
    ]
