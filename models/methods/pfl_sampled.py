"""PFL-sampled: pFedHN whose newcomers get the models of randomly drawn seen clients."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.embedded_clients import EmbeddedClients
from latecomer.models.method import Personalization, Predictor, predict_with
from latecomer.models.state import State
from latecomer.models.task import Samples, Task


@dataclass(frozen=True, kw_only=True)
class PFLSampled(EmbeddedClients):
    """PFL-sampled, a baseline of OD-PFL (Amosy, Eyal, Chechik, 2021).

    Its figure is the mean accuracy of all seen clients' models on a newcomer. So a newcomer is
    served at random: every input gets the logits of a seen client's model, drawn uniformly, all
    models being used equally often up to one. The expected error (and log-loss) of this ``gibbs``
    predictor is exactly the mean over the models; averaging probabilities or logits would be
    another, better predictor (an ensemble). Draws are fixed when the client is first served.

    Training is pFedHN's, and a seen client is served the model of its own embedding. Newcomers'
    data are not looked at.

    Attributes
    ----------
    server_lr, server_momentum, server_weight_decay, resting_embeddings
        SGD of hypernetwork and embeddings, see
        :class:`~latecomer.models.embedded_clients.EmbeddedClients`.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step; ``clip_norm`` holds for server gradients too.
    embedding_dim : int or None
        Length of an embedding; None: ``1 + floor(n / 4)`` with n seen clients.
    sizes : tuple of str
        Target networks of several sizes, see :class:`EmbeddedClients`.
    """

    name: ClassVar[str] = "pfl_sampled"
    paper: ClassVar[str] = "Amosy, Eyal, Chechik, 2021, arXiv:2111.05745"
    personalization: ClassVar[Personalization] = "unlabelled"
    needs_labels: ClassVar[bool] = False
    numbers_version: ClassVar[int] = 2

    @property
    def predictors(self) -> tuple[str, ...]:
        """Only ``gibbs``: the model is drawn anew for every input."""
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
        return predict_with(task, self.weights_of(task, state, index))

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "gibbs",
        generator: Generator,
    ) -> Predictor:
        """Return the predictor that asks another client's model about every input."""
        self.refuse_predictor(predictor)
        n_clients = len(state.clients["embedding"])
        seed = int(torch.randint(2**62, (), generator=generator))

        def predict(x: Tensor) -> Tensor:
            draw = torch.Generator().manual_seed(seed)
            order = torch.randperm(n_clients, generator=draw)
            owners = order[torch.randperm(len(x), generator=draw) % n_clients]
            logits = x.new_empty(len(x), task.n_classes)
            for owner in sorted(set(owners.tolist())):
                asked = (owners == owner).to(x.device)
                logits[asked] = predict_with(task, self.weights_of(task, state, owner))(x[asked])
            return logits

        return predict
