"""Softmax regression with a random intercept a client, and methods that add up its bounds.

Logits are ``Q (B x~ + v)`` with ``x~ = (x, 1)`` and the ``C x (C - 1)`` matrix ``Q`` of an
orthonormal basis of the vectors that add up to 0, so no class is a reference. A client's intercept
is ``v ~ N(0, s I)``, ``s = tau^2 / 2``: the log odds of any two classes vary between clients with
standard deviation ``tau``, for two classes the usual one of a logistic regression's random
intercept.
"""

from abc import ABC
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Context, Deterministic, Finish, Start
from latecomer.models.engine.newcomers import Messages
from latecomer.models.engine.schedule import Cohort
from latecomer.models.task.client_axis import Entropy
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, gather, repeat, subtract
from latecomer.models.task.task import Task

_MODE_STEPS = 40
_LONGEST_STEP = 1.0
_STILL = 1e-12


@dataclass(frozen=True, eq=False)
class Supports:
    """Labelled samples of several clients; 0 throughout where there is none.

    Inputs ``x [c, m, D + 1]`` are float64, their last entry 1; labels are ``one_hot [c, m, C]``.
    """

    x: Tensor
    one_hot: Tensor


def supports(x: Tensor, y: Tensor, there: Tensor, n_classes: int) -> Supports:
    """Return padded samples: inputs ``[c, m, ...]``, labels and whether there is one ``[c, m]``."""
    flat = x.flatten(2).to(torch.float64)
    wide = torch.cat([flat, flat.new_ones(*flat.shape[:2], 1)], dim=2)
    one_hot = (y[..., None] == torch.arange(n_classes, device=y.device)).to(torch.float64)
    return Supports(wide * there[..., None], one_hot * there[..., None])


def contrasts(n_classes: int, device: torch.device) -> Tensor:
    """Return ``Q [C, C - 1]``, orthonormal columns that add up to 0 (Helmert's).

    >>> q = contrasts(3, torch.device("cpu"))
    >>> bool(torch.allclose(q.T @ q, torch.eye(2).double())), bool(q.sum(0).abs().max() < 1e-12)
    (True, True)
    """
    place = torch.arange(n_classes, dtype=torch.float64, device=device)[:, None]
    at = place[1:, 0]
    return ((place == at) * at - (place < at).double()) / (at * (at + 1)).sqrt()


def modes(fixed: Tensor, one_hot: Tensor, log_tau: Tensor) -> Tensor:
    """Return the clients' intercepts ``v [c, C - 1]`` of largest posterior density.

    Of ``B x~ [c, m, C - 1]``, labels ``[c, m, C]`` and ``log_tau``, ``[]`` or ``[c]``, by Newton's
    method with steps of length at most 1; a client without samples has 0.
    """
    v = fixed.new_zeros(len(fixed), fixed.shape[2])
    for _ in range(_MODE_STEPS):
        slope, curvature = _derivatives(fixed, one_hot, v, log_tau)
        step = torch.linalg.solve(curvature, slope)
        v = v - step * (_LONGEST_STEP / step.norm(dim=1, keepdim=True).clamp(min=_LONGEST_STEP))
        # Elsewhere looking would make the host wait.
        if v.device.type == "cpu" and float(step.abs().max()) < _STILL:
            break
    return v


def _derivatives(
    fixed: Tensor, one_hot: Tensor, v: Tensor, log_tau: Tensor
) -> tuple[Tensor, Tensor]:
    """Return gradient ``[c, C - 1]`` and Hessian of the negative log posterior of ``v``."""
    q = contrasts(one_hot.shape[2], fixed.device)
    there = one_hot.sum(2, keepdim=True)
    p = torch.softmax((fixed + v[:, None]) @ q.T, dim=2)
    precision = (2 * torch.exp(-2 * log_tau)).expand(len(v))
    slope = ((p * there - one_hot) @ q).sum(1) + precision[:, None] * v
    pq = p @ q
    weighted = q.T @ ((p * there).sum(1)[:, :, None] * q)
    identity = torch.eye(q.shape[1], dtype=q.dtype, device=q.device)
    outer: Tensor = torch.einsum("cmj,cml->cjl", pq * there, pq)
    return slope, weighted - outer + precision[:, None, None] * identity


