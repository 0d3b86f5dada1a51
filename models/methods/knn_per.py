"""kNN-Per: a global model, mixed with the votes of the client's nearest samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.method import Personalization, Predictor
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.families.neighbours import (
    Neighbours,
    held_back,
    log_mixture,
    without_held_back,
)
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.heads import features_and_logits
from latecomer.models.task.state import State, part
from latecomer.models.task.task import Task

NEIGHBOURS = (5, 10)
WEIGHTS = tuple(tenth / 10 for tenth in range(11))
HELD_BACK = 0.1
"""Share of a seen client's support that training does not see."""


@dataclass(frozen=True, kw_only=True)
class KNNPer(AveragedWeights):
    r"""kNN-Per (Marfoq et al., 2022) on FedAvg's model.

    A client, seen or not, is served ``(1 - weight) * p_global(y | x) + weight * p_knn(y | x)``, in
    logarithms. With ``phi`` the inputs of the global model's last layer, ``p_knn`` are the shares
    of the classes among the ``k`` nearest support samples, sample ``i`` counting in proportion to
    ``exp(-|phi(x) - phi(x_i)|^2 / (dim(phi) * scale))``.

    ``k`` in {5, 10} and the weight in {0, .1, ..., 1} are chosen for each client by its error on
    samples that the global model was not trained on; among equals the lowest log-loss, then the
    smallest weight, wins. Of a new client that is its whole support. A seen client keeps a tenth of
    its support (rounded up) back from training, evenly spaced and the same for every seed. The
    neighbours of a sample, in choosing, are all other samples of the client. A client with one
    sample holds nothing back and is served the global model.

    Training is FedAvg on what is not held back. Marfoq et al. choose on validation data and
    PeFLL's authors by cross-validation on each client's data; a choice on samples that the global
    model has fitted would lean towards it, in the end to weight 0.

    Attributes
    ----------
    scale : float
        Width of the kernel.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    scale: float = number(100.0, above=0)

    name: ClassVar[str] = "knn_per"
    called: ClassVar[str] = "kNN-Per"
    paper: ClassVar[str] = "Marfoq et al., ICML 2022"
    cites: ClassVar[tuple[str, ...]] = ("marfoq2022",)
    look: ClassVar[int | None] = 14
    personalization: ClassVar[Personalization] = "knn"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own neighbours"
    numbers_version: ClassVar[int] = 2
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper and code",
            "k and weight are chosen for each client: a seen one on a tenth of its support that "
            "training does not see, a new client by leaving one out. The paper chooses on "
            "validation data, the code scans the weight on test data, PeFLL's baselines choose by "
            "cross-validation.",
            "yes, by how much is not known: chosen on samples that a net was trained on, a weight "
            "of 0 wins once the net fits them, and seen clients get FedAvg's. Chosen on others "
            "they keep what they have: "
            "{checks pefll-table1-knn-per}; {published pefll-table1-knn-per}",
        ),
    )

    def trained_on(self, clients: Clients) -> Clients:
        """Leave out what seen clients choose by."""
        return without_held_back(clients, HELD_BACK)

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
        """Choose ``k`` and the weight by the samples held back, and mix."""
        self.refuse_predictor(predictor)
        return self._mixed(task, state, support, seen=True)

    def newcomers_model(self, task: Task, state: State, support: Samples) -> Predictor:
        """Choose ``k`` and the weight by the whole support, and mix."""
        return self._mixed(task, state, support, seen=False)

    def choices(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Mapping[str, float]:
        """Return ``knn_k`` and ``knn_weight``, the weight of the neighbours."""
        _, k, weight = self._chosen(task, state, support, seen=member is not None)
        return {"knn_k": k, "knn_weight": weight}

    def _mixed(self, task: Task, state: State, support: Samples, *, seen: bool) -> Predictor:
        neighbours, k, weight = self._chosen(task, state, support, seen=seen)

        def predict(x: Tensor) -> Tensor:
            phi, p_global = _embedded(task, state, x)
            return log_mixture(p_global, neighbours.vote(phi, k), weight)

        return predict

    def _chosen(
        self, task: Task, state: State, support: Samples, *, seen: bool
    ) -> tuple[Neighbours, int, float]:
        """Return a client's neighbours, and what it chooses by samples new to the global model."""
        labels, size = F.one_hot(support.labels(), task.n_classes), len(support)
        stored, p_global = _embedded(task, state, support.x)
        neighbours = Neighbours(stored, labels.to(stored.dtype), self.scale)
        if size == 1:
            return neighbours, NEIGHBOURS[0], 0.0
        judged = held_back(size, HELD_BACK) if seen else torch.ones(size, dtype=torch.bool)
        return neighbours, *neighbours.best(p_global, judged, NEIGHBOURS, WEIGHTS)


def _embedded(task: Task, state: State, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inputs of the global model's last layer, and its probabilities."""
    weights = part(state.server, "target")
    with torch.no_grad():
        phi, logits = features_and_logits(task, weights, x)
    return phi, logits.softmax(dim=1)
