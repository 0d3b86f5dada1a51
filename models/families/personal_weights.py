"""Shared by methods whose clients train weights of their own beside the global ones."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Generator

from latecomer.models.engine.hyperparameters import count, number, size
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Finish, Start
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.averaged_weights import AveragedWeights
from latecomer.models.families.trained_newcomers import FineTuned
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import Params, State, gather, nest, part, repeat, row, subtract
from latecomer.models.task.task import Task

OWN = "own."
"""Section of a client's own weights ``v``, beside those of the global ``w``: its dot makes names
that no module of a net can have, ``own..weight``."""
_KEPT = "own"
"""Section of them where they are kept, without others beside them."""


@dataclass(frozen=True, kw_only=True)
class PersonalWeights(FineTuned, AveragedWeights, ABC):
    """Global weights ``w`` as in FedAvg, and weights ``v`` that every client keeps.

    Both take all local steps of a round side by side, on the same minibatches; their gradients
    are clipped separately. Every ``v`` begins at the first ``w``. A seen client that was
    never drawn is served as a new client.

    Attributes
    ----------
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step, of ``w`` and of ``v``.
    novel_lr : float or None
        Rate of training a new client; None: ``local_lr``.
    finetune_steps, finetune_batch_size : int
        Steps of a new client's own weights, 0 for none, and their batch size.
    """

    novel_lr: float | None = number(None, above=0)
    finetune_steps: int = count(50, least=0)
    finetune_batch_size: int = size(32)

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return replace(super().local, apart=OWN)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random global weights; every client's own weights begin there."""
        state, n = super().init(task, clients, first, generator), len(clients)
        owned = repeat(part(state.server, "target"), n)
        owned = {key: value.contiguous() for key, value in owned.items()}
        return State(state.server, nest(_KEPT, owned) | {"has_own": torch.zeros(n) > 0})

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights; clients put their own beside them."""
        begun = super().start(task, state, clients, cohort, generator)
        owned = gather(part(state.clients, _KEPT), cohort.members)
        return replace(begun, params=begun.params | nest(OWN, owned))

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the change of the global weights, keep the client's own."""
        changes = subtract({name: final[name] for name in task.shapes}, start.params)
        owned = nest(_KEPT, part(final, OWN)) | {"has_own": cohort.members >= 0}
        return Finish(uploads=changes, kept=owned)

    @abstractmethod
    def served(self, task: Task, state: State, index: int) -> Params:
        """Return the weights that serve seen client ``index``, which has trained."""

    def own_model(self, task: Task, state: State, index: int) -> Params | None:
        """Return the client's personal model, if it ever trained."""
        return self.served(task, state, index) if state.clients["has_own"][index] else None


def own_weights(state: State, index: int) -> Params:
    """Return the own weights of seen client ``index``."""
    return row(part(state.clients, _KEPT), index)