def log_marginals(held: Supports, coefficients: Tensor, log_tau: Tensor) -> tuple[Tensor, Tensor]:
    """Return Laplace's negative log marginal likelihood a client ``[c]``, and the modes.

    ``-log p(y | v) + |v|^2 / 2s + (C - 1) / 2 log s + 1/2 log det H(v)`` at the mode ``v``, with
    ``H`` the Hessian of the first two terms. Its gradient in coefficients ``[c, C - 1, D + 1]`` and
    ``log_tau [c]`` is exact: the mode moves with them, by one Newton step from where it is.
    """
    fixed = torch.einsum("cmd,ckd->cmk", held.x, coefficients)
    with torch.no_grad():
        at = modes(fixed, held.one_hot, log_tau)
        curvature = _derivatives(fixed, held.one_hot, at, log_tau)[1]
    slope, _ = _derivatives(fixed, held.one_hot, at, log_tau)
    v = at - torch.linalg.solve(curvature, slope)
    hessian = _derivatives(fixed, held.one_hot, v, log_tau)[1]
    q = contrasts(held.one_hot.shape[2], fixed.device)
    losses = -(held.one_hot * torch.log_softmax((fixed + v[:, None]) @ q.T, dim=2)).sum((1, 2))
    variance = torch.exp(2 * log_tau) / 2
    prior = v.square().sum(1) / (2 * variance) + q.shape[1] / 2 * torch.log(variance)
    return losses + prior + torch.logdet(hessian) / 2, v


def bounds(held: Supports, log_tau: Tensor) -> Tensor:
    """Return the clients' bounds on the curvature ``[c, D + 1, D + 1]`` at ``log_tau [c]``."""
    gram = torch.einsum("cmd,cme->cde", held.x, held.x)
    column = held.x.sum(1)
    lent = torch.einsum("cd,ce->cde", column, column)
    size = held.one_hot.sum((1, 2)) + 4 * torch.exp(-2 * log_tau)
    return (gram - lent / size[:, None, None]) / 2


def sums(held: Supports, coefficients: Tensor, log_tau: Tensor) -> tuple[Params, Tensor]:
    """Return what clients add to the server's sums at coefficients and ``log tau``, and losses.

    Added are ``curvature [c, D + 1, D + 1]``, which bounds the objective's from above, the same for
    every class; ``pull [c, C - 1, D + 1]``, coefficients times curvature less the gradient; and
    ``scale [c, 2]``, curvature and pull of ``log tau``. A loss ``[c]`` is the mean cross-entropy on
    a client's samples at its own mode.

    The curvature is Böhning's bound (1992): a softmax's Hessian is at most half the identity within
    the contrasts. The client's intercept is profiled out of it. That of ``log tau`` is the
    information that the intercepts carry about it, by how much less they vary given the samples.
    """
    each = coefficients.expand(len(held.x), *coefficients.shape).clone().requires_grad_()
    scale = log_tau.expand(len(held.x)).clone().requires_grad_()
    with torch.enable_grad():
        objective, v = log_marginals(held, each, scale)
        slope, slope_scale = torch.autograd.grad(objective.sum(), (each, scale))
    with torch.no_grad():
        there = held.one_hot.sum(2)
        fixed = torch.einsum("cmd,kd->cmk", held.x, coefficients)
        curvature = bounds(held, scale)
        variance = torch.exp(2 * log_tau) / 2
        left = torch.linalg.inv(_derivatives(fixed, held.one_hot, v, log_tau)[1]) / variance
        known = (1 - torch.diagonal(left, dim1=1, dim2=2)).clamp(min=0.1)
        known = 2 * known.square().sum(1)
        q = contrasts(held.one_hot.shape[2], fixed.device)
        logs = torch.log_softmax((fixed + v[:, None]) @ q.T, dim=2)
        loss = -(held.one_hot * logs).sum((1, 2)) / there.sum(1).clamp(min=1)
        pull = coefficients @ curvature - slope
        scales = torch.stack([known, known * log_tau - slope_scale], dim=1)
    return {"curvature": curvature, "pull": pull, "scale": scales}, loss


