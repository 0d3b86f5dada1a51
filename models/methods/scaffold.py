"""SCAFFOLD: FedAvg whose local steps are corrected for the clients' drift."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.method import Context, Finish, Personalization, Start
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.task.client_axis import Entropy
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, add, gather, nest, part, subtract
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class Scaffold(AveragedWeights):
    r"""SCAFFOLD (Karimireddy et al., 2020), Algorithm 1 with option II.

    The server holds weights ``x`` and a control variate ``c``, every client one of its own,
    ``c_i``, all of them 0 at first. A client takes ``K`` local steps from ``y = x``,
    ``y -= local_lr * (gradient of L(y) - c_i + c)``, and then ``c_i' = c_i - c + (x - y) /
    (K * local_lr)``, the mean gradient that it saw. It sends ``y - x`` and ``c_i' - c_i``, twice
    as much as in FedAvg each way; the server adds ``server_lr`` times the cohort's mean ``y - x``
    to ``x``, and to ``c`` the sum of ``c_i' - c_i`` over the cohort divided by the number of all
    seen clients. Clients are weighted equally, whatever they hold. The first round is FedAvg's, for
    clients of one size. Every client, seen or not, is served ``x``.

    The paper's local step is plain: momentum 0, no weight decay, no clipping. Here these are
    settings. With momentum ``m``, ``K`` becomes ``sum over k of (1 - m^k) / (1 - m)``, so that
    ``c_i'`` stays a weighted mean of the gradients seen; weight decay counts as part of them, and
    what is clipped is the corrected gradient.

    Attributes
    ----------
    server_lr : float
        Step of the server.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    server_lr: float = number(1.0, above=0)

    name: ClassVar[str] = "scaffold"
    called: ClassVar[str] = "SCAFFOLD"
    paper: ClassVar[str] = "Karimireddy et al., ICML 2020"
    cites: ClassVar[tuple[str, ...]] = ("karimireddy2020",)
    look: ClassVar[int | None] = 22
    personalization: ClassVar[Personalization] = "global"
    needs_labels: ClassVar[bool] = False
    least_support: ClassVar[int] = 0
    newcomers_get: ClassVar[NewcomersGet] = "the one model"
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper",
            "Momentum, decay and clipping of the local step are settings (the paper's step has "
            "none), and the control variate's divisor follows the momentum.",
            "not known",
        ),
    )

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random global weights, and control variates that are 0."""
        state = super().init(task, clients, first, generator)
        weights = part(state.server, "target")
        control = {key: torch.zeros_like(value) for key, value in weights.items()}
        own = {key: value.new_zeros(len(clients), *value.shape) for key, value in weights.items()}
        return State(state.server | nest("control", control), nest("control", own))

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights and the server's control variate."""
        begun = super().start(task, state, clients, cohort, generator)
        own = gather(part(state.clients, "control"), cohort.members)
        return replace(begun, own=own, shared=part(state.server, "control"))

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        """Return the loss, plus a 0 whose gradient is the correction ``c - c_i``."""
        drift = subtract(context.shared, context.own)
        moves = [(drift[key] * (value - value.detach())).sum() for key, value in params.items()]
        return task.loss(params, batches[0].x, batches[0].labels()) + torch.stack(moves).sum()

    def cohort_slopes(
        self, params: Params, context: Context, batches: tuple[Samples, ...], entropy: Entropy
    ) -> tuple[Tensor, Params]:
        """Return the loss of every client, and its corrected gradient."""
        losses, slopes = entropy(params, batches[0])
        return losses, add(slopes, subtract(context.shared, context.own))

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the changes of weights and of the client's control variate; keep the variate."""
        changes, n_steps = subtract(final, start.params), cohort.rows.shape[1]
        m = self.local_momentum
        reach = self.local_lr * sum((1 - m**k) / (1 - m) for k in range(1, n_steps + 1))
        turned = {key: -start.shared[key] - value / reach for key, value in changes.items()}
        return Finish(
            uploads=nest("target", changes) | nest("control", turned),
            kept=nest("control", add(start.own, turned)),
        )

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Add the mean changes, the control variate's times the cohort's share of all clients."""
        means = {key: value.mean(dim=0) for key, value in uploads.items()}
        n_clients = len(next(iter(state.clients.values())))
        lengths = {"target": self.server_lr, "control": len(cohort) / n_clients}
        moved = {
            key: value + lengths[key.partition(".")[0]] * means[key]
            for key, value in state.server.items()
        }
        return State(moved, state.clients)
