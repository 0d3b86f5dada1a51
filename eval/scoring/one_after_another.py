"""Scoring the clients of a group one after another, for a CPU.

Consecutive clients that get the same model are predicted together, which saves calls. Scores are
identical, to the last digit, to serving and predicting each client separately.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import prod

import torch
from torch import Tensor

from latecomer.eval.scoring.scores import ClientScore
from latecomer.models.engine.method import FixedWeights, Predictor, versions
from latecomer.models.engine.threads import each, thread_count
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.targets import apply_to_parts
from latecomer.models.task.task import Task

Mask = Callable[[Tensor, Tensor], Tensor]
"""Changes the logits of unknown classes: (logits, mask of known classes) -> logits."""


def unmasked(logits: Tensor, known: Tensor) -> Tensor:
    """Return the logits unchanged: a mask that does not need the known classes."""
    return logits


Serve = Callable[[Sequence[int], Sequence[Samples]], Iterable[Predictor]]
"""Maps several clients' numbers and supports to their predictors."""

_SERVED = 20, 2**23
"""Most clients served at a time, and most values in their support inputs."""
_PREDICTED = 1_000
"""Most samples predicted at a time, unless one client has more."""
_AT_A_TIME = 20
"""Most models that several threads predict with before more clients are served."""
_HELD = 2**24
"""Most weights of models that are kept to be scored on further query data, unless one has more."""

Served = tuple[int, Tensor]
"""A client's number, and the rows on which it is measured."""


def score_one_after_another(
    task: Task, clients: Clients, serve: Serve, mask: Mask, *, on_support: bool = False
) -> list[ClientScore]:
    """Serve and score every client; the arguments are those of ``score_side_by_side``."""
    return _scored(task, clients, served(task, clients, serve, on_support), mask)


