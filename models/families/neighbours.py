"""Votes of a client's nearest samples, mixed with a model by samples that training does not see."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from latecomer.models.task.clients import Clients


def held_back(size: int, share: float) -> Tensor:
    """Return which of a client's support samples training does not see, bool ``[size]``.

    A share, rounded up and evenly spaced; none of a single sample.

    >>> held_back(12, 0.1).nonzero().flatten().tolist(), held_back(1, 0.1).tolist()
    ([5, 11], [False])
    """
    held = math.ceil(size * share) if size > 1 else 0
    upto = torch.arange(size + 1) * held // size
    return upto[1:] > upto[:-1]


def without_held_back(clients: Clients, share: float) -> Clients:
    """Return the clients with the samples that training sees."""
    seen = [(~held_back(size, share)).nonzero().flatten() for size in clients.sizes_on_host[0]]
    places = pad_sequence(seen, batch_first=True).to(clients.device)
    sizes = torch.tensor([len(one) for one in seen], device=clients.device)
    return replace(clients, support=clients.support.gather(1, places), support_sizes=sizes)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """A client's samples in the space that its neighbours are sought in.

    ``stored [n, dim]`` are features, ``votes [n, n_classes]`` classes as unit vectors, ``scale``
    is the width of the kernel.
    """

    stored: Tensor
    votes: Tensor
    scale: float

    def vote(self, phi: Tensor, k: int, *, leave_out: bool = False) -> Tensor:
        """Return the shares of classes among the ``k`` nearest of features ``phi [b, dim]``.

        A sample counts in proportion to ``exp(-distance^2 / (dim * scale))``. With ``leave_out``
        the features are the stored ones, and no sample votes on itself.
        """
        squared = torch.cdist(phi, self.stored).square()
        if leave_out:
            squared = squared.clone().fill_diagonal_(torch.inf)
        nearest = squared.topk(min(k, len(self.stored) - leave_out), dim=1, largest=False)
        counts = (-nearest.values / (phi.shape[1] * self.scale)).softmax(dim=1)
        return torch.einsum("bk,bkc->bc", counts, self.votes[nearest.indices])

    def best(
        self, others: Tensor, judged: Tensor, ks: Sequence[int], weights: Sequence[float]
    ) -> tuple[int, float]:
        """Return the ``k`` and the weight of the votes with the least error on ``judged`` samples.

        Among equals the lowest log-loss, then the smallest weight, wins. ``others`` are the
        probabilities ``[n, n_classes]`` that are mixed with the votes; no sample votes on itself.
        """
        judged = judged.to(self.stored.device)
        y, tried = self.votes.argmax(dim=1)[judged], []
        for k in ks:
            own = self.vote(self.stored, k, leave_out=True)
            for weight in weights:
                logits = log_mixture(others[judged], own[judged], weight)
                wrong = int((logits.argmax(dim=1) != y).sum())
                tried.append((wrong, float(F.nll_loss(logits, y)), weight, k))
        _, _, weight, k = min(tried)
        return k, weight


def log_mixture(one: Tensor, other: Tensor, weight: float) -> Tensor:
    """Return the logarithms of ``(1 - weight) * one + weight * other``."""
    mixed = (1 - weight) * one + weight * other
    return mixed.clamp_min(torch.finfo(mixed.dtype).tiny).log()
