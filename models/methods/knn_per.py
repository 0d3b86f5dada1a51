"""kNN-Per: a global model, mixed with the votes of the client's nearest samples."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.method import Personalization, Predictor
from latecomer.models.families.averaged_weights import AveragedWeights
from latecomer.models.task.clients import Samples
from latecomer.models.task.heads import features
from latecomer.models.task.state import State, part
from latecomer.models.task.task import Task

NEIGHBOURS = (5, 10)
WEIGHTS = tuple(tenth / 10 for tenth in range(11))


@dataclass(frozen=True, kw_only=True)
class KNNPer(AveragedWeights):
    r"""kNN-Per (Marfoq et al., 2022) on FedAvg's model.

    A client, seen or not, is served ``(1 - weight) * p_global(y | x) + weight * p_knn(y | x)``, in
    logarithms. With ``phi`` the inputs of the global model's last layer, ``p_knn`` are the shares
    of the classes among the ``k`` nearest support samples, sample ``i`` counting in proportion to
    ``exp(-|phi(x) - phi(x_i)|^2 / (dim(phi) * scale))``.

    ``k`` in {5, 10} and the weight in {0, .1, ..., 1} are chosen for each client by leave-one-out
    error on its support; among equals the lowest log-loss, then the smallest weight, wins. A
    client with one sample is served the global model. Training is FedAvg.

    For a newcomer this choice is honest. For a seen client it is optimistic about ``p_global``,
    which was trained on the very samples it is judged by: the weight leans towards the global
    model. PeFLL's authors, too, choose by cross-validation on each client's data; Marfoq et al.
    choose on validation data, which here serve to choose rounds and rates and never reach a
    method. This affects only seen clients.

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

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Embed the support, choose ``k`` and the weight, and mix."""
        self.refuse_predictor(predictor)
        weights = part(state.server, "target")
        labels = F.one_hot(support.labels(), task.n_classes)

        def embedded(x: Tensor) -> tuple[Tensor, Tensor]:
            with torch.no_grad():
                return features(task, weights, x), task.logits(weights, x).softmax(dim=1)

        stored, p_global = embedded(support.x)
        votes = labels.to(stored.dtype)
        k, weight = self._choose(stored, votes, p_global)

        def predict(x: Tensor) -> Tensor:
            phi, p = embedded(x)
            return _log_mixture(p, self._vote(phi, stored, votes, k), weight)

        return predict

    def _choose(self, stored: Tensor, votes: Tensor, p_global: Tensor) -> tuple[int, float]:
        """Return the best ``k`` and weight by leave-one-out error on the support."""
        if len(stored) == 1:
            return NEIGHBOURS[0], 0.0
        y, tried = votes.argmax(dim=1), []
        for k in NEIGHBOURS:
            p_knn = self._vote(stored, stored, votes, k, leave_out=True)
            for weight in WEIGHTS:
                logits = _log_mixture(p_global, p_knn, weight)
                wrong = int((logits.argmax(dim=1) != y).sum())
                tried.append((wrong, float(F.nll_loss(logits, y)), weight, k))
        _, _, weight, k = min(tried)
        return k, weight

    def _vote(
        self, phi: Tensor, stored: Tensor, votes: Tensor, k: int, *, leave_out: bool = False
    ) -> Tensor:
        """Return ``p_knn`` of inputs with features ``phi``; ``leave_out``: not by itself."""
        squared = torch.cdist(phi, stored).square()
        if leave_out:
            squared = squared.clone().fill_diagonal_(torch.inf)
        nearest = squared.topk(min(k, len(stored) - leave_out), dim=1, largest=False)
        counts = (-nearest.values / (phi.shape[1] * self.scale)).softmax(dim=1)
        return torch.einsum("bk,bkc->bc", counts, votes[nearest.indices])


def _log_mixture(p_global: Tensor, p_knn: Tensor, weight: float) -> Tensor:
    mixed = (1 - weight) * p_global + weight * p_knn
    return mixed.clamp_min(torch.finfo(mixed.dtype).tiny).log()
