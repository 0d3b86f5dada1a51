"""Shared by methods that train several models for all clients, of which each client takes its own.

A client judges the models by the losses of its labelled samples.
"""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from latecomer.models.engine.hyperparameters import size
from latecomer.models.engine.newcomers import Messages
from latecomer.models.families.averaged_weights import AveragedWeights
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import Params, State, nest, part
from latecomer.models.task.task import Task


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
