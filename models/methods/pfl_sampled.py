"""PFL-sampled: pFedHN whose new clients get the model of a randomly drawn seen client."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator

from latecomer.models.engine.method import DrawnModel, Personalization, Predictor, predict_with
from latecomer.models.engine.newcomers import Messages, NewcomersGet, one_model
from latecomer.models.families.embedded_clients import EmbeddedClients
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import State
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class PFLSampled(EmbeddedClients):
    """PFL-sampled, a baseline of OD-PFL (Amosy, Eyal, Chechik, 2021).

    A new client is served one seen client's model, drawn uniformly. As in the paper, what is
    measured is the mean accuracy (and log-loss) of all seen clients' models on the new client, so
    the result does not depend on the draw: see :class:`~latecomer.models.engine.method.DrawnModel`.
    Averaging probabilities or logits would be another, better predictor (an ensemble).

    Training is pFedHN's, and a seen client is served the model of its own embedding. New clients'
    data are not used.

    Settings are those of :class:`~latecomer.models.families.embedded_clients.EmbeddedClients`. For
    the paper's ``embedding_dim`` set a quarter of the number of all clients.
    """

    name: ClassVar[str] = "pfl_sampled"
    called: ClassVar[str] = "PFL-sampled"
    paper: ClassVar[str] = "Amosy, Eyal, Chechik, 2021, arXiv:2111.05745"
    cites: ClassVar[tuple[str, ...]] = ("amosy2024", "shamsian2021")
    look: ClassVar[int | None] = 21
    personalization: ClassVar[Personalization] = "unlabelled"
    needs_labels: ClassVar[bool] = False
    newcomers_get: ClassVar[NewcomersGet] = "a seen client's model"
    least_support: ClassVar[int] = 0
    numbers_version: ClassVar[int] = 3
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper",
            "Models are our pFedHN's, whose departures it shares; all seen clients' models are "
            "averaged over, so that no draw adds noise.",
            "not known",
        ),
    )

    @property
    def predictors(self) -> tuple[str, ...]:
        """Only ``gibbs``: a new client's model is drawn."""
        return ("gibbs",)

    def serve(
        self,
        task: Task,
        state: State,
        index: int,
        support: Samples,
        *,
        predictor: str = "gibbs",
        generator: Generator,
    ) -> Predictor:
        """Make the model of the client's own embedding; nothing is drawn."""
        self.refuse_predictor(predictor)
        return predict_with(task, self.own_model(task, state, index))

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "gibbs",
        generator: Generator,
    ) -> Predictor:
        """Draw a seen client's model; what is measured is the mean over all of them."""
        self.refuse_predictor(predictor)
        n_clients = len(state.clients["embedding"])
        drawn = int(torch.randint(n_clients, (), generator=generator))

        def model(owner: int) -> Predictor:
            return predict_with(task, self.own_model(task, state, owner))

        return DrawnModel(n_clients, drawn, model)

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return the drawn client's model, sent once."""
        return one_model(task)
