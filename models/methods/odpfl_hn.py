"""ODPFL-HN: a hypernetwork makes a model from unlabelled data (``model.encoder`` is not read)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Generator

from latecomer.models.engine.hyperparameters import choice, count, number
from latecomer.models.engine.method import Personalization, Predictor, Start, predict_with
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort, Phase
from latecomer.models.families.described_clients import (
    DescribedClients,
    served,
    standardised,
    weights,
)
from latecomer.models.families.embedded_clients import initial_embeddings
from latecomer.models.generators.hypernetworks import hypernetwork
from latecomer.models.generators.unlabelled_encoders import noise_sd, refuse_unbounded, with_noise
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, detached, nest, row, stack
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class ODPFLHN(DescribedClients):
    """ODPFL-HN (Amosy, Eyal, Chechik, 2021).

    A set encoder sees inputs but no labels; the hypernetwork makes weights from its descriptor, and
    their change is pulled back through both. A client is described by all its samples at once, in
    training as in serving (supplement, B.1, B.2 and Algorithm 1): one forward pass over them.

    Attributes
    ----------
    server_optimizer, server_lr, server_momentum, server_weight_decay, standardise, averaging,
    clip_norm, local_lr, local_momentum, local_weight_decay, descriptor_dim, encoder, pooled_units,
    encoder_batch, undescribed
        As for :class:`~latecomer.models.families.described_clients.DescribedClients`.
    training : str
        ``end_to_end``, or ``two_phase``: first embeddings, and an encoder that clients train beside
        the hypernetwork to predict them (B.2), then fine-tuning.
    embedding_lr, encoder_lr, encoder_steps : float, float, int
        Rate of the embeddings' SGD; rate and number of a client's encoder steps on all its samples.
    finetune_share : float
        Rounds of fine-tuning for each round of the first phase.
    dp_epsilon, dp_delta : float
        Privacy of a new client's descriptor by noise; ``dp_epsilon`` None: no noise.
    """

    training: str = choice("end_to_end", "two_phase")
    embedding_lr: float = number(1e-2, above=0)
    encoder_lr: float = number(5e-3, above=0)
    encoder_steps: int = count(5)
    finetune_share: float = number(0.5, least=0)
    dp_epsilon: float | None = number(None, above=0)
    dp_delta: float = number(0.01, above=0, below=1)
    name: ClassVar[str] = "odpfl_hn"
    called: ClassVar[str] = "ODPFL-HN"
    paper: ClassVar[str] = "Amosy, Eyal, Chechik, 2021, arXiv:2111.05745"
    cites: ClassVar[tuple[str, ...]] = ("amosy2024",)
    look: ClassVar[int | None] = 6
    personalization: ClassVar[Personalization] = "unlabelled"
    needs_labels: ClassVar[bool] = False
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    numbers_version: ClassVar[int] = 2
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper",
            "AdamW in place of SGD, descriptors standardised by the first cohort, served by "
            "running means of the networks: ours, and this is our variant of the method. The "
            "paper's are standardise none, server_optimizer sgd, averaging 0 (variant published of "
            "odpfl-table1).",
            "yes: {moved digits-odpfl-published digits-all-methods}; at the paper's length "
            "{moved odpfl-table1-published odpfl-table1-500-rounds-odpfl-hn}",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unbounded(self.dp_epsilon, self.encoder)

    def phases(self, task: Task) -> tuple[Phase, ...]:
        """Return a single phase, or embeddings with their encoder and then fine-tuning."""
        if self.training == "end_to_end":
            return (Phase(),)
        return Phase("embeddings"), Phase("finetune", self.finetune_share)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw both networks, and embeddings if used; standardise by the first cohort if set."""
        dim = self.descriptor_dim or max(1, len(clients) // 4)
        eta = nest("hyper", hypernetwork(task, dim).initial(generator))
        two = self.training == "two_phase"
        embeddings = initial_embeddings(task, len(clients), dim, generator) if two else {}
        eta |= nest("encoder", self.net(task, dim).initial(generator))
        eta = self.beginning(eta)
        if self.standardise == "first_cohort" and not two:
            eta |= nest("descriptor", self.scale(task, eta, clients, first))
        return State(eta, embeddings)

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Make the cohort's weights, keeping the graph; let clients train the encoder beside it."""
        supports = (clients.support_of(member).x for member in cohort.on_host())
        moving, trained = self.moving(state, cohort.phase), Params()
        table = {**state.server, **moving}
        with torch.enable_grad():
            if cohort.phase == "embeddings":
                goals = state.clients["embedding"][cohort.members]
                pairs = zip(supports, goals, strict=True)
                rate, steps = self.encoder_lr, self.encoder_steps
                each = [self.predicting(task, state.server, *pair, rate, steps) for pair in pairs]
                trained = {key: value.mean(dim=0) for key, value in stack(each).items()}
                told = moving["embedding"] = goals.requires_grad_()
            else:
                told = self.described(task, table, (self.sampled(x, generator) for x in supports))
            made = weights(task, table, told)
        return Start(detached(made), memory=(moving, made, trained))

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Pull the changes back through the parts that learn, and take a step."""
        rule = (self.embedding_lr, self.server_momentum, self.server_weight_decay)
        return self.learnt(state, cohort, start, uploads, rule)

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
        """Make a seen client's weights like a new client's, but without noise."""
        bare = replace(self, dp_epsilon=None)
        return bare.personalize(task, state, support, predictor=predictor, generator=generator)

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
        table = served(state.server)
        with torch.no_grad():
            told = self.embed(task, table, [support.x])
            if (epsilon := self.dp_epsilon) is not None:
                # Standardising afterwards reads nothing more of the client's samples.
                told = with_noise(told, noise_sd(len(support), epsilon, self.dp_delta), generator)
            descriptor = standardised(told, table)
            return predict_with(task, row(weights(task, table, descriptor), 0))