def score_on_each(
    task: Task, tables: Sequence[Clients], serve: Serve, mask: Mask
) -> list[list[ClientScore]]:
    """Serve clients once and score them on the query data of every table.

    The scores are those of scoring one table after another. Tables hold the same clients with the
    same supports.
    """
    scores: list[list[ClientScore]] = [[] for _ in tables]
    n_weights = sum(map(prod, task.shapes.values()))
    at_a_time = min(max(_HELD // n_weights, 1), _AT_A_TIME)
    for places, supports in _supports(task, tables[0]):
        models = zip(places, serve(places, supports), strict=True)
        while few := [*islice(models, at_a_time)]:
            for clients, own in zip(tables, scores, strict=True):
                rows, sizes = clients.query, clients.sizes_on_host[1]
                pairs = [(model, (place, rows[place, : sizes[place]])) for place, model in few]
                own += _scored(task, clients, pairs, mask)
    return scores


def _scored(
    task: Task, clients: Clients, pairs: Iterable[tuple[Predictor, Served]], mask: Mask
) -> list[ClientScore]:
    """Score models on the rows of their clients."""
    ids = clients.ids.tolist()
    scores: list[ClientScore] = []

    def told(group: tuple[Predictor, list[Served]]) -> list[list[tuple[int, float]]]:
        model, together = group
        return [_told(task, clients, one, together, mask) for one in versions(model)]

    groups = _by_model(pairs)
    while several := [*islice(groups, _AT_A_TIME if thread_count() > 1 else 1)]:
        for (_, together), answers in zip(
            several, each(told, several, apart=_apart(task, several)), strict=True
        ):
            for (place, rows), *found in zip(together, *answers, strict=True):
                wrong, loss = (sum(numbers) / len(numbers) for numbers in zip(*found, strict=True))
                n_support = clients.sizes_on_host[0][place]
                scores.append(ClientScore(ids[place], n_support, len(rows), wrong, loss))
    return scores


def _apart(task: Task, groups: Sequence[tuple[Predictor, list[Served]]]) -> bool:
    """Tell whether models predict in several threads: only such as are known to allow it."""
    if thread_count() == 1 or not all(isinstance(model, FixedWeights) for model, _ in groups):
        return False
    n_samples = [sum(len(rows) for _, rows in together) for _, together in groups]
    return task.gains_from_threads(min(n_samples))


def served(
    task: Task, clients: Clients, serve: Serve, on_support: bool = False
) -> Iterator[tuple[Predictor, Served]]:
    """Yield each predictor with its client, serving several clients at a time."""
    table, sizes = clients.query, clients.sizes_on_host[1]
    if on_support:
        table, sizes = clients.support, clients.sizes_on_host[0]
    for places, supports in _supports(task, clients):
        for place, model in zip(places, serve(places, supports), strict=True):
            yield model, (place, table[place, : sizes[place]])


def _supports(task: Task, clients: Clients) -> Iterator[tuple[range, list[Samples]]]:
    """Yield the numbers and supports of clients that are served at a time."""
    most, numbers = _SERVED
    each = numbers // (clients.support.shape[1] * prod(task.input_shape))
    for first in range(0, len(clients), step := min(max(each, 1), most)):
        places = range(first, min(first + step, len(clients)))
        yield places, [clients.support_of(place) for place in places]


def _by_model(
    pairs: Iterable[tuple[Predictor, Served]],
) -> Iterator[tuple[Predictor, list[Served]]]:
    """Yield each model with the consecutive clients that can be predicted together."""
    model: Predictor | None = None
    together: list[Served] = []
    size = 0
    for made, one in pairs:
        n_samples = len(one[1])
        if model is not None and (size + n_samples > _PREDICTED or not _same(model, made)):
            yield model, together
            together, size = [], 0
        model = made
        together.append(one)
        size += n_samples
    if model is not None:
        yield model, together


def _same(one: Predictor, other: Predictor) -> bool:
    """Return whether two predictors share one net and its weight tensors, not just equal values."""
    if one is other:
        return True
    if not (isinstance(one, FixedWeights) and isinstance(other, FixedWeights)):
        return False
    pairs = zip(one.weights.values(), other.weights.values(), strict=True)
    return one.task is other.task and all(a.is_set_to(b) for a, b in pairs)


def _told(
    task: Task, clients: Clients, model: Predictor, together: Sequence[Served], mask: Mask
) -> list[tuple[int, float]]:
    """Return each client's number of wrongly classified samples and its mean loss."""
    rows, sizes = torch.cat([rows for _, rows in together]), [len(rows) for _, rows in together]
    with torch.no_grad():
        several = _logits(model, clients.inputs(rows), sizes)
        logits, y = torch.cat(several), clients.labels(rows)
        if mask is not unmasked:
            known = [
                known_classes(task, clients.support_of(place)).expand(size, -1)
                for (place, _), size in zip(together, sizes, strict=True)
            ]
            logits = mask(logits, torch.cat(known))
        wrong = torch.split(logits.argmax(dim=1) != y, sizes)
        pairs = zip(several, torch.split(y, sizes), strict=True)
        losses = [float(torch.nn.functional.cross_entropy(*pair)) for pair in pairs]
    return [(sum(one.tolist()), loss) for one, loss in zip(wrong, losses, strict=True)]


def known_classes(task: Task, own: Samples) -> Tensor:
    """Return which classes occur among a client's labels, bool ``[n_classes]``."""
    labels = own.labels()
    known = torch.zeros(task.n_classes, dtype=torch.bool, device=labels.device)
    known[labels] = True
    return known


def _logits(model: Predictor, x: Tensor, sizes: list[int]) -> list[Tensor]:
    """Return a model's logits ``[B, n_classes]`` for each client's samples."""
    if len(sizes) == 1 or not isinstance(model, FixedWeights):
        return [model(one) for one in torch.split(x, sizes)]
    return apply_to_parts(model.task.target, model.weights, x, sizes)
