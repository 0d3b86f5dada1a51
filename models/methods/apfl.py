"""APFL: every client mixes a model of its own with the global one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.engine.fine_tuning import Tuning
from latecomer.models.engine.hyperparameters import choice, number
from latecomer.models.engine.method import Context, Finish, Personalization, Start
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.global_weights import OWN, PersonalWeights, own_weights
from latecomer.models.task import client_axis
from latecomer.models.task.client_axis import Entropy
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, detached, nest, part, row
from latecomer.models.task.task import Task


def mixed(alpha: Tensor | float, v: Mapping[str, Tensor], w: Mapping[str, Tensor]) -> Params:
    """Return ``alpha * v + (1 - alpha) * w``; ``alpha [c]`` where ``v`` and ``w`` are ``[c, ...]``.

    >>> mixed(0.25, {"a": torch.tensor([4.0])}, {"a": torch.tensor([8.0])})
    {'a': tensor([7.])}
    """

    def share(value: Tensor) -> Tensor | float:
        if isinstance(alpha, Tensor) and alpha.dim() == 1:
            return alpha.view(-1, *(1,) * (value.dim() - 1))
        return alpha

    return {k: share(value) * value + (1 - share(value)) * w[k] for k, value in v.items()}


@dataclass(frozen=True, kw_only=True)
class APFL(PersonalWeights):
    r"""APFL (Deng, Kamani, Mahdavi, 2020), Algorithm 1.

    A client is served ``alpha * v + (1 - alpha) * w``, of its own ``v`` and the global ``w``. In a
    local step ``w`` follows the gradient of ``L(w)`` as in FedAvg, and ``v`` that of
    ``L(alpha * v + (1 - alpha) * w)`` with respect to ``v``, both taken before the step. Only ``w``
    is averaged. With ``alpha=0`` the method is FedAvg, with ``alpha=1`` seen clients train
    alone; both with ``mixture="fixed"``.

    The adaptive ``alpha`` of a drawn client moves once a round, as in the published code, by
    ``alpha -= local_lr * <v - w, gradient of L(alpha * v + (1 - alpha) * w)>``, clipped to [0, 1]:
    at the ``v`` and ``w`` that the round began with, on its first minibatch, without momentum.
    The new value holds from the next round on.

    Departures: the published code mixes logits instead of weights, takes ``v``'s gradient after
    ``w`` has stepped, and also shrinks ``alpha`` by 2% per unit of rate; the paper states none of
    this. Momentum, weight decay and clipping are those of the local step. A seen client is served
    its ``v`` with the newest ``w``. For a new client, which the paper does not cover, ``alpha`` is
    as set and ``v`` takes ``finetune_steps`` steps from ``v = w`` with ``w`` fixed.

    Attributes
    ----------
    alpha : float
        Share of ``v``, from 0 to 1; its first value if it is adaptive.
    mixture : str
        ``adaptive`` or ``fixed``.
    local_lr, local_momentum, local_weight_decay, clip_norm, novel_lr, finetune_steps,
    finetune_batch_size
        As for :class:`~latecomer.models.families.global_weights.PersonalWeights`.
    """

    alpha: float = number(0.5, least=0, most=1)
    mixture: str = choice("adaptive", "fixed")

    name: ClassVar[str] = "apfl"
    called: ClassVar[str] = "APFL"
    paper: ClassVar[str] = "Deng, Kamani, Mahdavi, 2020, arXiv:2003.13461"
    cites: ClassVar[tuple[str, ...]] = ("deng2020",)
    look: ClassVar[int | None] = 20
    personalization: ClassVar[Personalization] = "finetune"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "Weights are mixed, as in the paper, where the code mixes logits; v's gradient is "
            "taken before w steps; alpha does not shrink by 2% per unit of rate.",
            "not known",
        ),
        (
            "paper and code",
            "A new client, whom neither covers, trains v from v = w with w fixed.",
            "yes, by how much is not known: it alone makes a new client's model",
        ),
    )

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random weights, the same for all, and every client's ``alpha``."""
        state = super().init(task, clients, first, generator)
        shares = torch.full((len(clients),), float(self.alpha), dtype=task.dtype)
        return State(state.server, state.clients | {"alpha": shares})

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights; clients add their own weights and ``alpha``."""
        begun = super().start(task, state, clients, cohort, generator)
        rows, alpha = cohort.rows[:, 0, 0], state.clients["alpha"][cohort.members]
        first = clients.inputs(rows), clients.labels(rows)
        return replace(begun, own={"alpha": alpha}, memory=first)

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        """Return the loss at ``w`` plus that of the mixture, whose gradient moves only ``v``."""
        x, y = batches[0].x, batches[0].labels()
        w = {name: params[name] for name in task.shapes}
        mixture = mixed(context.own["alpha"], part(params, OWN), detached(w))
        return task.loss(w, x, y) + task.loss(mixture, x, y)

    def cohort_slopes(
        self, params: Params, context: Context, batches: tuple[Samples, ...], entropy: Entropy
    ) -> tuple[Tensor, Params]:
        """Return the objective of every client, and its gradient."""
        v, alpha = part(params, OWN), context.own["alpha"]
        w = {name: params[name] for name in v}
        at_w, of_w = entropy(w, batches[0])
        at_mixture, slopes = entropy(mixed(alpha, v, w), batches[0])
        # The mixture moves by alpha times what v moves.
        of_v = {k: s * alpha.view(-1, *(1,) * (s.dim() - 1)) for k, s in slopes.items()}
        return at_w + at_mixture, of_w | nest(OWN, of_v)

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the change of ``w``, keep ``v`` and ``alpha``."""
        done = super().finish(task, state, cohort, start, final)
        alpha = start.own["alpha"]
        if self.mixture == "adaptive":
            point = alpha.detach().requires_grad_()
            with torch.enable_grad():
                mixture = mixed(point, part(start.params, OWN), start.params)
                (slope,) = torch.autograd.grad(_losses(task, mixture, start).sum(), [point])
            alpha = (alpha - self.local_lr * slope).clamp(0, 1)
        return replace(done, kept=done.kept | {"alpha": alpha})

    def served(self, task: Task, state: State, index: int) -> Params:
        """Return the client's mixture."""
        alpha = state.clients["alpha"][index]
        return mixed(alpha, own_weights(state, index), part(state.server, "target"))

    def tuning(self, task: Task, state: State) -> Tuning:
        """Return the training of a ``v`` from the global weights, which it is mixed with."""
        rule = self.local.at(self.novel_lr)
        mixture = partial(mixed, self.alpha, w=part(state.server, "target"))
        return Tuning(rule, self.finetune_steps, self.finetune_batch_size, applied=mixture)


def _losses(task: Task, weights: Params, start: Start) -> Tensor:
    """Return each client's loss on its first batch, ``[c]``."""
    if not task.one_by_one:
        return client_axis.losses(task.target, weights, *start.memory)
    each = zip(*start.memory, strict=True)
    return torch.stack([task.loss(row(weights, at), x, y) for at, (x, y) in enumerate(each)])
