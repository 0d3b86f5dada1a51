"""ODPFL-HN: a hypernetwork makes a model from unlabelled data (``model.encoder`` is not read)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models import embedding_phases as turns
from latecomer.models.embedding_table import initial_embeddings
from latecomer.models.hypernetworks import hypernetwork
from latecomer.models.hyperparameters import choice, count, number
from latecomer.models.local import LocalSGD
from latecomer.models.method import Method, Personalization, Predictor, Start, predict_with
from latecomer.models.optimizers import SGD, AdamW, Optimizer
from latecomer.models.phases import Phase
from latecomer.models.private_descriptors import noise_sd, refuse_unbounded, with_noise
from latecomer.models.schedule import Cohort
from latecomer.models.state import Params, State, nest, part, row
from latecomer.models.task import Clients, Samples, Task
from latecomer.models.unlabelled_encoders import BatchAveraged, SetEncoder, set_encoder_named


@dataclass(frozen=True, kw_only=True)
class ODPFLHN(Method):
    """ODPFL-HN (Amosy, Eyal, Chechik, 2021).

    A set encoder sees inputs, no labels; the hypernetwork makes weights of its descriptor, whose
    change is pulled back through both. A client is described by all its samples at once, in
    training as in serving (supplement, B.1, B.2 and Algorithm 1). Serving is one forward pass over
    the unlabelled support.

    Two settings depart from the paper by default, because with the paper's own (``standardise:
    none``, ``server_optimizer: sgd``) descriptors hardly differ between clients, nor do the models
    made of them: every client is served the same one. The paper searched rates; these two stand in
    for it.

    Attributes
    ----------
    server_optimizer : str
        Of hypernetwork and encoder: ``adam`` (AdamW; ours) or ``sgd`` (the paper's).
    server_lr : float or None
        Its rate; None: 2e-4 for ``adam``, 1e-2 for ``sgd``.
    server_momentum, server_weight_decay, clip_norm : float
        Its momentum (``sgd`` alone), decay and clipping; they hold for embeddings too.
    standardise : str
        ``first_cohort`` (ours): every coordinate of a descriptor is standardised by its mean and
        standard deviation over the clients of the first round, once and for all (a coordinate's is
        at least a quarter of their root mean square). ``none`` (the paper's). Training in two
        phases never does: there a descriptor predicts an embedding.
    local_lr, local_momentum, local_weight_decay : float
        The local step.
    descriptor_dim : int or None
        Length of a descriptor; None: ``floor(n / 4)`` with n seen clients, at least 1. The paper
        counts all clients, which a method does not know of: to have its length, set it.
    encoder : str
        ``deepsets`` (mean and max), ``unit-deepsets`` (unit mean), ``dss``, ``set-transformer``.
    pooled_units : int
        Units of either DeepSets.
    encoder_batch : int or None
        Samples that the encoder sees at a time; descriptors of a client's batches are averaged by
        their sizes (B.1, for data that do not fit into memory). Batches follow the order of the
        client's samples, which a split draws at random. None: all at once.
    training : str
        ``end_to_end``, or ``two_phase``: embeddings with an encoder that predicts them, trained on
        the clients beside the hypernetwork (B.2), then fine-tuning.
    embedding_lr : float
        Rate of the embeddings' SGD.
    encoder_lr, encoder_steps
        Rate and number of the steps that a client of a round trains the encoder; each looks at all
        its samples.
    finetune_share : float
        Rounds of fine-tuning for each of the first phase.
    dp_epsilon, dp_delta : float
        Privacy of a newcomer's descriptor by noise; ``dp_epsilon`` None: none.
    """

    server_optimizer: str = choice("adam", "sgd")
    server_lr: float | None = number(None, above=0)
    server_momentum: float = number(0.9, least=0, below=1)
    server_weight_decay: float = number(1e-3, least=0)
    standardise: str = choice("first_cohort", "none")
    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)
    descriptor_dim: int | None = count(None)
    encoder: str = choice("deepsets", "unit-deepsets", "dss", "set-transformer")
    pooled_units: int = count(200, least=2)
    encoder_batch: int | None = count(None)
    training: str = choice("end_to_end", "two_phase")
    embedding_lr: float = number(1e-2, above=0)
    encoder_lr: float = number(5e-3, above=0)
    encoder_steps: int = count(5)
    finetune_share: float = number(0.5, least=0)
    dp_epsilon: float | None = number(None, above=0)
    dp_delta: float = number(0.01, above=0, below=1)

    name: ClassVar[str] = "odpfl_hn"
    paper: ClassVar[str] = "Amosy, Eyal, Chechik, 2021, arXiv:2111.05745"
    personalization: ClassVar[Personalization] = "unlabelled"
    needs_labels: ClassVar[bool] = False
    numbers_version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unbounded(self.dp_epsilon, self.encoder)

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)

    @property
    def optimizer(self) -> Optimizer:
        """The step of hypernetwork and encoder."""
        rate, decay = self.server_lr, self.server_weight_decay
        if self.server_optimizer == "adam":
            return AdamW(2e-4 if rate is None else rate, decay)
        return SGD(1e-2 if rate is None else rate, self.server_momentum, decay)

    def phases(self, task: Task) -> tuple[Phase, ...]:
        """Return everything at once, or embeddings with their encoder, and fine-tuning."""
        two = self.training == "two_phase"
        return turns.embedding_phases(self.finetune_share) if two else (Phase(),)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw both networks, and embeddings where there are some; look at the first cohort."""
        dim = self.descriptor_dim or max(1, len(clients) // 4)
        eta = nest("hyper", hypernetwork(task, dim).initial(generator))
        two = self.training == "two_phase"
        own = initial_embeddings(task, len(clients), dim, generator) if two else {}
        eta |= nest("encoder", self._encoder(task, dim).initial(generator))
        eta |= nest("optimizer", self.optimizer.memory(eta))
        if self.standardise == "first_cohort" and not two:
            eta |= nest("descriptor", self._scale(task, eta, clients, first))
        return State(eta, own)

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Make the cohort's weights, keeping the graph; let clients train the encoder beside it."""
        members = cohort.on_host()

        def describe(table: Params) -> Tensor:
            return self._describe(task, table, (clients.support_of(i).x for i in members))

        def predict(place: int, goal: Tensor) -> Params:
            x = clients.support_of(members[place]).x

            def alone(encoder: Params) -> Tensor:
                return self._describe(task, state.server | nest("encoder", encoder), [x])[0]

            rule = LocalSGD(
                self.encoder_lr, self.local_momentum, self.local_weight_decay, self.clip_norm
            )
            encoder = part(state.server, "encoder")
            return turns.predicting(alone, encoder, goal, rule, self.encoder_steps)

        return turns.begin(task, state, cohort, describe, predict)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Pull the changes back through what learns and take a step."""
        rule = (self.embedding_lr, self.server_momentum, self.server_weight_decay)
        return turns.learn(state, cohort, start, uploads, self.optimizer, rule, self.clip_norm)

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
        """Make a seen client's weights like a newcomer's, but without noise."""
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
        with torch.no_grad():
            found = self._embed(task, state.server, [support.x])
            if (epsilon := self.dp_epsilon) is not None:
                # Standardising afterwards reads nothing more of the client's samples.
                found = with_noise(found, noise_sd(len(support), epsilon, self.dp_delta), generator)
            found = _standardised(found, state.server)
            return predict_with(task, row(turns.weights(task, state.server, found), 0))

    def describe(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Tensor:
        """Return the descriptor of the inputs of a client's whole support, without noise."""
        return self._describe(task, state.server, [support.x])[0].detach()

    def _describe(self, task: Task, table: Params, sets: Iterable[Tensor]) -> Tensor:
        return _standardised(self._embed(task, table, sets), table)

    def _embed(self, task: Task, table: Params, sets: Iterable[Tensor]) -> Tensor:
        """Return what the encoder says of sets ``[b, ...]`` of any sizes, ``[c, dim]``."""
        dim = table["hyper.trunk0.weight"].shape[1]
        encode, weights = self._encoder(task, dim), part(table, "encoder")
        return torch.cat([encode(weights, x[None]) for x in sets])

    def _encoder(self, task: Task, dim: int) -> SetEncoder:
        net = set_encoder_named(self.encoder, task, dim, self.pooled_units)
        return net if self.encoder_batch is None else BatchAveraged(net, self.encoder_batch)

    def _scale(self, task: Task, table: Params, clients: Clients, first: Cohort) -> Params:
        """Return mean and standard deviation ``[dim]`` over the first cohort's descriptors.

        Over a handful of clients a coordinate may hardly differ by chance, and would blow up the
        others': none counts for less than a quarter of the coordinates' root mean square.
        """
        sets = (clients.support_of(index).x for index in first.on_host())
        with torch.no_grad():
            found = self._embed(task, {k: v.to(clients.device) for k, v in table.items()}, sets)
        if len(found) == 1:
            return {"mean": found[0], "sd": torch.ones_like(found[0])}
        sd = found.std(dim=0)
        sd = sd.clamp_min(float(sd.square().mean().sqrt()) / 4)
        # Where all look alike there is nothing to scale by.
        sd = torch.where(sd > 0, sd, torch.ones_like(sd))
        return {"mean": found.mean(dim=0), "sd": sd}


def _standardised(found: Tensor, table: Params) -> Tensor:
    if "descriptor.mean" not in table:
        return found
    return (found - table["descriptor.mean"]) / table["descriptor.sd"]
