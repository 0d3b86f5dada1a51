"""kNN-Per: a global model, mixed with the votes of the client's nearest samples."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.method import Personalization, Predictor
from latecomer.models.families.averaged_weights import AveragedWeights
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.heads import features
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
    smallest weight, wins. Of a newcomer that is its whole support. A seen client keeps a tenth of
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
    numbers_version: ClassVar[int] = 2

    def trained_on(self, clients: Clients) -> Clients:
        """Leave out what seen clients choose by."""
        sizes = clients.sizes_on_host[0]
        kept = [(~_held_back(size)).nonzero().flatten() for size in sizes]
        places = pad_sequence(kept, batch_first=True).to(clients.device)
        left = torch.tensor([len(one) for one in kept], device=clients.device)
        return replace(clients, support=clients.support.gather(1, places), support_sizes=left)

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
        return self._mixed(task, state, support, _held_back(len(support)))

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Choose ``k`` and the weight by the whole support, and mix."""
        self.refuse_predictor(predictor)
        return self._mixed(task, state, support, torch.ones(len(support), dtype=torch.bool))

    def choices(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Mapping[str, float]:
        """Return ``knn_k`` and ``knn_weight``, the weight of the neighbours."""
        size = len(support)
        judged = torch.ones(size, dtype=torch.bool) if member is None else _held_back(size)
        k, weight = self._choose(*self._stored(task, state, support), judged)
        return {"knn_k": k, "knn_weight": weight}

    def _mixed(self, task: Task, state: State, support: Samples, judged: Tensor) -> Predictor:
        """Return the mixture with what is best for the ``judged`` support samples, ``[n]``."""
        stored, votes, p_global = self._stored(task, state, support)
        k, weight = self._choose(stored, votes, p_global, judged)

        def predict(x: Tensor) -> Tensor:
            phi, p = _embedded(task, state, x)
            return _log_mixture(p, self._vote(phi, stored, votes, k), weight)

        return predict

    def _stored(self, task: Task, state: State, support: Samples) -> tuple[Tensor, Tensor, Tensor]:
        """Return the support's features, its labels as votes, and ``p_global`` of it."""
        labels = F.one_hot(support.labels(), task.n_classes)
        stored, p_global = _embedded(task, state, support.x)
        return stored, labels.to(stored.dtype), p_global

    def _choose(
        self, stored: Tensor, votes: Tensor, p_global: Tensor, judged: Tensor
    ) -> tuple[int, float]:
        """Return the best ``k`` and weight by the error on the judged support samples."""
        if len(stored) == 1:
            return NEIGHBOURS[0], 0.0
        judged = judged.to(stored.device)
        y, tried = votes.argmax(dim=1)[judged], []
        for k in NEIGHBOURS:
            p_knn = self._vote(stored, stored, votes, k, leave_out=True)
            for weight in WEIGHTS:
                logits = _log_mixture(p_global[judged], p_knn[judged], weight)
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


def _held_back(size: int) -> Tensor:
    """Return which of a client's support samples training does not see, bool ``[size]``.

    >>> _held_back(12).nonzero().flatten().tolist(), _held_back(1).tolist()
    ([5, 11], [False])
    """
    held = math.ceil(size * HELD_BACK) if size > 1 else 0
    upto = torch.arange(size + 1) * held // size
    return upto[1:] > upto[:-1]


def _embedded(task: Task, state: State, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inputs of the global model's last layer, and its probabilities."""
    weights = part(state.server, "target")
    with torch.no_grad():
        return features(task, weights, x), task.logits(weights, x).softmax(dim=1)


def _log_mixture(p_global: Tensor, p_knn: Tensor, weight: float) -> Tensor:
    mixed = (1 - weight) * p_global + weight * p_knn
    return mixed.clamp_min(torch.finfo(mixed.dtype).tiny).log()
