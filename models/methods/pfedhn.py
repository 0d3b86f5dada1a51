"""pFedHN: a hypernetwork makes each client's model from an embedding learnt for that client."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator

from latecomer.models.embedded_clients import EmbeddedClients
from latecomer.models.hyperparameters import count
from latecomer.models.method import Personalization, Predictor, predict_with
from latecomer.models.state import State
from latecomer.models.task import Samples, Task


@dataclass(frozen=True, kw_only=True)
class PFedHN(EmbeddedClients):
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

    novel_rounds: int = count(20, least=0)
    novel_steps: int = count(50)
    novel_batch_size: int = count(64)

    name: ClassVar[str] = "pfedhn"
    paper: ClassVar[str] = "Shamsian et al., ICML 2021"
    personalization: ClassVar[Personalization] = "embedding"
    needs_labels: ClassVar[bool] = True

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
        size = (self.novel_rounds, self.novel_steps, self.novel_batch_size)
        return predict_with(task, self.fit(task, state, support, *size, generator))
