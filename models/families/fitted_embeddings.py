"""Newcomers of pFedHN: an embedding is fitted through the frozen hypernetwork."""

from abc import ABC
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import choice, count, number
from latecomer.models.engine.local_steps import fine_tune
from latecomer.models.engine.optimizers import sgd, sgd_memory
from latecomer.models.families.embedded_clients import EmbeddedClients
from latecomer.models.generators.hypernetworks import pull_back
from latecomer.models.generators.target_sizes import place_of_novel
from latecomer.models.task.heads import join
from latecomer.models.task.state import Params, State, detached, leaves, move, part, row
from latecomer.models.task.targets import TARGETS
from latecomer.models.task.task import Samples, Task


@dataclass(frozen=True, kw_only=True)
class FittedEmbeddings(EmbeddedClients, ABC):
    """Embedded clients whose newcomers fit an embedding of their own.

    Attributes
    ----------
    novel_lr : float
        Rate of a newcomer's embedding; momentum and decay are the server's. With the hypernetwork
        at rest, 20 rounds at ``server_lr`` hardly move an embedding from where it was drawn, so a
        newcomer needs a rate of its own; ``train.tune_newcomers`` chooses one.
    novel_rounds, novel_steps, novel_batch_size : int
        Rounds, local steps a round and batch size of fitting a newcomer's embedding.
    novel_size : str
        Which of ``sizes`` newcomers get: ``largest``, the task's target, or a name.
    warm : str
        Where a newcomer's embedding begins. ``none``: standard normal, as seen clients' began.
        ``nearest`` (ours, in no paper): at the seen client's embedding whose model has the least
        loss on the newcomer's support.
    """

    novel_lr: float = number(0.3, above=0)
    novel_rounds: int = count(20, least=0)
    novel_steps: int = count(50)
    novel_batch_size: int = count(64)
    novel_size: str = choice("largest", *TARGETS)
    warm: str = choice("none", "nearest")

    @property
    def novel_place(self) -> int:
        """Which of ``sizes`` newcomers get."""
        return place_of_novel(self.novel_size, self.sizes)

    def fit(self, task: Task, state: State, support: Samples, generator: Generator) -> Params:
        """Fit a new embedding, and a fresh head if heads are personal, to a newcomer.

        The hypernetwork stays as it is. In every round all weights train on the support; their
        change moves the embedding, the head stays as trained.
        """
        eta, device = part(state.server, "hyper"), support.x.device
        dim, place = state.clients["embedding"].shape[1], self.novel_place
        fresh = torch.randn(1, dim, generator=generator, dtype=task.dtype).to(device)
        fitted, only = {"embedding": fresh}, torch.tensor([place], device=device)
        head: Params = {}
        if self.personal_layers:
            head = move(self.fresh_head(task, (self.sizes or ("",))[place], generator), device)
        if self.warm == "nearest":
            fitted = {"embedding": self.nearest(task, state, support)[None]}
        memory, rule = sgd_memory(fitted), (self.novel_lr, self.server_momentum)
        for _ in range(self.novel_rounds):
            point = leaves(fitted)
            with torch.enable_grad():
                made = self.made(task, eta, point["embedding"], only)
            first = join(task, row(detached(made), 0), head)
            trained = self.novel_steps, self.novel_batch_size, generator
            tuned = fine_tune(task, first, support, self.local, *trained)
            delta = {key: tuned[key] - value.detach() for key, value in made.items()}
            (slope,) = pull_back(made, delta, [point["embedding"]])
            slopes = {"embedding": slope}
            fitted, memory = sgd(fitted, slopes, memory, *rule, self.server_weight_decay)
            head = {name: tuned[name] for name in head}
        return join(task, row(self.made(task, eta, fitted["embedding"], only), 0), head)

    def nearest(self, task: Task, state: State, support: Samples) -> Tensor:
        """Return the embedding ``[dim]`` of the seen client whose model fits the support best."""
        table = state.clients["embedding"]
        with torch.no_grad():
            losses = [
                task.loss(self.weights_of(task, state, index), support.x, support.labels())
                for index in range(len(table))
            ]
        return table[int(torch.stack(losses).argmin())].clone()
