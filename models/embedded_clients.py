"""Training a hypernetwork together with an embedding of every seen client, as in pFedHN."""

from abc import ABC
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from latecomer.models.heads import body_names, head_names, join
from latecomer.models.hypernetworks import embedding_length, hypernetwork, pull_back
from latecomer.models.hyperparameters import count, number
from latecomer.models.local import LocalSGD, clip_by_norm, fine_tune
from latecomer.models.method import Finish, Method, Predictor, Start, predict_with
from latecomer.models.optimizers import sgd, sgd_memory
from latecomer.models.schedule import Cohort
from latecomer.models.state import (
    Params,
    State,
    detached,
    gather,
    leaves,
    move,
    nest,
    part,
    repeat,
    row,
    scatter,
    subtract,
)
from latecomer.models.task import Clients, Samples, Task


@dataclass(frozen=True, kw_only=True)
class EmbeddedClients(Method, ABC):
    """A hypernetwork makes each client's weights from an embedding learnt for that client.

    The change of the local weights is pulled back through the hypernetwork to its weights (mean
    over the cohort) and to each client's embedding. Where a head is personal, the hypernetwork
    makes the body only, and every client trains and keeps a head of its own.

    Attributes
    ----------
    server_lr, server_momentum, server_weight_decay : float
        SGD of hypernetwork and embeddings (moved only when their client is drawn).
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step; ``clip_norm`` holds for server gradients too.
    embedding_dim : int or None
        Length of an embedding; None: ``1 + floor(n / 4)`` with n seen clients.
    """

    server_lr: float = number(1e-2, above=0)
    server_momentum: float = number(0.9, least=0, below=1)
    server_weight_decay: float = number(1e-3, least=0)
    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)
    embedding_dim: int | None = count(None)

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)

    @property
    def personal_layers(self) -> int:
        """Number of last layers that the hypernetwork does not make; none, here."""
        return 0

    def fixed_embeddings(self, task: Task, clients: Clients) -> Tensor | None:
        """Return embeddings ``[n, dim]`` that are given and not learnt; None, here: all learnt."""
        return None

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw the hypernetwork, standard normal embeddings, and a head that all begin with."""
        fixed = self.fixed_embeddings(task, clients)
        dim = self.embedding_dim or embedding_length(len(clients))
        dim = dim if fixed is None else fixed.shape[1]
        eta = hypernetwork(task, dim, self._made_names(task)).initial(generator)
        server = nest("hyper", eta) | nest("hyper_sgd", sgd_memory(eta))
        if fixed is None:
            drawn = torch.randn(len(clients), dim, generator=generator, dtype=task.dtype)
            own = {"embedding": drawn, "sgd.embedding": torch.zeros_like(drawn)}
        else:
            own = {"embedding": fixed}
        heads: Params = {}
        if self.personal_layers:
            fresh = task.initial(generator)
            head = {name: fresh[name] for name in head_names(task, self.personal_layers)}
            heads = {k: v.contiguous() for k, v in repeat(head, len(clients)).items()}
        return State(server, own | nest("head", heads))

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Make the cohort's weights, keeping the graph for the way back, and add own heads."""
        eta = leaves(part(state.server, "hyper"))
        embedding = state.clients["embedding"][cohort.members].requires_grad_()
        with torch.enable_grad():
            made = self.made(task, eta, embedding)
        heads = gather(part(state.clients, "head"), cohort.members)
        return Start(join(task, detached(made), heads), memory=(eta, embedding, made))

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the change of what was made, keep the head."""
        made = {name: final[name] for name in self._made_names(task)}
        head = {name: final[name] for name in head_names(task, self.personal_layers)}
        return Finish(uploads=subtract(made, start.params), kept=nest("head", head))

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Pull the changes back and take a step of SGD on hypernetwork and learnt embeddings."""
        eta, embedding, made = start.memory
        *slopes, own = pull_back(made, uploads, [*eta.values(), embedding])
        slopes = clip_by_norm([slope / len(cohort) for slope in slopes], self.clip_norm)
        against = dict(zip(eta, slopes, strict=True))
        weights, memory = self._step(eta, against, part(state.server, "hyper_sgd"))
        server = nest("hyper", weights) | nest("hyper_sgd", memory)
        memory = gather(part(state.clients, "sgd"), cohort.members)
        if not memory:
            # Embeddings that were given have no optimizer.
            return State(server, state.clients)
        moved, memory = self._step({"embedding": embedding}, {"embedding": own}, memory)
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
        """Make the model of the client's own embedding, under its own head if it has one."""
        self.refuse_predictor(predictor)
        return predict_with(task, self.weights_of(task, state, index))

    def weights_of(self, task: Task, state: State, index: int) -> Params:
        """Return all weights of seen client ``index``."""
        head = row(part(state.clients, "head"), index)
        return join(task, self.made_of(task, state, state.clients["embedding"][index]), head)

    def made_of(self, task: Task, state: State, embedding: Tensor) -> Params:
        """Return what the hypernetwork makes of one embedding ``[dim]``, without a graph."""
        with torch.no_grad():
            return row(self.made(task, part(state.server, "hyper"), embedding[None]), 0)

    def made(self, task: Task, eta: Params, embedding: Tensor) -> Params:
        """Return what the hypernetwork ``eta`` makes of embeddings ``[c, dim]``."""
        return hypernetwork(task, embedding.shape[1], self._made_names(task))(eta, embedding)

    def fit(
        self,
        task: Task,
        state: State,
        support: Samples,
        n_rounds: int,
        n_steps: int,
        batch_size: int,
        generator: Generator,
    ) -> Params:
        """Fit a new embedding, and a fresh head if heads are personal, to a newcomer.

        The hypernetwork stays as it is. In every round all weights train on the support; their
        change moves the embedding, the head stays as trained.
        """
        eta = part(state.server, "hyper")
        dim = state.clients["embedding"].shape[1]
        fresh = torch.randn(1, dim, generator=generator, dtype=task.dtype)
        own = {"embedding": fresh.to(support.x.device)}
        head: Params = {}
        if self.personal_layers:
            drawn = move(task.initial(generator), support.x.device)
            head = {name: drawn[name] for name in head_names(task, self.personal_layers)}
        memory = sgd_memory(own)
        for _ in range(n_rounds):
            point = leaves(own)
            with torch.enable_grad():
                made = self.made(task, eta, point["embedding"])
            first = join(task, row(detached(made), 0), head)
            tuned = fine_tune(task, first, support, self.local, n_steps, batch_size, generator)
            delta = {key: tuned[key] - value.detach() for key, value in made.items()}
            (slope,) = pull_back(made, delta, [point["embedding"]])
            own, memory = self._step(own, {"embedding": slope}, memory)
            head = {name: tuned[name] for name in head}
        return join(task, row(self.made(task, eta, own["embedding"]), 0), head)

    def _made_names(self, task: Task) -> tuple[str, ...]:
        return body_names(task, self.personal_layers)

    def _step(self, params: Params, slopes: Params, memory: Params) -> tuple[Params, Params]:
        rule = (self.server_lr, self.server_momentum, self.server_weight_decay)
        return sgd(params, slopes, memory, *rule)
