"""Bounds as training objectives: differentiable twins of ``latecomer.bounds``, and their losses.

Values equal the calculators' up to rounding. Gradients flow to every tensor argument. All risks and
losses lie in [0, 1]; ``n_*`` and ``delta`` are plain numbers.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from latecomer.bounds.binary_kl import kl_inverse_upper

P_MIN = 1e-4


def bounded_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean of ``-ln(p_min + (1 - p_min) p_y) / -ln p_min``, in [0, 1]; a 0-d tensor.

    Cross-entropy with probabilities held above ``p_min = 1e-4`` (Dziugaite and Roy, 2018), scaled
    so that its largest value is 1.

    >>> bounded_cross_entropy(torch.tensor([[0.0, 1e4]]), torch.tensor([0])).item()
    1.0
    """
    p = F.softmax(logits, dim=-1).gather(-1, y[..., None])[..., 0]
    return (-(P_MIN + (1 - P_MIN) * p).log() / -math.log(P_MIN)).mean()


def expected_error(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean of ``1 - p_y``, the error of labels drawn from the softmax; a 0-d tensor."""
    return 1 - F.softmax(logits, dim=-1).gather(-1, y[..., None]).mean()


class _KlInverse(torch.autograd.Function):
    """Upper inverse of the binary relative entropy, differentiated implicitly."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, budget: Tensor) -> Tensor:
        inverse = kl_inverse_upper(
            q=q.detach().cpu().numpy().astype(np.float64),
            budget=budget.detach().cpu().numpy().astype(np.float64),
        )
        p = torch.as_tensor(inverse, dtype=q.dtype, device=q.device)
        ctx.save_for_backward(q, p)
        return p

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        q, p = ctx.saved_tensors
        tiny = torch.finfo(q.dtype).eps
        q, p = q.clamp(tiny, 1 - tiny), p.clamp(tiny, 1 - tiny)
        # kl(q || p) = budget: its derivatives with respect to p and q.
        by_p = ((p - q) / (p * (1 - p))).clamp_min(tiny)
        by_q = (q / p).log() - ((1 - q) / (1 - p)).log()
        return grads[0] * -by_q / by_p, grads[0] / by_p


def kl_inverse(q: Tensor, budget: Tensor) -> Tensor:
    """Return the largest p with kl(q || p) <= budget, rounded up; differentiable in both.

    >>> q, budget = torch.tensor([0.05, 0.02], dtype=torch.float64)
    >>> round(kl_inverse(q, budget).item(), 10)
    0.1057499398
    """
    value: Tensor = _KlInverse.apply(q, budget)  # type: ignore[no-untyped-call]
    return value


def single_level_product(
    mean_neg_log1m: Tensor, kl_hyper: Tensor, *, n_clients: int, delta: float, n_priors: int = 1
) -> Tensor:
    """Return :func:`latecomer.bounds.single_level_product` with its gradient; a 0-d tensor."""
    price = (kl_hyper + math.log(n_priors / delta)) / n_clients
    return -torch.expm1(-(mean_neg_log1m + price))


def single_level_kl(
    empirical_risk: Tensor, kl_hyper: Tensor, *, n_clients: int, delta: float, n_priors: int = 1
) -> Tensor:
    """Return :func:`latecomer.bounds.single_level_kl` with its gradient; a 0-d tensor."""
    moment = math.log(2 * n_priors * math.sqrt(n_clients) / delta)
    return kl_inverse(empirical_risk, (kl_hyper + moment) / n_clients)


def pefll_b1(
    empirical_risk: Tensor,
    kl_hyper: Tensor,
    sum_kl: Tensor,
    *,
    n_clients: int,
    n_samples: int,
    delta: float,
) -> Tensor:
    """Return :func:`latecomer.bounds.pefll_b1` (variant ``maurer``) with its gradient; 0-d."""
    total = n_clients * n_samples
    clients = (kl_hyper + math.log(4 * math.sqrt(n_clients) / delta)) / (2 * n_clients)
    samples = (sum_kl + math.log(8 * total / delta) + 1) / (2 * total)
    return empirical_risk + clients.sqrt() + samples.sqrt()


def two_step_kl(
    empirical_risk: Tensor,
    kl_hyper: Tensor,
    sum_kl: Tensor,
    *,
    n_clients: int,
    n_samples: int,
    delta: float,
    client_share: float = 0.5,
) -> Tensor:
    """Return :func:`latecomer.bounds.two_step_kl` with its gradient; a 0-d tensor."""
    total = n_clients * n_samples
    within = math.log(2 * math.sqrt(total) / ((1 - client_share) * delta))
    between = math.log(2 * math.sqrt(n_clients) / (client_share * delta))
    inner = kl_inverse(empirical_risk, (sum_kl + within) / total)
    return kl_inverse(inner, (kl_hyper + between) / n_clients)
