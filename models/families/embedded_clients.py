"""Training a hypernetwork together with an embedding of every seen client, as in pFedHN."""

from abc import ABC
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import choice, number, several, size
from latecomer.models.engine.local_steps import LocalSGD, clip_by_norm
from latecomer.models.engine.method import Finish, Method, Predictor, Start, predict_with
from latecomer.models.engine.optimizers import sgd, sgd_memory
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families import embedding_table
from latecomer.models.generators import target_sizes
from latecomer.models.generators.hypernetworks import embedding_length, pull_back
from latecomer.models.generators.target_sizes import SizedHypernetwork, sized_hypernetwork
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.heads import body_names, head_names, join
from latecomer.models.task.state import (
    Params,
    State,
    detached,
    gather,
    leaves,
    nest,
    part,
    row,
    stack,
    subtract,
)
from latecomer.models.task.targets import TARGETS
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class EmbeddedClients(Method, ABC):
    """A hypernetwork makes each client's weights from an embedding learnt for that client.

    The change of the local weights is pulled back through the hypernetwork to its weights (mean
    over the cohort) and to each client's embedding. Where a head is personal, the hypernetwork
    makes the body only, and every client trains and keeps a head of its own.

    Attributes
    ----------
    server_lr, server_momentum, server_weight_decay : float
        SGD of hypernetwork and embeddings.
    resting_embeddings : str
        What becomes of the embeddings of clients that a round does not draw. ``move``, as in
        pFedHN's published code: one SGD moves all weights, so they decay and go on with their
        momentum, and ``clip_norm`` holds for the gradients of hypernetwork and embeddings together.
        ``stay``: only drawn ones move, and embeddings' gradients are not clipped.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step; ``clip_norm`` holds for server gradients too.
    embedding_dim : int or None
        Length of an embedding; None: ``1 + floor(n / 4)`` with n seen clients. The papers count all
        clients, which a method does not know: for theirs, set it (26 for 100 clients).
    sizes : tuple of str
        Target networks of several sizes, made by separate heads on one trunk. The task's target
        must be the largest (in a study they take the place of ``model.target``). Seen clients get
        them in turn. Empty: all have the task's target.
    """

    server_lr: float = number(1e-2, above=0)
    server_momentum: float = number(0.9, least=0, below=1)
    server_weight_decay: float = number(1e-3, least=0)
    resting_embeddings: str = choice("move", "stay")
    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)
    embedding_dim: int | None = size(None)
    sizes: tuple[str, ...] = several(*TARGETS)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sizes", tuple(self.sizes))
        target_sizes.largest(self.sizes)
        # Raises when the size for new clients is not among the sizes.
        _ = self.novel_place

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)

    @property
    def personal_layers(self) -> int:
        """Number of last layers that the hypernetwork does not make; by default none."""
        return 0

    @property
    def novel_place(self) -> int | None:
        """Which of ``sizes`` new clients get; by default None: nets of several sizes serve them."""
        return None

    def fixed_embeddings(self, task: Task, clients: Clients) -> Tensor | None:
        """Return embeddings ``[n, dim]`` that are given; by default None: all are learnt."""
        return None

    def check_target(self, task: Task) -> None:
        """Raise ``ValueError`` if the server would make more weights than the task allows."""
        self._hypernetwork(task, 1)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw the hypernetwork, standard normal embeddings, and a head for every client."""
        fixed = self.fixed_embeddings(task, clients)
        dim = self.embedding_dim or embedding_length(len(clients))
        dim = dim if fixed is None else fixed.shape[1]
        eta = self._hypernetwork(task, dim).initial(generator)
        server = nest("hyper", eta) | nest("hyper_sgd", sgd_memory(eta))
        if fixed is None:
            embeddings = embedding_table.initial_embeddings(task, len(clients), dim, generator)
        else:
            embeddings = {"embedding": fixed}
        size = target_sizes.dealt(self.sizes, len(clients))
        embeddings |= {"size": size} if self.sizes else {}
        heads: Params = {}
        if self.personal_layers:
            names = self.sizes or ("",)
            heads = stack([self.fresh_head(task, names[n], generator) for n in size.tolist()])
        return State(server, embeddings | nest("head", heads))

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Make the cohort's weights, keeping the graph for the backward pass; add own heads."""
        eta = leaves(part(state.server, "hyper"))
        embedding = state.clients["embedding"][cohort.members].requires_grad_()
        with torch.enable_grad():
            made = self.made(task, eta, embedding, _size(state)[cohort.members])
        heads = gather(part(state.clients, "head"), cohort.members)
        return Start(join(task, detached(made), heads), memory=(eta, embedding, made))

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the change of the weights that were made, keep the head."""
        made = {name: final[name] for name in self._made_names(task)}
        head = {name: final[name] for name in head_names(task, self.personal_layers)}
        return Finish(uploads=subtract(made, start.params), kept=nest("head", head))

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Pull the changes back and take a step of SGD on hypernetwork and learnt embeddings."""
        eta, embedding, made = start.memory
        *slopes, of_embeddings = pull_back(made, uploads, [*eta.values(), embedding])
        slopes = [slope / len(cohort) for slope in slopes]
        learnt = "sgd.embedding" in state.clients
        if learnt and self.resting_embeddings == "move":
            *slopes, of_embeddings = clip_by_norm([*slopes, of_embeddings], self.clip_norm)
        else:
            slopes = clip_by_norm(slopes, self.clip_norm)
        against = dict(zip(eta, slopes, strict=True))
        rule = (self.server_lr, self.server_momentum, self.server_weight_decay)
        weights, memory = sgd(eta, against, part(state.server, "hyper_sgd"), *rule)
        server = nest("hyper", weights) | nest("hyper_sgd", memory)
        if not learnt:
            # Embeddings that were given have no optimizer.
            return State(server, state.clients)
        resting = self.resting_embeddings
        clients = embedding_table.moved(
            state.clients, cohort.members, of_embeddings, rule, resting=resting
        )
        return State(server, clients)

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

    def describe(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Tensor | None:
        """Return a seen client's embedding; a new client has none before one is fitted."""
        return None if member is None else state.clients["embedding"][member]

    def weights_of(self, task: Task, state: State, index: int) -> Params:
        """Return all weights of seen client ``index``."""
        embedding, size = state.clients["embedding"][index], int(_size(state)[index])
        head = row(part(state.clients, "head"), index)
        return join(task, self.made_of(task, state, embedding, size), head)

    def target_of(self, state: State, member: int | None) -> str:
        """Name the target network of seen client ``member``, or of new clients (None)."""
        place = self.novel_place if member is None else int(_size(state)[member])
        return self.sizes[place] if self.sizes and place is not None else ""

    def made_of(self, task: Task, state: State, embedding: Tensor, size: int) -> Params:
        """Return the weights made from one embedding ``[dim]`` in this size, without a graph."""
        only = torch.tensor([size], device=embedding.device)
        with torch.no_grad():
            return row(self.made(task, part(state.server, "hyper"), embedding[None], only), 0)

    def made(self, task: Task, eta: Params, embedding: Tensor, size: Tensor) -> Params:
        """Return the weights made from embeddings ``[c, dim]``, in sizes ``[c]``."""
        return self._hypernetwork(task, embedding.shape[1])(eta, embedding, size)

    def _hypernetwork(self, task: Task, dim: int) -> SizedHypernetwork:
        return sized_hypernetwork(task, dim, self.sizes, self._made_names(task))

    def fresh_head(self, task: Task, size: str, generator: Generator) -> Params:
        """Draw the personal layers of one size."""
        drawn = target_sizes.initial(task, size, generator)
        return {name: drawn[name] for name in head_names(task, self.personal_layers)}

    def _made_names(self, task: Task) -> tuple[str, ...]:
        made = body_names(task, self.personal_layers)
        if not made:
            raise ValueError(
                f"head_layers must be below the {self.personal_layers} layers of the target, so "
                f"that the hypernetwork makes some, got head_layers={self.personal_layers}"
            )
        return made


def _size(state: State) -> Tensor:
    """Return every seen client's place among the sizes, ``[n]``; 0 where there are none."""
    embedding = state.clients["embedding"]
    everyone = torch.zeros(len(embedding), dtype=torch.int64, device=embedding.device)
    return state.clients.get("size", everyone)
