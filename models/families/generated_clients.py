"""Training an encoder and a hypernetwork that make each client's weights from its labelled data."""

from abc import ABC
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import number, size
from latecomer.models.engine.local_steps import LocalSGD, clip_by_norm
from latecomer.models.engine.method import Method, Predictor, Start, predict_with
from latecomer.models.engine.newcomers import Messages
from latecomer.models.engine.optimizers import adamw, adamw_memory
from latecomer.models.engine.schedule import Cohort
from latecomer.models.generators import hypernetworks
from latecomer.models.generators.hypernetworks import embedding_length, hypernetwork, pull_back
from latecomer.models.posteriors import with_ridges
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.objectives import ridge_decay, squared_norm
from latecomer.models.task.state import Params, State, detached, leaves, nest, part, row
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class GeneratedClients(Method, ABC):
    """Encoder and hypernetwork make a client's weights; local training moves both.

    Local SGD starts from the generated weights, and its change is pulled back through both networks
    once a round for the whole cohort. The regularisers are decoupled weight decays, unless a method
    adds theirs to the gradient. Serving is one forward pass over the support. Weights may be drawn
    at random around those learnt and made.

    Attributes
    ----------
    server_lr, local_lr, local_momentum, clip_norm : float
        The server's AdamW and the local step; ``clip_norm`` holds for both gradients.
    lambda_h, lambda_v, lambda_theta : float
        Regularisers of hypernetwork, encoder and target weights.
    descriptor_dim : int or None
        Length of a descriptor; None: ``1 + floor(n / 4)`` with n seen clients. The papers count all
        clients, which a method does not know: for theirs, set it (26 for 100 clients).
    """

    server_lr: float = number(2e-4, above=0)
    local_lr: float = number(2e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    clip_norm: float = number(50.0, above=0)
    lambda_h: float = number(1e-3, least=0)
    lambda_v: float = number(1e-3, least=0)
    lambda_theta: float = number(2.5e-5, least=0)
    descriptor_dim: int | None = size(None)

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        decay = ridge_decay(self.lambda_theta)
        return LocalSGD(self.local_lr, self.local_momentum, decay, self.clip_norm)

    def coupled_ridges(self, start: Start) -> Mapping[str, Tensor]:
        """Return those that are part of the gradient, by section; by default none."""
        return {}

    def draw_networks(self, eta: Params, generator: Generator) -> Params:
        """Return the networks' weights to use; by default as learnt."""
        return eta

    def draw_target(self, theta: Params, generator: Generator) -> Params:
        """Return the target weights to use; by default as made."""
        return theta

    def confine(self, made: Params) -> Params:
        """Return the weights ``[c, ...]`` that several clients are to use; by default as made."""
        return made

    def make(self, task: Task, table: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Params:
        """Return target weights ``[c, ...]`` for sets ``x [c, b, ...]``, ``y [c, b]``."""
        return self.confine(hypernetworks.generate(task, table, x, y))

    def make_one(self, task: Task, table: Mapping[str, Tensor], support: Samples) -> Params:
        """Return the target weights of one client from its whole support, without a graph."""
        with torch.no_grad():
            return self.weights_for(task, table, support)

    def check_target(self, task: Task) -> None:
        """Raise ``ValueError`` if the server would make more weights than the task allows."""
        hypernetwork(task, 1)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw both networks; standardise by the first client's descriptor, once and for all."""
        dim = self.descriptor_dim or embedding_length(len(clients))
        server = hypernetworks.initial_table(task, dim, clients, first, generator)
        for section in hypernetworks.NETWORKS:
            server |= nest(f"{section}_adamw", adamw_memory(part(server, section)))
        return State(server)

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Make the cohort's weights from a batch each, keeping the graph for the backward pass."""
        eta = leaves(hypernetworks.weights_of(state.server))
        x, y = clients.inputs(cohort.descriptor_rows), clients.labels(cohort.descriptor_rows)
        with torch.enable_grad():
            drawn = self.draw_networks(eta, generator)
            made = self.make(task, {**state.server, **drawn}, x, y)
        return Start(self.draw_target(detached(made), generator), memory=(eta, made))

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Pull the changes back through both networks and take a step of AdamW."""
        eta, made = start.memory
        # Dividing the changes by the cohort's size is cheaper than dividing the gradients.
        means = {key: change / len(cohort) for key, change in uploads.items()}
        slopes = pull_back(made, means, [*eta.values()])
        decays = self.lambda_h, self.lambda_v
        if coupled := self.coupled_ridges(start):
            decays = 0.0, 0.0
            slopes = with_ridges(slopes, eta, coupled, self.local.reach(cohort.rows.shape[1]))
        against = dict(zip(eta, clip_by_norm(slopes, self.clip_norm), strict=True))
        server = dict(state.server)
        for section, strength in zip(hypernetworks.NETWORKS, decays, strict=True):
            weights, memory = adamw(
                part(server, section),
                part(against, section),
                part(server, f"{section}_adamw"),
                lr=self.server_lr,
                weight_decay=ridge_decay(strength),
                in_place=state.disposable,
            )
            server |= nest(section, weights) | nest(f"{section}_adamw", memory)
        return State(server, state.clients)

    def serve_each(
        self,
        task: Task,
        state: State,
        members: Sequence[int | None],
        supports: Sequence[Samples],
        *,
        predictor: str = "deterministic",
        generators: Iterable[Generator],
    ) -> Iterator[Predictor]:
        """Yield the predictors of several clients; on a CPU the hypernetwork is read once for all.

        Seen clients are served as new clients are.
        """
        if predictor != "deterministic" or state.server["descriptor.mean"].device.type != "cpu":
            yield from super().serve_each(
                task, state, members, supports, predictor=predictor, generators=generators
            )
            return
        with torch.no_grad():
            made = [*hypernetworks.generate_each(task, state.server, supports)]
            weights = [row(self.confine(one), 0) for one in made]
        yield from (predict_with(task, one) for one in weights)

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Make the client's weights from its whole support; ``gibbs`` draws all of them anew."""
        self.refuse_predictor(predictor)
        if predictor == "deterministic":
            return predict_with(task, self.make_one(task, state.server, support))
        drawn = self.draw_networks(hypernetworks.weights_of(state.server), generator)
        made = self.make_one(task, {**state.server, **drawn}, support)
        return predict_with(task, self.draw_target(made, generator))

    def weights_for(self, task: Task, table: Mapping[str, Tensor], support: Samples) -> Params:
        """Return the target weights made from the whole support, with their graph."""
        return row(self.make(task, table, support.x[None], support.labels()[None]), 0)

    def squared_norms(
        self, task: Task, table: Mapping[str, Tensor], clients: Clients
    ) -> tuple[float, float, list[float]]:
        """Return the squared norms of hypernetwork, encoder and each client's target weights."""
        supports = (clients.support_of(index) for index in range(len(clients)))
        theta = [squared_norm(self.make_one(task, table, one)).item() for one in supports]
        hyper, embedding = (
            squared_norm(part(table, section)).item() for section in hypernetworks.NETWORKS
        )
        return hyper, embedding, theta

    def describe(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Tensor:
        """Return the descriptor of a client's whole support, by the networks as learnt."""
        with torch.no_grad():
            descriptors = hypernetworks.describe(
                task, state.server, support.x[None], support.labels()[None]
            )
        return descriptors[0]

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return the encoder and the model down, the descriptor up."""
        return hypernetworks.encoder_messages(task, state.server)
