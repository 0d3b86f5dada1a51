"""What methods share whose server averages weights: one set, several, or personal ones beside it.

Where there are several, a client judges them by the losses of its labelled samples.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from latecomer.models.engine.hyperparameters import count, number, size
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Deterministic, Finish, Predictor, Start, predict_with
from latecomer.models.engine.newcomers import Messages
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.trained_newcomers import FineTuned
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import (
    Params,
    State,
    add,
    gather,
    nest,
    part,
    repeat,
    row,
    subtract,
    weighted_mean,
)
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class GlobalWeights(Deterministic, ABC):
    """Global weights, sent to everyone and moved by the cohort's mean change."""

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random global weights."""
        return State(nest("target", task.initial(generator)))

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights, which the objective finds in ``context.shared`` too."""
        weights = part(state.server, "target")
        return Start(repeat(weights, len(cohort)), shared=weights)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Add the mean change, weighted by support sizes, of whatever was uploaded."""
        weights, mean = part(state.server, "target"), weighted_mean(uploads, cohort.sizes)
        moved = add({name: weights[name] for name in mean}, mean)
        return State(nest("target", {**weights, **moved}), state.clients)

    def newcomers_model(self, task: Task, state: State, support: Samples) -> Predictor:
        """Return what serves a client that never trained; by default the global model."""
        return predict_with(task, part(state.server, "target"))


@dataclass(frozen=True, kw_only=True)
class AveragedWeights(GlobalWeights, ABC):
    """Global weights whose local step is SGD with momentum.

    Attributes
    ----------
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)


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


@dataclass(frozen=True, kw_only=True)
class SeveralModels(AveragedWeights, ABC):
    """Models that the server holds side by side, drawn apart from each other.

    Attributes
    ----------
    n_models : int
        Number of models.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    n_models: int = size(3)

    def drawn(self, task: Task, generator: Generator) -> Params:
        """Return random weights of all models, as the server keeps them."""
        table: Params = {}
        for model in range(self.n_models):
            table |= nest(f"models.{model}", task.initial(generator))
        return table

    def models(self, state: State) -> list[Params]:
        """Return every model's weights."""
        return [part(state.server, f"models.{model}") for model in range(self.n_models)]

    def judged(self, task: Task, state: State, support: Samples) -> Tensor:
        """Return the losses ``[n, n_models]`` of all models on each of a client's samples."""
        with torch.no_grad():
            return losses_of(task, self.models(state), support).T

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return all models, sent once."""
        return Messages(1, self.n_models * task.n_parameters, 0)


def losses_of(task: Task, models: Sequence[Params], batch: Samples) -> Tensor:
    """Return the cross-entropy ``[n_models, B]`` of models on labelled samples, in nats."""
    y = batch.labels()
    each = [F.cross_entropy(task.logits(one, batch.x), y, reduction="none") for one in models]
    return torch.stack(each)
