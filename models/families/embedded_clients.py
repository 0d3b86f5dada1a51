"""Training a hypernetwork with an embedding of every client, as in pFedHN, and fitting new ones."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from latecomer.models.engine.fine_tuning import Tuning, tune_each
from latecomer.models.engine.hyperparameters import choice, count, number, several, size
from latecomer.models.engine.local_steps import LocalSGD, clip_by_norm
from latecomer.models.engine.method import Finish, Method, Start
from latecomer.models.engine.newcomers import Messages, one_model
from latecomer.models.engine.optimizers import sgd, sgd_memory
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.trained_newcomers import TrainedNewcomers
from latecomer.models.generators import hypernetworks
from latecomer.models.generators.hypernetworks import (
    SizedHypernetwork,
    embedding_length,
    place_of_novel,
    pull_back,
    sized_hypernetwork,
)
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.heads import body_names, head_names, join
from latecomer.models.task.state import (
    Params,
    State,
    detached,
    gather,
    leaves,
    move,
    nest,
    part,
    row,
    rows,
    scatter,
    stack,
    subtract,
)
from latecomer.models.task.targets import TARGETS
from latecomer.models.task.task import Task

Rule = tuple[float, float, float]
"""Learning rate, momentum and weight decay."""


def initial_embeddings(task: Task, n_clients: int, dim: int, generator: Generator) -> Params:
    """Draw standard normal embeddings ``[n, dim]``; return them with their SGD memory."""
    embeddings = {"embedding": torch.randn(n_clients, dim, generator=generator, dtype=task.dtype)}
    return embeddings | nest("sgd", sgd_memory(embeddings))


def moved(clients: Params, members: Tensor, slopes: Tensor, rule: Rule, *, resting: str) -> Params:
    """Return the clients' state after a step of SGD on ``embedding [n, dim]`` and its memory.

    ``slopes [c, dim]`` are gradients of the embeddings of the round's clients, ``members [c]``. All
    others move or stay, as ``resting`` says. ``move``: they decay and go on with their momentum, as
    in the published code of pFedHN, where one SGD moves the whole table. ``stay``: no change.

    >>> own = {"embedding": torch.ones(2, 1), "sgd.embedding": torch.zeros(2, 1)}
    >>> step = torch.tensor([1]), torch.tensor([[2.0]]), (0.1, 0.0, 0.5)
    >>> [moved(own, *step, resting=word)["embedding"].T for word in ("move", "stay")]
    [tensor([[0.9500, 0.7500]]), tensor([[1.0000, 0.7500]])]
    """
    table, memory = clients["embedding"], part(clients, "sgd")
    if resting == "move":
        against = torch.zeros_like(table).index_copy(0, members, slopes)
        new, kept = sgd({"embedding": table}, {"embedding": against}, memory, *rule)
        return {**clients, **new, **nest("sgd", kept)}
    before, against = {"embedding": table[members]}, slopes
    new, kept = sgd(before, {"embedding": against}, gather(memory, members), *rule)
    return scatter(clients, members, new | nest("sgd", kept))


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
        hypernetworks.largest(self.sizes)
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
            embeddings = initial_embeddings(task, len(clients), dim, generator)
        else:
            embeddings = {"embedding": fixed}
        size = hypernetworks.dealt(self.sizes, len(clients))
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
        clients = moved(state.clients, cohort.members, of_embeddings, rule, resting=resting)
        return State(server, clients)

    def describe(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Tensor | None:
        """Return a seen client's embedding; a new client has none before one is fitted."""
        return None if member is None else state.clients["embedding"][member]

    def own_model(self, task: Task, state: State, index: int) -> Params:
        """Return the weights of the client's own embedding, under its own head if it has one."""
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
        drawn = hypernetworks.initial(task, size, generator)
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

    def fit_each(
        self, task: Task, state: State, supports: Sequence[Samples], generators: Sequence[Generator]
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
                task.loss(self.own_model(task, state, index), support.x, support.labels())
                for index in range(len(table))
            ]
        return table[int(torch.stack(losses).argmin())].clone()

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return weights down and their change up in every round, and the model at the end."""
        made = one_model(task, body_names(task, self.personal_layers)).down
        return Messages(self.novel_rounds, (self.novel_rounds + 1) * made, self.novel_rounds * made)
