"""What methods have in common that add up bounds of an objective instead of taking steps."""

from abc import ABC
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Context, Finish, Method, Start
from latecomer.models.engine.newcomers import Messages
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.mixed_effects import Supports, bounds, sums, supports
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.dense_slopes import Entropy
from latecomer.models.task.state import Params, State, gather, repeat
from latecomer.models.task.task import Task

_LEAST_LOG_TAU, _MOST_LOG_TAU = -6.0, 3.0


@dataclass(frozen=True, kw_only=True)
class SummedBounds(Method, ABC):
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
        now, before = sums(held, b, log_tau), gather(state.clients, cohort.members)
        heard = before["heard"]
        old = bounds(held, before["log_tau"]) * heard[:, None, None]
        changes = {
            "curvature": now.curvature - old,
            "pull": now.pull - before["pull"],
            "scale": now.scale - before["scale"],
        }
        own = {
            "pull": now.pull,
            "scale": now.scale,
            "log_tau": log_tau.expand(len(cohort)),
            "heard": torch.ones_like(heard),
        }
        sent = repeat({"coefficients": b, "log_tau": log_tau[None]}, len(cohort))
        return Start(sent, own={"loss": now.loss}, memory=Finish(changes, own))

    def objective(
        self,
        task: Task,
        params: Params,
        context: Context,
        batches: tuple[Samples, ...],
        step: int,
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