_LEAST_LOG_TAU, _MOST_LOG_TAU = -6.0, 3.0


@dataclass(frozen=True, kw_only=True)
class SummedBounds(Deterministic, ABC):
    """A mixed model fitted by incremental bounds: clients send changes, the server holds sums.

    Attributes
    ----------
    ridge : float
        Penalty on squared coefficients of standardised features; intercepts have none.
    """

    ridge: float = number(0.01, above=0)

    @property
    def local(self) -> LocalSGD:
        """No step moves anything."""
        return LocalSGD(0.0)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Begin with equal odds and ``tau = 1``; no client has been heard."""
        task.refuse_tokens(self.name)
        width, rows = clients.x[0].numel() + 1, task.n_classes - 1
        how: Any = {"dtype": torch.float64, "device": clients.device}
        zero = torch.zeros(rows, width, **how)
        server = {
            "coefficients": zero,
            "log_tau": torch.zeros((), **how),
            "curvature": torch.zeros(width, width, **how),
            "pull": zero,
            "scale": torch.zeros(2, **how),
        }
        own = {
            "pull": torch.zeros(len(clients), rows, width, **how),
            "scale": torch.zeros(len(clients), 2, **how),
            "log_tau": torch.zeros(len(clients), **how),
            "heard": torch.zeros(len(clients), **how),
        }
        return State(server, own)

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send coefficients and ``tau``; clients compute how their terms change."""
        b, log_tau = state.server["coefficients"], state.server["log_tau"]
        held = _supports(task, clients, cohort)
        now, loss = sums(held, b, log_tau)
        before = gather(state.clients, cohort.members)
        heard = before["heard"]
        before["curvature"] = bounds(held, before["log_tau"]) * heard[:, None, None]
        own = {
            "pull": now["pull"],
            "scale": now["scale"],
            "log_tau": log_tau.expand(len(cohort)),
            "heard": torch.ones_like(heard),
        }
        sent = repeat({"coefficients": b, "log_tau": log_tau[None]}, len(cohort))
        return Start(sent, own={"loss": loss}, memory=Finish(subtract(now, before), own))

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        """Return the mean loss on all support, served; nothing moves it within the round."""
        still = 0 * (params["coefficients"].sum() + params["log_tau"].sum())
        return context.own["loss"] + still

    def cohort_slopes(
        self, params: Params, context: Context, batches: tuple[Samples, ...], entropy: Entropy
    ) -> tuple[Tensor, Params]:
        """Return the loss of every client; nothing moves it within the round."""
        still = {name: torch.zeros_like(value) for name, value in params.items()}
        return context.own["loss"], still

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Send how the client's terms changed, and keep what they are now."""
        made: Finish = start.memory
        return made

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Add the changes to the sums, and move to what minimises the bound."""
        total = {name: state.server[name] + change.sum(0) for name, change in uploads.items()}
        penalty = torch.full_like(total["curvature"][0], self.ridge)
        penalty[-1] = 0
        curvature = total["curvature"] + torch.diag(penalty)
        b = torch.linalg.solve(curvature, total["pull"].T).T.contiguous()
        log_tau = total["scale"][1] / total["scale"][0]
        before = state.server["log_tau"]
        log_tau = log_tau.clamp(before - 1, before + 1).clamp(_LEAST_LOG_TAU, _MOST_LOG_TAU)
        return State({**total, "coefficients": b, "log_tau": log_tau}, state.clients)

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return coefficients and ``tau``, sent once."""
        sent = state.server["coefficients"].numel() + state.server["log_tau"].numel()
        return Messages(1, sent, 0)


def _supports(task: Task, clients: Clients, cohort: Cohort) -> Supports:
    """Return all support of a cohort's clients."""
    sizes = clients.sizes_on_host[0]
    width = max(sizes[member] for member in cohort.on_host())
    rows = clients.support[cohort.members, :width]
    there = torch.arange(width, device=rows.device) < cohort.sizes[:, None]
    return supports(clients.inputs(rows), clients.labels(rows), there, task.n_classes)
