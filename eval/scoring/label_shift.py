"""Newcomers whose classes are spread unlike the seen clients': their shares without labels."""

from dataclasses import replace

import torch
from torch import Tensor

from latecomer.models.engine.method import DrawnModel, Predictor
from latecomer.models.task.clients import Clients, Samples

MOST_STEPS = 1000
GAP = 1e-3
"""Nats an input by which other shares may be likelier when expectation and maximisation ends."""


def pooled_shares(clients: Clients, n_classes: int) -> Tensor:
    """Return the shares ``[n_classes]`` of the classes among all support samples of clients.

    A class that nobody has counts as half a sample, so that no share is 0.
    """
    counts = torch.zeros(n_classes, dtype=torch.float64)
    for place in range(len(clients)):
        labels = clients.support_of(place).labels().cpu()
        counts += torch.bincount(labels, minlength=n_classes)
    counts = counts.clamp(min=0.5)
    return counts / counts.sum()


def shares_by_em(probabilities: Tensor, trained: Tensor) -> Tensor:
    r"""Return a client's likeliest shares of the classes, from predictions on its inputs alone.

    If only the shares of the classes differ between training and the client (label shift), a model
    that gives ``p(y | x)`` under the training shares ``q`` gives ``p(y | x) w_y / q_y``, scaled to
    add up to 1, under shares ``w``. The likelihood of the inputs is concave in ``w``; expectation
    and maximisation sets ``w`` to the mean of these over the inputs. Where one step multiplies no
    share by more than ``1 + g``, no shares are likelier by more than ``g`` nats an input; it ends
    at ``g`` of a thousandth.

    Parameters
    ----------
    probabilities : Tensor
        ``[n, n_classes]``, rows adding up to 1.
    trained : Tensor
        Shares in training, ``[n_classes]``, all above 0.

    Returns
    -------
    Tensor
        Shares ``[n_classes]``; those in training if there are no inputs.

    References
    ----------
    Saerens, Latinne, Decaestecker, *Neural Computation* 14 (2002), equations 2.8 and 2.9.

    Examples
    --------
    >>> sure = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> shares_by_em(sure, torch.tensor([0.5, 0.5]))
    tensor([0.7500, 0.2500])
    """
    shares, factors = trained, probabilities / trained
    for _ in range(MOST_STEPS if len(probabilities) else 0):
        growth = (factors / (factors @ shares).unsqueeze(1)).mean(dim=0)
        if float(growth.max()) <= 1 + GAP:
            break
        shares = shares * growth
    return shares


def corrected(model: Predictor, support: Samples, trained: Tensor) -> Predictor:
    """Return a client's model under the client's own shares, found from its inputs alone.

    Of a model drawn among several, each has shares of its own.
    """
    if isinstance(model, DrawnModel):
        made = model.model
        return replace(model, model=lambda one: corrected(made(one), support, trained))
    with torch.no_grad():
        likely = model(support.x).softmax(dim=1)
    before = trained.to(likely)
    turn = shares_by_em(likely, before).log() - before.log()
    return lambda x: model(x) + turn
