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
from latecomer.models.state import (
    Params,
    State,
    detached,
    gather,
    leaves,
    nest,
    part,
    row,
    scatter,
    subtract,
)
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
        SGD of the hypernetwork and of the embeddings (moved only when their client is drawn).
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
        weights, kept = sgd(eta, slopes, part(state.server, "hyper_sgd"), **self._server)
        memory = gather(part(state.clients, "sgd"), cohort.members)
        moved, moment = sgd({"embedding": embedding}, [own], memory, **self._server)
        rows = moved | nest("sgd", moment)
        server = nest("hyper", weights) | nest("hyper_sgd", kept)
        return State(server, scatter(state.clients, cohort.members, rows))

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
        own = {"embedding": torch.randn(1, dim, generator=generator, dtype=task.dtype)}
        own["embedding"] = own["embedding"].to(support.x.device)
        memory = sgd_memory(own)
        for _ in range(self.novel_rounds):
            point = leaves(own)
            with torch.enable_grad():
                made = _made(task, eta, point["embedding"])
            first = row(detached(made), 0)
            tuned = fine_tune(
                task,
                first,
                support,
                n_steps=self.novel_steps,
                batch_size=self.novel_batch_size,
                rule=self.local,
                generator=generator,
            )
            delta = {key: value[None] for key, value in subtract(tuned, first).items()}
            slopes = pull_back(made, delta, [point["embedding"]])
            own, memory = sgd(own, slopes, memory, **self._server)
        return predict_with(task, row(_made(task, eta, own["embedding"]), 0))

    @property
    def _server(self) -> dict[str, float]:
        return {
            "lr": self.server_lr,
            "momentum": self.server_momentum,
            "weight_decay": self.server_weight_decay,
        }


def _made(task: Task, eta: Params, embedding: Tensor) -> Params:
    return hypernetwork(task, embedding.shape[1])(eta, embedding)
