"""New clients whose classes are spread unlike the seen clients': their shares without labels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor

from latecomer.models.engine.method import DrawnModel, Predictor
from latecomer.models.task.clients import Clients, Samples

MOST_STEPS = 1000
GAP = 1e-3
"""Nats an input by which other shares may be likelier when expectation and maximisation ends."""
SINGULAR = 1e-4
"""Least over largest singular value of a confusion matrix below which it is not inverted."""
_LEAST = 1e-9
"""Weight of a class that is ruled out: its cross-entropy stays a number."""

Reweigh = Callable[[Predictor, Tensor], Tensor]
"""Maps a new client's model and its inputs to what the logits of the classes gain."""


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


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of the classes, at least 0, and whether they are those of a ridge.

    That is where the confusion matrix could not be inverted.
    """

    values: Tensor
    ridge: bool


def weights_by_bbse(confusion: Tensor, predicted: Tensor, fewest: int) -> Weights:
    r"""Return how much likelier each class is for a client, from what a model predicts for it.

    If only the shares of the classes differ (label shift), the shares ``m`` of a model's answers on
    the client's inputs are ``m = C w`` for ``C_ij = P(answer i, class j)`` on labelled data of the
    source and ``w_j`` the client's share of class ``j`` over the source's. This solves for ``w``,
    sets what is negative to 0 and scales ``w`` so that the client's shares add up to 1. A class
    without labelled samples keeps weight 1 (ours). Where the least singular value of ``C`` is below
    ``SINGULAR`` of the largest, ``w`` is the ridge regression of the authors' code instead,
    ``(C'C + I / fewest)^-1 C'm``.

    Parameters
    ----------
    confusion : Tensor
        ``[n_classes, n_classes]``: shares of labelled samples by answer and class, adding up to 1.
    predicted : Tensor
        Shares of the answers on the client's inputs, ``[n_classes]``.
    fewest : int
        The smaller number of samples: of the labelled ones and the client's inputs, at least 1.

    Returns
    -------
    Weights
        All 1 where nothing positive is left.

    References
    ----------
    Lipton, Wang, Smola, ICML 2018, Algorithm 1 and Proposition 2 (black box shift estimation).

    Examples
    --------
    >>> confusion = torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.float64)
    >>> predicted = torch.tensor([0.65, 0.35], dtype=torch.float64)
    >>> weights_by_bbse(confusion, predicted, 100).values.round(decimals=9).tolist()
    [1.5, 0.5]
    """
    source = confusion.sum(dim=0)
    held = source > 0
    known = confusion[:, held]
    singular = torch.linalg.svdvals(known)
    ridge = float(singular[-1]) < SINGULAR * float(singular[0])
    if ridge:
        bent = known.T @ known + torch.eye(known.shape[1]).to(known) / fewest
        solved = torch.linalg.solve(bent, known.T @ predicted)
    else:
        solved = torch.linalg.pinv(known) @ predicted
    solved = solved.clamp(min=0)
    weights, total = torch.ones_like(source), float(solved @ source[held])
    if total > 0:
        weights[held] = solved / total
    return Weights(weights, ridge)


def answers(model: Predictor, x: Tensor, n_classes: int) -> Tensor:
    """Return which class a model answers for each input, one-hot ``[n, n_classes]`` in float64."""
    with torch.no_grad():
        chosen = model(x).argmax(dim=1)
    return torch.nn.functional.one_hot(chosen.cpu(), n_classes).double()


@dataclass(frozen=True, eq=False)
class ByEm:
    """Classes reweighed by expectation and maximisation, from the shares in training."""

    trained: Tensor
    reads_validation: ClassVar[bool] = False

    @classmethod
    def of(cls, seen: Clients, held_out: Clients, n_classes: int) -> "ByEm":
        """Learn what is needed from seen clients; ``held_out`` has validation data as query."""
        return cls(pooled_shares(seen, n_classes))

    def __call__(self, model: Predictor, x: Tensor) -> Tensor:
        """Return the logarithms of the classes' weights, ``[n_classes]``."""
        with torch.no_grad():
            likely = model(x).softmax(dim=1)
        before = self.trained.to(likely)
        return shares_by_em(likely, before).log() - before.log()


@dataclass(frozen=True, eq=False)
class ByBbse:
    """Classes reweighed by the model's own confusion matrix, see `weights_by_bbse`.

    ``held_out`` has labelled samples that no training saw as query data.
    """

    held_out: Clients
    n_classes: int
    reads_validation: ClassVar[bool] = True

    @classmethod
    def of(cls, seen: Clients, held_out: Clients, n_classes: int) -> "ByBbse":
        """Keep ``held_out``, the seen clients with validation data as query."""
        return cls(held_out, n_classes)

    def found(self, model: Predictor, x: Tensor) -> Weights:
        """Return the weights, and how they were found; all 1 without inputs or labelled samples."""
        if not len(x) or not len(self.held_out):
            return Weights(torch.ones(self.n_classes, dtype=torch.float64), False)
        confusion = torch.zeros(self.n_classes, self.n_classes, dtype=torch.float64)
        n_labelled = 0
        for place in range(len(self.held_out)):
            own = self.held_out.query_of(place)
            truth = torch.nn.functional.one_hot(own.labels().cpu(), self.n_classes).double()
            confusion += answers(model, own.x, self.n_classes).T @ truth
            n_labelled += len(truth)
        predicted = answers(model, x, self.n_classes).mean(dim=0)
        return weights_by_bbse(confusion / n_labelled, predicted, min(n_labelled, len(x)))

    def __call__(self, model: Predictor, x: Tensor) -> Tensor:
        """Return the logarithms of the classes' weights, ``[n_classes]``."""
        return self.found(model, x).values.clamp(min=_LEAST).log()


PRIORS: Mapping[str, type[ByEm | ByBbse]] = MappingProxyType({"em": ByEm, "bbse": ByBbse})
"""What ``serving.prior`` names."""


def corrected(model: Predictor, support: Samples, reweigh: Reweigh) -> Predictor:
    """Return a client's model under the client's own shares, found from its inputs alone.

    Of a model drawn among several, each has shares of its own.
    """
    if isinstance(model, DrawnModel):
        made = model.model
        return replace(model, model=lambda one: corrected(made(one), support, reweigh))
    turn = reweigh(model, support.x).to(support.x)
    return lambda x: model(x) + turn
