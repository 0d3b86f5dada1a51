"""ODPFL-HN: a hypernetwork makes a model from a client's unlabelled data."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.hypernetworks import hypernetwork, pull_back
from latecomer.models.hyperparameters import count, number
from latecomer.models.local import LocalSGD, clip_by_norm
from latecomer.models.method import Method, Personalization, Predictor, Start, predict_with
from latecomer.models.optimizers import sgd, sgd_memory
from latecomer.models.schedule import Cohort
from latecomer.models.set_encoders import deep_sets
from latecomer.models.state import Params, State, detached, leaves, nest, part, row
from latecomer.models.task import Clients, Samples, Task

NETWORKS = ("hyper", "encoder")


@dataclass(frozen=True, kw_only=True)
class ODPFLHN(Method):
    """ODPFL-HN (Amosy, Eyal, Chechik, 2021), trained end to end.

    A set encoder (DeepSets) sees a client's inputs and no labels; the hypernetwork turns its
    descriptor into weights; their change by local training is pulled back through both networks,
    once a round for the whole cohort. Serving, of seen and new clients alike, is one forward pass
    over the unlabelled support. In training the descriptor comes from one batch.

    Attributes
    ----------
    server_lr, server_momentum, server_weight_decay : float
        SGD of hypernetwork and encoder.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step; ``clip_norm`` holds for server gradients too.
    descriptor_dim : int or None
        Length of a descriptor; None: ``floor(n / 4)`` with n seen clients, at least 1.
    pooled_units : int
        Units of the encoder, half mean- and half max-pooled.
    """

    server_lr: float = number(1e-2, above=0)
    server_momentum: float = number(0.9, least=0, below=1)
    server_weight_decay: float = number(1e-3, least=0)
    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)
    descriptor_dim: int | None = count(None)
    pooled_units: int = count(200, least=2)

    name: ClassVar[str] = "odpfl_hn"
    paper: ClassVar[str] = "Amosy, Eyal, Chechik, 2021, arXiv:2111.05745"
    personalization: ClassVar[Personalization] = "unlabelled"
    needs_labels: ClassVar[bool] = False

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw both networks."""
        dim = self.descriptor_dim or max(1, len(clients) // 4)
        hyper = hypernetwork(task, dim).initial(generator)
        encoder = deep_sets(task, dim, self.pooled_units).initial(generator)
        eta = nest("hyper", hyper) | nest("encoder", encoder)
        return State(eta | nest("sgd", sgd_memory(eta)))

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Make the cohort's weights from a batch of inputs each, keeping the graph."""
        eta = leaves(self._weights(state))
        with torch.enable_grad():
            made = self._made(task, eta, clients.inputs(cohort.descriptor_rows))
        return Start(detached(made), memory=(eta, made))

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Pull the changes back through both networks and take a step of SGD."""
        eta, made = start.memory
        slopes = [slope / len(cohort) for slope in pull_back(made, uploads, [*eta.values()])]
        against = dict(zip(eta, clip_by_norm(slopes, self.clip_norm), strict=True))
        rule = (self.server_lr, self.server_momentum, self.server_weight_decay)
        moved, memory = sgd(eta, against, part(state.server, "sgd"), *rule)
        return State(moved | nest("sgd", memory), state.clients)

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Make the client's weights from the inputs of its whole support."""
        self.refuse_predictor(predictor)
        with torch.no_grad():
            made = self._made(task, self._weights(state), support.x[None])
        return predict_with(task, row(made, 0))

    def _weights(self, state: State) -> Params:
        return {k: v for k, v in state.server.items() if k.split(".")[0] in NETWORKS}

    def _made(self, task: Task, eta: Params, x: Tensor) -> Params:
        dim = eta["hyper.trunk0.weight"].shape[1]
        descriptors = deep_sets(task, dim, self.pooled_units)(part(eta, "encoder"), x)
        return hypernetwork(task, dim)(part(eta, "hyper"), descriptors)
