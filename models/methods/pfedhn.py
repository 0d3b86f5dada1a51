"""pFedHN: a hypernetwork makes each client's model from an embedding learnt for that client."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from latecomer.models.embedded_clients import EmbeddedClients
from latecomer.models.hyperparameters import choice, count
from latecomer.models.method import Personalization, Predictor, predict_with
from latecomer.models.state import State
from latecomer.models.target_sizes import place_of_novel
from latecomer.models.targets import TARGETS
from latecomer.models.task import Clients, Samples, Task


@dataclass(frozen=True, kw_only=True)
class PFedHN(EmbeddedClients):
    """pFedHN (Shamsian, Navon, Fetaya, Chechik, ICML 2021).

    The change of the local weights is pulled back through the hypernetwork to its weights (mean
    over the cohort) and to each client's embedding. A newcomer fits a new embedding through the
    frozen hypernetwork for ``novel_rounds`` rounds of local training.

    With fixed descriptors a client's embedding is its support's class proportions, of length
    ``n_classes``, and is not learnt: only the hypernetwork moves. A newcomer is then served by one
    forward pass on the proportions of its own support labels, with no training.

    Attributes
    ----------
    descriptors : str
        ``learned`` embeddings, or ``class_proportions``.
    server_lr, server_momentum, server_weight_decay : float
        SGD of hypernetwork and embeddings (moved only when their client is drawn).
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step; ``clip_norm`` holds for server gradients too.
    embedding_dim : int or None
        Length of a learnt embedding; None: ``1 + floor(n / 4)`` with n seen clients.
    sizes : tuple of str
        Target networks of several sizes, see :class:`EmbeddedClients`.
    novel_rounds, novel_steps, novel_batch_size : int
        Rounds, local steps a round and batch size of fitting a newcomer's embedding.
    novel_size : str
        Which of ``sizes`` newcomers get: ``largest``, the task's target, or a name.
    """

    descriptors: str = choice("learned", "class_proportions")
    novel_rounds: int = count(20, least=0)
    novel_steps: int = count(50)
    novel_batch_size: int = count(64)
    novel_size: str = choice("largest", *TARGETS)

    name: ClassVar[str] = "pfedhn"
    paper: ClassVar[str] = "Shamsian et al., ICML 2021"
    personalization: ClassVar[Personalization] = "embedding"
    needs_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.descriptors == "learned":
            return
        if self.embedding_dim is not None:
            raise ValueError(
                "embedding_dim must be left out with descriptors=class_proportions, which are as "
                f"long as there are classes, got embedding_dim={self.embedding_dim}"
            )
        # The class tells how it serves by default; nothing is fitted to this variant's newcomers.
        object.__setattr__(self, "personalization", "forward")

    @property
    def novel_place(self) -> int:
        """Which of ``sizes`` newcomers get."""
        return place_of_novel(self.novel_size, self.sizes)

    def fixed_embeddings(self, task: Task, clients: Clients) -> Tensor | None:
        """Return the class proportions of every client's support, where these are used."""
        if self.descriptors == "learned":
            return None
        owned = zip(clients.support, clients.support_sizes.tolist(), strict=True)
        return torch.stack(
            [class_proportions(task, clients.labels(rows[:size])) for rows, size in owned]
        )

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Fit a new embedding through the frozen hypernetwork, or take the class proportions."""
        self.refuse_predictor(predictor)
        if self.descriptors == "class_proportions":
            proportions = class_proportions(task, support.labels())
            return predict_with(task, self.made_of(task, state, proportions, self.novel_place))
        size = (self.novel_rounds, self.novel_steps, self.novel_batch_size)
        return predict_with(task, self.fit(task, state, support, *size, generator))


def class_proportions(task: Task, y: Tensor) -> Tensor:
    """Return the share of every class among labels ``y [b]``, ``[n_classes]``.

    >>> from latecomer.models.task import make_task
    >>> task = make_task(input_shape=(6,), n_classes=3)
    >>> class_proportions(task, torch.tensor([2, 0, 2, 2]))
    tensor([0.2500, 0.0000, 0.7500])
    """
    return F.one_hot(y, task.n_classes).to(task.dtype).mean(dim=0)
