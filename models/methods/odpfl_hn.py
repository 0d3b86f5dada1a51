"""ODPFL-HN: a hypernetwork makes a model from unlabelled data (``model.encoder`` is not read)."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models import embedding_phases as turns
from latecomer.models.hypernetworks import hypernetwork
from latecomer.models.hyperparameters import choice, count, number
from latecomer.models.local import LocalSGD
from latecomer.models.method import Method, Personalization, Predictor, Start, predict_with
from latecomer.models.optimizers import sgd_memory
from latecomer.models.phases import Phase
from latecomer.models.private_descriptors import noise_sd, refuse_unbounded, with_noise
from latecomer.models.schedule import Cohort
from latecomer.models.state import Params, State, nest, part, row
from latecomer.models.task import Clients, Samples, Task
from latecomer.models.unlabelled_encoders import set_encoder_named


@dataclass(frozen=True, kw_only=True)
class ODPFLHN(Method):
    """ODPFL-HN (Amosy, Eyal, Chechik, 2021).

    A set encoder sees inputs, no labels; the hypernetwork makes weights of its descriptor, whose
    change is pulled back through both. Serving is one forward pass over the unlabelled support.

    Attributes
    ----------
    server_lr, server_momentum, server_weight_decay, clip_norm : float
        SGD of hypernetwork, encoder and embeddings.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    descriptor_dim : int or None
        Length of a descriptor; None: ``floor(n / 4)`` with n seen clients, at least 1.
    encoder : str
        ``deepsets`` (mean and max), ``unit-deepsets`` (unit mean), ``dss``, ``set-transformer``.
    pooled_units : int
        Units of either DeepSets.
    training : str
        ``end_to_end``, or ``two_phase``: embeddings, an encoder that predicts them, fine-tuning.
    encoder_share, finetune_share : float
        Rounds of the latter two for each of the first.
    dp_epsilon, dp_delta : float
        Privacy of a newcomer's descriptor by noise; ``dp_epsilon`` None: none.
    """

    server_lr: float = number(1e-2, above=0)
    server_momentum: float = number(0.9, least=0, below=1)
    server_weight_decay: float = number(1e-3, least=0)
    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)
    descriptor_dim: int | None = count(None)
    encoder: str = choice("deepsets", "unit-deepsets", "dss", "set-transformer")
    pooled_units: int = count(200, least=2)
    training: str = choice("end_to_end", "two_phase")
    encoder_share: float = number(0.5, least=0)
    finetune_share: float = number(0.5, least=0)
    dp_epsilon: float | None = number(None, above=0)
    dp_delta: float = number(0.01, above=0, below=1)

    name: ClassVar[str] = "odpfl_hn"
    paper: ClassVar[str] = "Amosy, Eyal, Chechik, 2021, arXiv:2111.05745"
    personalization: ClassVar[Personalization] = "unlabelled"
    needs_labels: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unbounded(self.dp_epsilon, self.encoder)

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)

    def phases(self, task: Task) -> tuple[Phase, ...]:
        """Return everything at once, or embeddings, encoder and fine-tuning."""
        shares = (self.encoder_share, self.finetune_share)
        return turns.embedding_phases(*shares) if self.training == "two_phase" else (Phase(),)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw both networks, and embeddings where there are some."""
        dim = self.descriptor_dim or max(1, len(clients) // 4)
        eta = nest("hyper", hypernetwork(task, dim).initial(generator))
        two = self.training == "two_phase"
        own = turns.initial_embeddings(task, len(clients), dim, generator) if two else {}
        net = set_encoder_named(self.encoder, task, dim, self.pooled_units)
        eta |= nest("encoder", net.initial(generator))
        return State(eta | nest("sgd", sgd_memory(eta)), own)

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Make the cohort's weights, keeping the graph; send the encoder where only that learns."""
        x = clients.inputs(cohort.descriptor_rows)
        return turns.begin(task, state, cohort, partial(self._describe, task, x))

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Pull the changes back through what learns and take a step of SGD."""
        rule = (self.server_lr, self.server_momentum, self.server_weight_decay)
        return turns.learn(state, cohort, start, uploads, rule, self.clip_norm)

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
            found = self._describe(task, support.x[None], state.server)
            if (epsilon := self.dp_epsilon) is not None:
                found = with_noise(found, noise_sd(len(support), epsilon, self.dp_delta), generator)
            return predict_with(task, row(turns.weights(task, state.server, found), 0))

    def describe(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Tensor:
        """Return the descriptor of the inputs of a client's whole support, without noise."""
        return self._describe(task, support.x[None], state.server)[0].detach()

    def _describe(self, task: Task, x: Tensor, table: Params) -> Tensor:
        dim = table["hyper.trunk0.weight"].shape[1]
        encode = set_encoder_named(self.encoder, task, dim, self.pooled_units)
        return encode(part(table, "encoder"), x)
