"""pFedHN-PC: the hypernetwork makes the body, every client keeps a classifier of its own."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator

from latecomer.models.embedded_clients import EmbeddedClients
from latecomer.models.hyperparameters import choice, count
from latecomer.models.method import Personalization, Predictor, predict_with
from latecomer.models.state import State
from latecomer.models.target_sizes import place_of_novel
from latecomer.models.targets import TARGETS
from latecomer.models.task import Samples, Task


@dataclass(frozen=True, kw_only=True)
class PFedHNPC(EmbeddedClients):
    """pFedHN with a personal classifier (Shamsian, Navon, Fetaya, Chechik, ICML 2021).

    As pFedHN, but the last layers are trained on the client along with what the hypernetwork made,
    and never leave it. A newcomer fits a new embedding through the frozen hypernetwork together
    with a fresh head.

    Attributes
    ----------
    head_layers : int
        Number of last layers that are personal; at 0 the method is pFedHN.
    server_lr, server_momentum, server_weight_decay : float
        SGD of hypernetwork and embeddings (moved only when their client is drawn).
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step; ``clip_norm`` holds for server gradients too.
    embedding_dim : int or None
        Length of an embedding; None: ``1 + floor(n / 4)`` with n seen clients.
    sizes : tuple of str
        Target networks of several sizes, see :class:`EmbeddedClients`.
    novel_rounds, novel_steps, novel_batch_size : int
        Rounds, local steps a round and batch size of fitting a newcomer.
    novel_size : str
        Which of ``sizes`` newcomers get: ``largest``, the task's target, or a name.
    """

    head_layers: int = count(1, least=0)
    novel_rounds: int = count(20, least=0)
    novel_steps: int = count(50)
    novel_batch_size: int = count(64)
    novel_size: str = choice("largest", *TARGETS)

    name: ClassVar[str] = "pfedhn_pc"
    paper: ClassVar[str] = "Shamsian et al., ICML 2021"
    personalization: ClassVar[Personalization] = "embedding"
    needs_labels: ClassVar[bool] = True

    @property
    def novel_place(self) -> int:
        """Which of ``sizes`` newcomers get."""
        return place_of_novel(self.novel_size, self.sizes)

    @property
    def personal_layers(self) -> int:
        """Number of last layers that the hypernetwork does not make."""
        return self.head_layers

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Fit a new embedding through the frozen hypernetwork, and a fresh head."""
        self.refuse_predictor(predictor)
        size = (self.novel_rounds, self.novel_steps, self.novel_batch_size)
        return predict_with(task, self.fit(task, state, support, *size, generator))
