"""pFedHN: a hypernetwork makes each client's model from an embedding learnt for that client."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from latecomer.models.engine.hyperparameters import choice
from latecomer.models.engine.method import Personalization
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.families.embedded_clients import FittedEmbeddings
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class PFedHN(FittedEmbeddings):
    """pFedHN (Shamsian, Navon, Fetaya, Chechik, ICML 2021).

    The change of the local weights is pulled back through the hypernetwork to its weights (mean
    over the cohort) and to each client's embedding. A new client fits a new embedding through the
    frozen hypernetwork for ``novel_rounds`` rounds of local training.

    With fixed descriptors a client's embedding is its support's class proportions, of length
    ``n_classes``, and is not learnt: only the hypernetwork moves. A new client is then served by
    one forward pass on the proportions of its own support labels, with no training.

    Attributes
    ----------
    descriptors : str
        ``learned`` embeddings, or ``class_proportions``.
    server_lr, server_momentum, server_weight_decay, resting_embeddings, clip_norm
        As for :class:`~latecomer.models.families.embedded_clients.EmbeddedClients`.
    local_lr, local_momentum, local_weight_decay, embedding_dim, sizes
        As for that class, too.
    novel_lr, novel_rounds, novel_steps, novel_batch_size, novel_size, warm
        As for :class:`~latecomer.models.families.embedded_clients.FittedEmbeddings`.
    """

    descriptors: str = choice("learned", "class_proportions")

    name: ClassVar[str] = "pfedhn"
    called: ClassVar[str] = "pFedHN"
    paper: ClassVar[str] = "Shamsian et al., ICML 2021"
    cites: ClassVar[tuple[str, ...]] = ("shamsian2021",)
    look: ClassVar[int | None] = 1
    personalization: ClassVar[Personalization] = "embedding"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    numbers_version: ClassVar[int] = 2
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "A class is divided among the clients that hold it, as in the text; the code makes a "
            "share more than it uses, so that a client of 10 holds a third of a class and here a "
            "half (split.shares uniform_and_one_unused is the code's way).",
            "yes, by how much is not known: clients of 10 have half as much again, of 50 a tenth, "
            "of 100 a twentieth",
        ),
        (
            "code",
            "A new client's embedding is fitted at a rate of its own, novel_lr .3; the code reuses "
            "the server's .01.",
            "yes: right are, {rates pfedhn-newcomers}",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.descriptors == "learned":
            return
        if self.embedding_dim is not None:
            raise ValueError(
                "embedding_dim must be left out with descriptors=class_proportions, which are as "
                f"long as there are classes, got embedding_dim={self.embedding_dim}"
            )
        fitting = ("novel_lr", "novel_rounds", "novel_steps", "novel_batch_size", "warm")
        for one in fields(self):
            if one.name in fitting and (value := getattr(self, one.name)) != one.default:
                raise ValueError(
                    f"{one.name} must be left out with descriptors=class_proportions, which fit "
                    f"nothing to new clients, got {one.name}={value}"
                )
        # The class attribute describes the default; this variant fits nothing to new clients.
        object.__setattr__(self, "personalization", "forward")

    def fixed_embeddings(self, task: Task, clients: Clients) -> Tensor | None:
        """Return the class proportions of every client's support, where these are used."""
        if self.descriptors == "learned":
            return None
        owned = zip(clients.support, clients.support_sizes.tolist(), strict=True)
        return torch.stack(
            [class_proportions(task, clients.labels(rows[:size])) for rows, size in owned]
        )

    def fit_each(
        self, task: Task, state: State, supports: Sequence[Samples], generators: Sequence[Generator]
    ) -> list[Params]:
        """Fit embeddings through the frozen hypernetwork, or take the class proportions."""
        if self.descriptors == "learned":
            return super().fit_each(task, state, supports, generators)
        proportions = [class_proportions(task, support.labels()) for support in supports]
        return [self.made_of(task, state, shares, self.novel_place) for shares in proportions]


def class_proportions(task: Task, y: Tensor) -> Tensor:
    """Return the share of every class among labels ``y [b]``, ``[n_classes]``.

    >>> from latecomer.models.task.task import make_task
    >>> task = make_task(input_shape=(6,), n_classes=3)
    >>> class_proportions(task, torch.tensor([2, 0, 2, 2]))
    tensor([0.2500, 0.0000, 0.7500])
    """
    return F.one_hot(y, task.n_classes).to(task.dtype).mean(dim=0)
