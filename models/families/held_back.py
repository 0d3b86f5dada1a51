"""Samples of seen clients that training does not see, so that serving may choose by them."""

import math
from dataclasses import replace

import torch
from torch import Tensor
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
