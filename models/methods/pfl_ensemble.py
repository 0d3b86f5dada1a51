"""PFL-ensemble: pFedHN whose new clients get the average of all seen clients' models' logits."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from latecomer.models.engine.method import Deterministic, Personalization, Predictor, predict_with
from latecomer.models.engine.newcomers import Messages, NewcomersGet, one_model
from latecomer.models.families.embedded_clients import EmbeddedClients
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import State
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class PFLEnsemble(Deterministic, EmbeddedClients):
    """PFL-ensemble, a baseline of OD-PFL (Amosy, Eyal, Chechik, 2021).

    A new client is served the mean of the logits of all seen clients' models; its own data are not
    used. Training is pFedHN's, and a seen client is served the model of its own embedding.

    Settings are those of :class:`~latecomer.models.families.embedded_clients.EmbeddedClients`. For
    the paper's ``embedding_dim`` set a quarter of the number of all clients.
    """

    name: ClassVar[str] = "pfl_ensemble"
    called: ClassVar[str] = "PFL-ensemble"
    paper: ClassVar[str] = "Amosy, Eyal, Chechik, 2021, arXiv:2111.05745"
    cites: ClassVar[tuple[str, ...]] = ("amosy2024", "shamsian2021")
    look: ClassVar[int | None] = 8
    personalization: ClassVar[Personalization] = "unlabelled"
    needs_labels: ClassVar[bool] = False
    newcomers_get: ClassVar[NewcomersGet] = "all seen clients' models"
    least_support: ClassVar[int] = 0
    numbers_version: ClassVar[int] = 2
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("paper", "Models are our pFedHN's, whose departures it shares.", "not known"),
    )

    def newcomers_model(self, task: Task, state: State, support: Samples) -> Predictor:
        """Return the mean of all seen clients' logits."""
        n_clients = len(state.clients["embedding"])

        def predict(x: Tensor) -> Tensor:
            # One model at a time: a population's weights need not fit into memory.
            total = torch.zeros(len(x), task.n_classes, dtype=task.dtype, device=x.device)
            for index in range(n_clients):
                total += predict_with(task, self.own_model(task, state, index))(x)
            return total / n_clients

        return predict

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return the models of all seen clients."""
        n_clients = len(state.clients["embedding"])
        return Messages(1, n_clients * one_model(task).down, 0)
