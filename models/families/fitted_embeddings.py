"""New clients of pFedHN: an embedding is fitted through the frozen hypernetwork."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from latecomer.models.engine.fine_tuning import Tuning, tune_each
from latecomer.models.engine.hyperparameters import choice, count, number, size
from latecomer.models.engine.newcomers import Messages, one_model
from latecomer.models.engine.optimizers import sgd, sgd_memory
from latecomer.models.families.embedded_clients import EmbeddedClients
from latecomer.models.families.trained_newcomers import TrainedNewcomers
from latecomer.models.generators.hypernetworks import pull_back
from latecomer.models.generators.target_sizes import place_of_novel
from latecomer.models.task.clients import Samples
from latecomer.models.task.heads import body_names, join
from latecomer.models.task.state import (
    Params,
    State,
    detached,
    leaves,
    move,
    part,
    rows,
    stack,
    subtract,
)
from latecomer.models.task.targets import TARGETS
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class FittedEmbeddings(TrainedNewcomers, EmbeddedClients, ABC):
    """Embedded clients whose new clients fit an embedding of their own.

    Attributes
    ----------
    novel_lr : float
        Rate of a new client's embedding; momentum and decay are the server's. With the hypernetwork
        frozen, 20 rounds at ``server_lr`` hardly move an embedding from where it was drawn, so a
        new client needs a rate of its own; ``train.tune_newcomers`` chooses one.
    novel_rounds, novel_steps, novel_batch_size : int
        Rounds, local steps a round and batch size of fitting a new client's embedding.
    novel_size : str
        Which of ``sizes`` new clients get: ``largest``, the task's target, or a name.
    warm : str
        Where a new client's embedding begins. ``none``: standard normal, as seen clients' began.
        ``nearest`` (ours, in no paper): at the seen client's embedding whose model has the least
        loss on the new client's support.
    """

    novel_lr: float = number(0.3, above=0)
    novel_rounds: int = count(20, least=0)
    novel_steps: int = count(50)
    novel_batch_size: int = size(64)
    novel_size: str = choice("largest", *TARGETS)
    warm: str = choice("none", "nearest")

    @property
    def novel_place(self) -> int:
        """Which of ``sizes`` new clients get."""
        return place_of_novel(self.novel_size, self.sizes)

    def own_model(self, task: Task, state: State, index: int) -> Params | None:
        """Return the weights made from the client's own embedding, with its own head if any."""
        return self.weights_of(task, state, index)

    def fit_each(
        self,
        task: Task,
        state: State,
        supports: Sequence[Samples],
        generators: Sequence[Generator],
    ) -> list[Params]:
        """Fit an embedding, and a fresh head if heads are personal, to each new client.

        The hypernetwork stays as it is. In every round all weights train on the support; their
        change moves the embedding, the head stays as trained.
        """
        eta, device = part(state.server, "hyper"), supports[0].x.device
        fresh, heads = self._drawn(task, state, generators)
        fitted = {"embedding": fresh.to(device)}
        heads = [move(head, device) for head in heads]
        size = torch.full((len(supports),), self.novel_place, device=device)
        if self.warm == "nearest":
            fitted = {"embedding": torch.stack([self.nearest(task, state, s) for s in supports])}
        memory, rule = sgd_memory(fitted), (self.novel_lr, self.server_momentum)
        how = Tuning(self.local, self.novel_steps, self.novel_batch_size)
        for _ in range(self.novel_rounds):
            point = leaves(fitted)
            with torch.enable_grad():
                made = self.made(task, eta, point["embedding"], size)
            bodies = rows(detached(made))
            first = [join(task, *both) for both in zip(bodies, heads, strict=True)]
            tuned = tune_each(task, first, supports, how, generators)
            delta = subtract(stack([{key: one[key] for key in made} for one in tuned]), made)
            (slope,) = pull_back(made, detached(delta), [point["embedding"]])
            slopes = {"embedding": slope}
            fitted, memory = sgd(fitted, slopes, memory, *rule, self.server_weight_decay)
            heads = [{name: one[name] for name in heads[0]} for one in tuned]
        bodies = rows(self.made(task, eta, fitted["embedding"], size))
        return [join(task, *both) for both in zip(bodies, heads, strict=True)]

    def _drawn(
        self, task: Task, state: State, generators: Sequence[Generator]
    ) -> tuple[Tensor, list[Params]]:
        """Draw every new client's first embedding, ``[c, dim]``, and its personal layers."""
        dim, size = state.clients["embedding"].shape[1], (self.sizes or ("",))[self.novel_place]
        fresh, heads = [], []
        for generator in generators:
            fresh.append(torch.randn(1, dim, generator=generator, dtype=task.dtype))
            personal = self.personal_layers
            heads.append(self.fresh_head(task, size, generator) if personal else {})
        return torch.cat(fresh), heads

    def nearest(self, task: Task, state: State, support: Samples) -> Tensor:
        """Return the embedding ``[dim]`` of the seen client whose model fits the support best."""
        table = state.clients["embedding"]
        with torch.no_grad():
            losses = [
                task.loss(self.weights_of(task, state, index), support.x, support.labels())
                for index in range(len(table))
            ]
        return table[int(torch.stack(losses).argmin())].clone()

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return weights down and their change up in every round, and the model at the end."""
        made = one_model(task, body_names(task, self.personal_layers)).down
        return Messages(self.novel_rounds, (self.novel_rounds + 1) * made, self.novel_rounds * made)
