"""pFedHN: a hypernetwork makes each client's model from an embedding learnt for that client."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.hypernetworks import embedding_length, hypernetwork, pull_back
from latecomer.models.hyperparameters import count, number
from latecomer.models.local import LocalSGD, clip_by_norm, fine_tune
from latecomer.models.method import Method, Personalization, Predictor, Start, predict_with
from latecomer.models.optimizers import sgd, sgd_memory
from latecomer.models.schedule import Cohort
from latecomer.models.state import Params, State, detached, gather, leaves, nest, part, row, scatter
from latecomer.models.task import Clients, Samples, Task


@dataclass(frozen=True, kw_only=True)
class PFedHN(Method):
    """pFedHN (Shamsian, Navon, Fetaya, Chechik, ICML 2021).

    The change of the local weights is pulled back through the hypernetwork to its weights (mean
    over the cohort) and to each client's embedding. A newcomer fits a new embedding through the
    frozen hypernetwork for ``novel_rounds`` rounds of local training.

    Attributes
    ----------
    server_lr, server_momentum, server_weight_decay : float
        SGD of hypernetwork and embeddings (moved only when their client is drawn).
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step; ``clip_norm`` holds for server gradients too.
    embedding_dim : int or None
        Length of an embedding; None: ``1 + floor(n / 4)`` with n seen clients.
    novel_rounds, novel_steps, novel_batch_size : int
        Rounds, local steps a round and batch size of fitting a newcomer's embedding.
    """

    server_lr: float = number(1e-2, above=0)
    server_momentum: float = number(0.9, least=0, below=1)
    server_weight_decay: float = number(1e-3, least=0)
    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)
    embedding_dim: int | None = count(None)
    novel_rounds: int = count(20, least=0)
    novel_steps: int = count(50)
    novel_batch_size: int = count(64)

    name: ClassVar[str] = "pfedhn"
    paper: ClassVar[str] = "Shamsian et al., ICML 2021"
    personalization: ClassVar[Personalization] = "embedding"
    needs_labels: ClassVar[bool] = True

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw the hypernetwork, and standard normal embeddings."""
        dim = self.embedding_dim or embedding_length(len(clients))
        eta = hypernetwork(task, dim).initial(generator)
        own = {"embedding": torch.randn(len(clients), dim, generator=generator, dtype=task.dtype)}
        server = nest("hyper", eta) | nest("hyper_sgd", sgd_memory(eta))
        return State(server, own | nest("sgd", sgd_memory(own)))

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Make the cohort's weights, keeping the graph for the way back."""
        eta = leaves(part(state.server, "hyper"))
        embedding = leaves(gather(state.clients, cohort.members))["embedding"]
        with torch.enable_grad():
            made = _made(task, eta, embedding)
        return Start(detached(made), memory=(eta, embedding, made))

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Pull the changes back and take a step of SGD on hypernetwork and embeddings."""
        eta, embedding, made = start.memory
        *slopes, own = pull_back(made, uploads, [*eta.values(), embedding])
        slopes = clip_by_norm([slope / len(cohort) for slope in slopes], self.clip_norm)
        against = dict(zip(eta, slopes, strict=True))
        weights, memory = self._step(eta, against, part(state.server, "hyper_sgd"))
        server = nest("hyper", weights) | nest("hyper_sgd", memory)
        drawn = gather(state.clients, cohort.members)
        moved, memory = self._step({"embedding": embedding}, {"embedding": own}, part(drawn, "sgd"))
        kept = moved | nest("sgd", memory)
        return State(server, scatter(state.clients, cohort.members, kept))

    def serve(
        self,
        task: Task,
        state: State,
        index: int,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Make the model of the client's own embedding."""
        self.refuse_predictor(predictor)
        own = state.clients["embedding"][index][None]
        return predict_with(task, row(_made(task, part(state.server, "hyper"), own), 0))

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Fit a new embedding through the frozen hypernetwork."""
        self.refuse_predictor(predictor)
        eta = part(state.server, "hyper")
        dim = state.clients["embedding"].shape[1]
        fresh = torch.randn(1, dim, generator=generator, dtype=task.dtype)
        own = {"embedding": fresh.to(support.x.device)}
        memory, size = sgd_memory(own), (self.novel_steps, self.novel_batch_size)
        for _ in range(self.novel_rounds):
            point = leaves(own)
            with torch.enable_grad():
                made = _made(task, eta, point["embedding"])
            first = row(detached(made), 0)
            tuned = fine_tune(task, first, support, self.local, *size, generator)
            delta = {key: tuned[key] - value.detach() for key, value in made.items()}
            (slope,) = pull_back(made, delta, [point["embedding"]])
            own, memory = self._step(own, {"embedding": slope}, memory)
        return predict_with(task, row(_made(task, eta, own["embedding"]), 0))

    def _step(self, params: Params, slopes: Params, memory: Params) -> tuple[Params, Params]:
        rule = (self.server_lr, self.server_momentum, self.server_weight_decay)
        return sgd(params, slopes, memory, *rule)


def _made(task: Task, eta: Params, embedding: Tensor) -> Params:
    return hypernetwork(task, embedding.shape[1])(eta, embedding)
